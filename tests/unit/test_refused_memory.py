"""Reasons of a worker that ran out of memory: what it asked for, by its framework's words, and what there was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from each import for_each

from adapters.worker import refused_memory
from adapters.worker.event_log import in_a_line
from adapters.worker.refused_memory import asked_bytes, refused
from runner.ask import describe_refusal
from workloads import control_groups
from workloads.records.events import MemoryBound

PYTORCH = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "172800000 bytes. Error code 12 (Cannot allocate memory)"
)
PYTORCH_GPU = (
    "CUDA out of memory. Tried to allocate 20.50 MiB. GPU 0 has a total capacity of 79.15 GiB of which 12.94 MiB is "
    "free. Including non-PyTorch memory, this process has 79.13 GiB memory in use."
)
TENSORFLOW = (
    "Graph execution error:\n\nDetected at node functional_1/pool1_1/MaxPool2d defined at (most recent call last):\n"
    '  File "net.py", line 1, in <module>\n\nOOM when allocating tensor with shape[1500,15,15,32] and type float on '
    "/job:localhost/replica:0/task:0/device:CPU:0 by allocator mklcpu\n\t [[{{node functional_1}}]]\nHint: see above\n"
)
MXNET = (
    'Traceback (most recent call last):\n  File "../src/storage/./cpu_device_storage.h", line 74\n'
    "MXNetError: Failed to allocate CPU Memory"
)


@for_each(
    "message, size",
    [
        (PYTORCH, 172_800_000),
        (PYTORCH_GPU, round(20.5 * 2**20)),
        (TENSORFLOW, 4 * 1500 * 15 * 15 * 32),
        ("OOM when allocating tensor with shape[3,5] and type bfloat16 on /device:GPU:0", 30),
        ("OOM when allocating tensor with shape[3,5] and type complex_thing on /device:GPU:0", None),
        ("Out of memory allocating 1610612736 bytes.", 1_610_612_736),
        ("Out of memory while trying to allocate 1610612736 bytes.", 1_610_612_736),
        ("Failed to allocate request for 1.50GiB (1610612736B) on device ordinal 0", 1_610_612_736),
        ("Unable to allocate 1.12 TiB for an array with shape (307200, 10) and data type float32", 4 * 3_072_000),
        ("Unable to allocate 40.0 B for an array with shape (5,) and data type float64", 40),
        ("(ResourceExhausted) Fail to alloc memory of 70368744177664 size, error code is 12.", 2**46),  # Paddle
        (MXNET, None),
        ("cudaMalloc retry failed: out of memory", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_was_asked_for_is_read_from_the_frameworks_own_words(message: str, size: int | None) -> None:
    assert asked_bytes(message) == size


def test_a_refusal_is_told_by_the_line_that_says_most_its_bound_and_both_sizes() -> None:
    assert in_a_line(ValueError("\x1b[1mCUDA out of memory.\x1b[0m\nArguments")) == "ValueError: CUDA out of memory."
    told = {message: in_a_line(RuntimeError(message)) for message in (PYTORCH, TENSORFLOW, MXNET, "a\nb", "")}
    assert told[TENSORFLOW].startswith("RuntimeError: OOM when allocating tensor with shape[1500,15,15,32]")
    assert told[MXNET] == "RuntimeError: MXNetError: Failed to allocate CPU Memory"
    assert (told[PYTORCH], told["a\nb"], told[""]) == (f"RuntimeError: {PYTORCH}", "RuntimeError: a", "RuntimeError: ")
    assert refused(RuntimeError(PYTORCH_GPU), "GPU-1") == {
        "asked_bytes": round(20.5 * 2**20),
        "available_bytes": round(12.94 * 2**20),
        "bound": MemoryBound.DEVICE,
    }
    silent = refused(RuntimeError("cudaMalloc retry failed: out of memory"), "GPU-1")
    assert silent == {"asked_bytes": None, "available_bytes": None, "bound": MemoryBound.DEVICE}
    assert refused(RuntimeError(PYTORCH), "GPU-1")["bound"] != MemoryBound.DEVICE
    of_xla = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1610612736 bytes."
    assert refused(RuntimeError(of_xla), "GPU-1") == {
        "asked_bytes": 1_610_612_736,
        "available_bytes": None,
        "bound": MemoryBound.DEVICE,
    }
    known = {"asked_bytes": 100 << 20, "available_bytes": 3 << 19, "bound": "data_segment"}
    where = "of its limit of private memory (RLIMIT_DATA) once the error was caught"
    assert describe_refusal(known) == f"100.0 MiB requested, 1.5 MiB available {where}: "
    unknown = {"asked_bytes": None, "available_bytes": None, "bound": None}
    assert describe_refusal(unknown) == "amount requested unknown, amount available unknown: "
    assert describe_refusal(None) == describe_refusal("x") == ""


@for_each(
    "message, of_device",
    [
        ("Out of memory while trying to allocate 1610612736 bytes.", True),  # XLA
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", True),
        ("unable to find an engine to execute this computation", True),
        ("Failed copying input tensor from /job:localhost/replica:0/task:0/device:CPU:0 to /job:localhost/replica:0/"
         "task:0/device:GPU:0 in order to run _EagerConst: Dst tensor is not initialized.", True),
        ("std::bad_alloc: cudaErrorMemoryAllocation: out of memory", True),  # Thrust
        (PYTORCH, False),
        (TENSORFLOW, False),
        (MXNET, False),
        ("std::bad_alloc", False),
        ("[Errno 12] Cannot allocate memory", False),
    ],
)  # fmt: skip
def test_on_a_gpu_memory_is_the_gpus_unless_the_error_is_of_the_host(message: str, of_device: bool) -> None:
    assert (refused(RuntimeError(message), "GPU-1")["bound"] == MemoryBound.DEVICE) is of_device
    assert refused(RuntimeError(message), "cpu")["bound"] != MemoryBound.DEVICE


def test_an_error_that_came_of_a_full_host_is_of_the_host_on_a_gpu_too() -> None:
    error = RuntimeError("training failed")
    error.__cause__ = MemoryError()
    assert refused(error, "GPU-1")["bound"] != MemoryBound.DEVICE


def test_a_limit_of_the_process_is_what_was_tightest_and_an_error_it_came_of_says_the_size() -> None:
    code = (
        "import json, resource\nfrom adapters.worker.refused_memory import refused\nimport numpy as np\n"
        "for limit in (resource.RLIMIT_DATA, resource.RLIMIT_AS):\n"
        "    before = resource.getrlimit(limit)\n"
        "    resource.setrlimit(limit, (3 << 30, before[1]))\n"
        "    try:\n        try: np.ones((1 << 30, 1), np.float32)\n"
        "        except MemoryError as error: raise RuntimeError('it came of that') from error\n"
        "    except RuntimeError as error: print(json.dumps(refused(error, 'cpu')))\n"
        "    resource.setrlimit(limit, before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["bound"] for each in told] == [MemoryBound.DATA, MemoryBound.ADDRESS_SPACE]
    assert {each["asked_bytes"] for each in told} == {4 << 30}
    assert all(1 << 30 < each["available_bytes"] < 3 << 30 for each in told)


@pytest.mark.parametrize("version", [1, 2])
def test_of_control_groups_the_one_with_the_least_left_counts_and_droppable_pages_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    root = tmp_path / "cgroup" / ("memory" if version == 1 else "")
    most, used = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes") if version == 1 else ("memory.max", "memory.current")
    )
    # In version 1 the first line is of the group's own processes, which a parent may have none of.
    inactive = "inactive_file 0\ntotal_inactive_file 30" if version == 1 else "inactive_file 30"
    for group, limit, usage in (("", "max", 900), ("a", "1000", 900), ("a/b", "5000", 100)):
        (root / group).mkdir(parents=True, exist_ok=True)
        (root / group / most).write_text(limit)
        (root / group / used).write_text(f"{usage}\n")
        (root / group / "memory.stat").write_text(f"anon 5\n{inactive}\nactive_file 7\n")
    (tmp_path / "own").write_text("3:cpu:/x\n2:memory:/a/b\n" if version == 1 else "0::/a/b\n")
    monkeypatch.setattr(control_groups, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(control_groups, "OWN", tmp_path / "own")
    monkeypatch.setattr(refused_memory, "MEMINFO", tmp_path / "none")
    assert refused_memory.available()[MemoryBound.CONTROL_GROUP] == 130
    assert refused_memory.available()[MemoryBound.MACHINE] is None
