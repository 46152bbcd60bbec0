"""Questions of a worker to Linux about itself, and the state in which it leaves the heap."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
import time

import pytest
from conftest import ROOT

from adapters.worker import host

# True if a block of so many bytes is a separate map (the second bit of the size in front of it, glibc's malloc.c).
MAPPED = """
import ctypes, json, os, sys
from workloads.heap import settle_heap
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
def is_mapped(size):
    block = library.malloc(ctypes.c_size_t(size))
    flags = ctypes.c_size_t.from_address(block - ctypes.sizeof(ctypes.c_size_t)).value
    library.free(block)
    return bool(flags & 2)
def are_mapped():
    return [is_mapped(size * 2**20) for size in (10, 31, 33)]
before = is_mapped(2**20)
"""
SETTLED = f"{MAPPED}settle_heap()\nprint(json.dumps([before, *are_mapped()]))\n"
# One of the ranks that the worker starts: when it makes its adapter.
RANK = f"""{MAPPED}
from adapters.pytorch.ranks import obey
obey(os.getppid(), lambda: print(json.dumps([before, *are_mapped()])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
@pytest.mark.parametrize("program", [SETTLED, RANK], ids=["settled", "a rank behind the first"])
def test_a_settled_heap_keeps_blocks_up_to_32_mib(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(done.stdout or "null") == [True, False, False, True], done.stderr


def test_each_page_that_is_touched_is_a_page_fault() -> None:
    pages = 1000
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as block:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            block.madvise(mmap.MADV_NOHUGEPAGE)
        before = host.interruptions()
        for page in range(pages):
            block[page * mmap.PAGESIZE] = 1
        after = host.interruptions()
    assert pages <= after.page_faults - before.page_faults < 2 * pages


def test_a_thread_that_sleeps_is_a_voluntary_context_switch() -> None:
    before = host.interruptions()
    for _ in range(20):
        time.sleep(0.001)
    assert host.interruptions().context_switches - before.context_switches >= 20
