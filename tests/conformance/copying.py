"""Run inside MXNet's environment: python copying.py OUT_FILE: the calling thread's OpenMP threads, before and after.

They are read where they were set: in each OpenMP library that the process has loaded. Written as JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from adapters.mxnet.libraries import copy_by_one_thread


def most_threads() -> list[int]:
    """Return the most threads in each OpenMP library, in the order of their paths."""
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    paths = sorted(path for path in mapped if Path(path).name.startswith(("libgomp", "libiomp", "libomp")))
    return [ctypes.CDLL(path).omp_get_max_threads() for path in paths]


if __name__ == "__main__":
    before = most_threads()
    copy_by_one_thread()
    Path(sys.argv[1]).write_text(json.dumps([before, most_threads()]))
