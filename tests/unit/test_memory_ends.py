"""Running out of memory is distinguished from every other end of a worker."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from conftest import make_spec

from adapters.base import Adapter
from adapters.worker.refused_memory import out_of_memory
from runner.ask import find_ending
from runner.batch_size.memory_limit import build_tried, compute_host_limit_bytes, estimate_data_peak_bytes
from runner.family import limit_data
from runner.launch import WorkerOutcome
from workloads.records.batch_answers import Fit, Limit
from workloads.records.events import Event, Events
from workloads.records.result import TrialResult
from workloads.records.status import Status

BAD_ALLOC = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
BUILT: Events = [{"event": Event.BUILT, "t_ns": 0}]


def ended(folder: Path, code: int, log: str, events: Events = BUILT, timed_out: bool = False) -> Status:
    (folder / "log.txt").write_text(log)
    return find_ending(events, WorkerOutcome(code, timed_out, 1.0), folder / "log.txt", killed_for_memory=False)[0]


@pytest.mark.parametrize(
    ("code", "log"),
    [
        (-signal.SIGSEGV, ""),
        (-signal.SIGSEGV, BAD_ALLOC),
        (-signal.SIGABRT, ""),
        (-signal.SIGABRT, "terminate called after throwing an instance of 'std::out_of_range'\n"),
        (-signal.SIGABRT, BAD_ALLOC + "a line of what came behind it\n" * 30),
        (-signal.SIGKILL, ""),
        (1, ""),
        (1, BAD_ALLOC),
        (1, "RuntimeError: the memory format is not supported\n"),
        (255, "Segmentation fault: 11\n"),
    ],
)
def test_a_foreign_crash_is_not_out_of_memory(tmp_path: Path, code: int, log: str) -> None:
    assert ended(tmp_path, code, log) is Status.FAILED


@pytest.mark.parametrize(
    ("code", "log"),
    [
        (-signal.SIGABRT, BAD_ALLOC),
        (-signal.SIGABRT, "a warning\n" + BAD_ALLOC + "\n\n*** a stack trace ***\n" * 5),
        (1, "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.\n"),
    ],
)
def test_an_end_that_says_memory_was_refused_is_out_of_memory(tmp_path: Path, code: int, log: str) -> None:
    assert ended(tmp_path, code, log) is Status.OUT_OF_MEMORY


def test_a_hang_behind_what_was_told_does_not_hide_it(tmp_path: Path) -> None:
    told: Events = [*BUILT, {"event": Event.ENDED, "t_ns": 1, "status": "out_of_memory", "reason": "MemoryError: "}]
    assert ended(tmp_path, -signal.SIGKILL, "", told, timed_out=True) is Status.OUT_OF_MEMORY
    assert ended(tmp_path, -signal.SIGKILL, "", BUILT, timed_out=True) is Status.TIMEOUT


class Silent:
    """An adapter that takes none of its framework's errors for a lack of memory."""

    def out_of_memory(self, error: BaseException) -> bool:
        return False


def raised(from_memory: bool) -> Exception:
    try:
        try:
            raise MemoryError if from_memory else KeyError("memory")
        except (MemoryError, KeyError) as error:
            raise SystemError("out of memory, it says") from error
    except SystemError as error:
        return error


def test_what_came_of_a_refusal_counts_and_what_merely_mentions_memory_does_not() -> None:
    for adapter in (cast("Adapter", Silent()), None):  # None: in its import
        assert out_of_memory(MemoryError(), adapter) and out_of_memory(raised(from_memory=True), adapter)
        assert not out_of_memory(ImportError("libmemory.so: cannot open shared object file"), adapter)
        assert not out_of_memory(raised(from_memory=False), adapter)


def test_every_status_is_taken_for_its_own_answer(tmp_path: Path) -> None:
    folder = tmp_path / "steps" / "a-1"
    folder.mkdir(parents=True)
    fits = {
        status: build_tried(TrialResult(make_spec(), status, None, "", 0.0), folder, tmp_path, Limit.ASKED).fit
        for status in Status
    }
    assert fits == {
        Status.OK: Fit.FITS,
        Status.CONTENDED: Fit.FITS,  # it came to its end: others disturbed its speed, not its memory
        Status.UNVERIFIED: Fit.FITS,
        Status.DIVERGED: Fit.FITS,
        Status.OUT_OF_MEMORY: Fit.TOO_LARGE,
        Status.FAILED: Fit.UNKNOWN,
        Status.TIMEOUT: Fit.UNKNOWN,
        Status.UNSUPPORTED: Fit.UNKNOWN,
        Status.SKIPPED: Fit.UNKNOWN,
    }


def test_a_local_worker_takes_no_more_than_its_limit() -> None:
    program = "import time; time.sleep(0.3)\ntry: bytearray(300 << 20)\nexcept MemoryError: raise SystemExit(7)"
    for limit_bytes, code in ((200 * 2**20, 7), (900 * 2**20, 0)):
        process = subprocess.Popen([sys.executable, "-c", program])
        limit_data(process.pid, limit_bytes)
        assert process.wait(20) == code


def test_a_worker_that_has_ended_already_does_not_stop_the_run() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(20)
    time.sleep(0.01)
    limit_data(process.pid, 2**30)


def test_the_peak_keeps_what_was_resident_before_it_was_counted_anew() -> None:
    counts = {"data_bytes": 500, "resident_bytes": 300, "peak_resident_bytes": 350}
    assert (estimate_data_peak_bytes(counts), estimate_data_peak_bytes(counts, 420)) == (550, 620)
    assert estimate_data_peak_bytes(counts | {"data_bytes": None}) is None


def test_a_second_search_has_the_same_limit_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its trials would differ. Where there is no longer enough memory for it, the limit is a new one."""
    room = 16 * 2**30
    monkeypatch.setattr("runner.batch_size.memory_limit.read_available_bytes", lambda: room)
    first = compute_host_limit_bytes(tmp_path)
    assert 0.8 * room < first < 0.9 * room
    room = 17 * 2**30
    assert compute_host_limit_bytes(tmp_path) == first
    room = first + 2**20  # others took some of it since
    assert compute_host_limit_bytes(tmp_path) == first
    room = 8 * 2**30
    assert compute_host_limit_bytes(tmp_path) < 8 * 2**30


def test_a_limited_trial_has_another_id_than_an_unlimited_one() -> None:
    spec = make_spec()
    limited = replace(spec, placement=replace(spec.placement, memory_limit_bytes=2**30))
    assert spec.id != limited.id and spec.memory_id != limited.memory_id
