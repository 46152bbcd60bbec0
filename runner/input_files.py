"""Files that workers read, in a results folder. They are named by their content, so nothing that an earlier trial
used is ever overwritten, and written under another name until they are whole.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.machine import locks
from workloads.datasets import file_digest
from workloads.records.job import InputFile

INPUTS = "inputs"


def write_array(results: Path, stem: str, array: NDArray[Any]) -> InputFile:
    """Write the array as .npy."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return write(results, stem, ".npy", buffer.getbuffer())


def write(results: Path, stem: str, suffix: str, content: memoryview) -> InputFile:
    """Write these bytes."""
    sha256 = hashlib.sha256(content).hexdigest()
    return place_file(results, f"{stem}-{sha256[:12]}{suffix}", sha256, lambda path: path.write_bytes(content))


def link(results: Path, stem: str, source: Path, sha256: str) -> InputFile:
    """Link the .npy file, or copy it if the results folder is on another file system."""

    def make(path: Path) -> None:
        try:
            path.hardlink_to(source)
        except OSError:
            shutil.copyfile(source, path)

    return place_file(results, f"{stem}-{sha256[:12]}.npy", sha256, make)


def place_file(results: Path, name: str, sha256: str, make: Callable[[Path], object]) -> InputFile:
    """Make the file of this name under another one, by `make`; an existing whole file is left alone. On a full disk
    no half-written file is left. Raises LockRefused, OSError.
    """
    path = results / INPUTS / name
    what = f"{path.parent}: another run writes files there"  # runs on two devices may share a folder
    with locks.wait_for_file(path.with_name(".lock"), what, "name another --results"):
        if not path.exists() or file_digest(path, "sha256") != sha256:
            temporary = path.with_name(f"{name}.part")
            temporary.unlink(missing_ok=True)
            try:
                make(temporary)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
            temporary.replace(path)
    return InputFile(str(path.relative_to(results)), sha256)
