"""What a worker asks of Linux about itself, and the state in which it leaves the heap."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys

import pytest
from conftest import ROOT

from adapters.worker import host

# Whether a block of so many bytes is a map of its own (the second bit of the size in front of it, glibc's malloc.c).
MAPPED = """
import ctypes, json, os, sys
from adapters.worker import host
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
def is_mapped(size):
    block = library.malloc(ctypes.c_size_t(size))
    flags = ctypes.c_size_t.from_address(block - ctypes.sizeof(ctypes.c_size_t)).value
    library.free(block)
    return bool(flags & 2)
before = is_mapped(2**20)
host.settle_heap()
print(json.dumps([before, *(is_mapped(size * 2**20) for size in (10, 31, 33))]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_a_settled_heap_keeps_blocks_up_to_32_mib() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAPPED], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
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
    assert after.context_switches >= before.context_switches
