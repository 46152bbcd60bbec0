"""Images as a map of their file: the kernel keeps as much of them in memory as there is space for."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from adapters.base import Order
from workloads.datasets import Images

MEMORY = Path("/proc/meminfo")
LIMITS = tuple(Path("/sys/fs/cgroup", name) for name in ("memory.max", "memory/memory.limit_in_bytes"))  # a container's

Ahead = Callable[[Order], None]


def images_of(path: Path, feed: str) -> tuple[Images, Ahead | None]:
    """Return (images (n, h, w, c); a function that asks the disk for the images of some batches at once). With feed
    "host" the images are a read-only map; images for the device are read as a whole.

    The function is None if all of them fit into memory: they have just been read, for their checksum.
    """
    if feed != "host":
        return np.load(path), None
    array = np.load(path, mmap_mode="r")
    images, pages = array.view(np.ndarray), array.base  # a memmap's slices are slower to make
    if not isinstance(pages, mmap.mmap) or images.nbytes < room_bytes():
        return images, None
    first, row_bytes = array.offset % mmap.ALLOCATIONGRANULARITY, images[0].nbytes
    pages.madvise(mmap.MADV_RANDOM)  # an image's neighbours are not read with it

    def ahead(order: Order) -> None:
        for row in order.ravel().tolist():
            start = (first + row * row_bytes) // mmap.PAGESIZE * mmap.PAGESIZE
            pages.madvise(mmap.MADV_WILLNEED, start, first + (row + 1) * row_bytes - start)

    return images, ahead


def room_bytes() -> int:
    """Return the bytes of memory available for a file's map."""
    limits = [path.read_text().strip() for path in LIMITS if path.is_file()]
    known = [int(limit) for limit in limits if limit.isdigit()]
    available = re.search(r"^MemAvailable:\s+(\d+) kB$", MEMORY.read_text(), re.MULTILINE)
    return min([*known, *([int(available.group(1)) * 1024] if available else [])], default=2**63)
