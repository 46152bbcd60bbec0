"""An error that may be a refusal of memory counts as one only where memory was short."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT

from adapters.worker import refused_memory
from adapters.worker.refused_memory import ran_out, shares_left
from workloads import control_groups
from workloads.records.events import MemoryBound

ONEDNN, CUDNN = RuntimeError("could not create a primitive"), RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED.")
UNDER_A_LIMIT = """
import resource, sys
from adapters.worker import host
from adapters.worker.refused_memory import ran_out
used_bytes = {"RLIMIT_DATA": host.data_bytes, "RLIMIT_AS": host.mapped_bytes}[sys.argv[1]]()
resource.setrlimit(getattr(resource, sys.argv[1]), (used_bytes + (600 << 20),) * 2)
error = RuntimeError("could not create a primitive")
before = ran_out(error, "cpu", False) is error
block = b"x" * (590 << 20)
del block  # as a step that failed has given back what it held
print(before, ran_out(error, "cpu", False) is error, ran_out(RuntimeError("another"), "cpu", False))
"""


@pytest.mark.parametrize("limit", ["RLIMIT_DATA", "RLIMIT_AS"])
def test_the_same_words_are_memory_once_the_limit_was_nearly_reached(limit: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT, limit], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True", "None"], done.stderr


def test_words_mean_nothing_with_memory_free_and_an_error_by_its_number_needs_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refused_memory, "shares_left", lambda: iter([(MemoryBound.MACHINE, 0.03)]))
    assert ran_out(ONEDNN, "cpu", False) is None
    monkeypatch.setattr(refused_memory, "shares_left", lambda: iter([(MemoryBound.MACHINE, 0.01)]))
    assert ran_out(ONEDNN, "cpu", False) is ONEDNN
    monkeypatch.setattr(refused_memory, "shares_left", lambda: iter(()))
    assert ran_out(OSError(errno.ENOMEM, "in a language of its own"), "cpu", False)
    assert not ran_out(OSError(errno.ENOSPC, "Cannot allocate memory"), "cpu", False)


@pytest.mark.parametrize(("limit", "usage", "left"), [("1000", "900", 0.13), ("1000", "100", 0.93)])
def test_a_control_group_counts_by_what_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, usage: str, left: float
) -> None:
    group = tmp_path / "memory" / "a"
    group.mkdir(parents=True)
    files = {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": usage, "memory.stat": "inactive_file 30\n"}
    for name, text in files.items():
        (group / name).write_text(text)
    (tmp_path / "own").write_text("2:memory:/a\n")
    monkeypatch.setattr(control_groups, "CGROUPS", tmp_path)
    monkeypatch.setattr(control_groups, "OWN", tmp_path / "own")
    monkeypatch.setattr(refused_memory, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr("adapters.worker.host.peak_resident_bytes", lambda: None)
    assert [share for bound, share in shares_left() if bound is MemoryBound.CONTROL_GROUP] == [pytest.approx(left)]
    assert (ran_out(ONEDNN, "cpu", False) is ONEDNN) is (left < 0.25)


def driver(answer: int, free: int) -> Callable[[str], Any]:
    """A libcuda.so.1 that gives this answer and this much of 1,000 free."""

    def ask(to_free: Any, to_total: Any) -> int:
        to_free._obj.value, to_total._obj.value = free, 1000
        return answer

    return lambda name: SimpleNamespace(cuMemGetInfo_v2=ask)


@pytest.mark.parametrize(
    ("device", "preallocates", "answer", "free", "counts"),
    [
        ("GPU-1", False, 0, 20, True),
        ("GPU-1", False, 0, 500, False),
        ("GPU-1", False, 201, 0, False),  # CUDA_ERROR_INVALID_CONTEXT: it did not answer
        ("GPU-1", True, 0, 20, False),
        ("cpu", False, 0, 20, False),
    ],
)
def test_a_gpus_words_count_where_its_driver_says_that_little_was_free(
    monkeypatch: pytest.MonkeyPatch, device: str, preallocates: bool, answer: int, free: int, counts: bool
) -> None:
    monkeypatch.setattr("ctypes.CDLL", driver(answer, free))
    assert (ran_out(CUDNN, device, preallocates) is CUDNN) is counts


def test_a_machine_without_a_driver_has_no_short_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert not refused_memory.is_device_short()
