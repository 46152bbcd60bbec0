"""The line of a worker's log that its reason gets, and the limits that it names."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import make_spec, varied

from runner.ask import add_refused_thread, find_ending
from runner.launch import WorkerOutcome
from runner.log import describe_thread_limits, find_refused_thread, find_telling_line
from workloads import control_groups
from workloads.records.events import Event, Events
from workloads.records.status import Status

BUILT: Events = [{"event": Event.BUILT, "t_ns": 0}]
REFUSED = "OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2: Resource temporarily unavailable"
IMPORT_ENDS = (
    'Traceback (most recent call last):\n  File "numpy/__init__.py", line 112\n    import it\nKeyboardInterrupt\n'
)
FAULT = """\
Fatal Python error: Segmentation fault

Current thread 0x00007f3c (most recent call first):
  File "adapters/worker/loop.py", line 3 in steps
  ...

Extension modules: numpy.core._multiarray_umath, torch._C (total: 20)
"""
CHECK = (
    "F0000 00:00:17956 30025 env.cc:84] Check failed: ret == 0 (11 vs. 0) Thread creation via pthread_create() failed."
)


@pytest.mark.parametrize(
    ("number", "log", "line"),
    [
        (
            signal.SIGINT,
            f"a warning\n{REFUSED}\nOpenBLAS blas_thread_init: RLIMIT_NPROC 9 current\n{IMPORT_ENDS}",
            REFUSED,
        ),
        (signal.SIGSEGV, FAULT, "Fatal Python error: Segmentation fault"),
        (signal.SIGABRT, f"{CHECK}\n*** Check failure stack trace: ***\n    @     0x7f  tsl::Env()\n", CHECK),
        (
            signal.SIGABRT,
            "terminate called\n  what():  Resource temporarily unavailable\n",
            "Resource temporarily unav",
        ),
        (signal.SIGABRT, "free(): invalid pointer\n", "free(): invalid pointer"),
        (signal.SIGINT, f"epoch 3\n{IMPORT_ENDS}", "epoch 3"),
    ],
)
def test_the_last_telling_line_follows_the_signal(tmp_path: Path, number: signal.Signals, log: str, line: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text(log)
    status, reason = find_ending(BUILT, WorkerOutcome(-number, False, 1.0), path, killed_for_memory=False)
    assert status is Status.FAILED
    assert reason and reason.startswith(f"the worker was killed by {number.name}; its last output: ") and line in reason
    assert reason.endswith("; last event: built") and "KeyboardInterrupt" not in reason


def test_a_worker_that_said_nothing_is_put_no_words_into_its_mouth(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    for log in ("", IMPORT_ENDS):
        path.write_text(log)
        _, reason = find_ending(BUILT, WorkerOutcome(-signal.SIGINT, False, 1.0), path, killed_for_memory=False)
        assert reason == "the worker was killed by SIGINT; last event: built"
    assert find_telling_line(IMPORT_ENDS.splitlines()) is None


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """limited(pids.max, RLIMIT_NPROC) sets both limits."""
    monkeypatch.setattr(control_groups, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(control_groups, "OWN", tmp_path / "own")
    (tmp_path / "own").write_text("0::/job\n")
    (tmp_path / "cgroup" / "job").mkdir(parents=True)

    def write(most: str, of_the_user: int) -> None:
        (tmp_path / "cgroup" / "job" / "pids.max").write_text(f"{most}\n")
        monkeypatch.setattr(resource, "getrlimit", lambda _: (of_the_user, resource.RLIM_INFINITY))

    return write


def test_a_refused_thread_names_the_limits_and_nothing_else_does(
    tmp_path: Path, limited: Callable[[str, int], None]
) -> None:
    log, spec = tmp_path / "log.txt", make_spec()
    log.write_text(f"{REFUSED}\n{IMPORT_ENDS}{'a line of what came behind it' * 30}\n" * 20)
    limited("20", 100)
    said = add_refused_thread("ImportError: PyCapsule_Import could not import module", log, spec)
    assert said.startswith(f"ImportError: PyCapsule_Import could not import module; before that: {REFUSED}; ")
    assert "20 in its control group (pids.max) and 100 of its user (ulimit -u, RLIMIT_NPROC)" in said
    assert add_refused_thread(f"killed; its last output: {REFUSED}", log, spec).count(REFUSED) == 1
    log.write_text("RuntimeError: the memory format is not supported\n")
    assert add_refused_thread("a reason", log, spec) == "a reason"
    limited("max", resource.RLIM_INFINITY)
    assert describe_thread_limits() == ""
    assert "no limit is known" in add_refused_thread("RuntimeError: can't start new thread", log, spec)


@pytest.mark.parametrize(
    ("line", "says_so"),
    [
        ("  what():  Resource temporarily unavailable", True),
        ("killed by SIGABRT; its last output: what():  Resource temporarily unavailable; last event: built", True),
        ("MXNetError: Resource temporarily unavailable", True),
        ("libgomp: could not make a Thread: Resource temporarily unavailable", True),
        ("sh: fork: retry: Resource temporarily unavailable", True),
        ("OSError: unable to lock file, errno = 11, error message = 'Resource temporarily unavailable'", False),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable: '/data/lock'", False),
        ("flock: failed to get lock: Resource temporarily unavailable", False),
    ],
)
def test_the_words_of_eagain_alone_are_a_refused_thread_and_those_on_a_locked_file_are_not(
    line: str, says_so: bool
) -> None:
    assert (find_refused_thread(["a warning", line]) == line) is says_so


def test_a_containers_limits_are_not_read_from_this_process_and_a_limit_of_memory_is_named(
    tmp_path: Path, limited: Callable[[str, int], None]
) -> None:
    (tmp_path / "log.txt").write_text(REFUSED)
    limited("20", 100)
    contained = varied(make_spec(), isolation="docker")
    assert "20 in its" not in add_refused_thread("killed", tmp_path / "log.txt", contained)
    small = varied(make_spec(), memory_limit_bytes=600 * 2**20)
    assert "limited to 600.0 MiB" in add_refused_thread("killed", tmp_path / "log.txt", small)
