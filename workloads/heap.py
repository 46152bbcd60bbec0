"""The initial heap of every process that trains."""

from __future__ import annotations

import numpy as np

# The largest block whose release raises glibc's thresholds: DEFAULT_MMAP_THRESHOLD_MAX of mallopt(3) less two pages,
# one for the block's header and one because free() compares the size including its flags.
LARGEST_RAISING_BYTES = 32 * 2**20 - 2 * 2**12


def settle_heap() -> None:
    """Put glibc's heap into the state that a script has once it has freed an array of 32 MiB: free such a block.

    glibc then keeps blocks up to 32 MiB in the heap for good, and up to 64 MiB of the free memory at its top. On a
    fresh heap a framework that takes its activations from malloc gets them from the kernel, page by page, in every
    step. Variables that set these thresholds (MALLOC_MMAP_THRESHOLD_) override it. No page of the block is touched.
    """
    np.empty(LARGEST_RAISING_BYTES, np.uint8)
