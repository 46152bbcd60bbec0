"""Files that workers read, in a results folder: named by their content, so that nothing that an earlier trial used is
ever overwritten, and written under another name until they are whole.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from workloads.datasets import file_digest
from workloads.records.job import InputFile

INPUTS = "inputs"


def write_array(results: Path, stem: str, array: NDArray[Any]) -> InputFile:
    """As .npy."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return write(results, stem, ".npy", buffer.getbuffer())


def write(results: Path, stem: str, suffix: str, content: memoryview) -> InputFile:
    """These bytes."""
    sha256 = hashlib.sha256(content).hexdigest()
    return placed(results, f"{stem}-{sha256[:12]}{suffix}", sha256, lambda path: path.write_bytes(content))


def link(results: Path, stem: str, source: Path, sha256: str) -> InputFile:
    """The .npy file itself, or a copy where the results folder is on another file system."""

    def make(path: Path) -> None:
        try:
            path.hardlink_to(source)
        except OSError:
            shutil.copyfile(source, path)

    return placed(results, f"{stem}-{sha256[:12]}.npy", sha256, make)


def placed(results: Path, name: str, sha256: str, make: Callable[[Path], object]) -> InputFile:
    """The file of this name, by `make` under another one; what is there already, and whole, is left alone. On a full
    disk nothing half-written is left.
    """
    path = results / INPUTS / name
    with FileLock(path.with_name(".lock")):  # of runs on two devices, which may share a folder
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
