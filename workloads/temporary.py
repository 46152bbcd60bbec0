"""Folders that are there for as long as one process works in them; what a dead one left is cleared by the next.

Their names tell whose they are: the machine, the process and when that was started. Nothing else is ever cleared.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .lifeline import start_time


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """In `parent`, by default where the system keeps such; removed behind the block. Raises OSError."""
    folder = new_folder(prefix, parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def new_folder(prefix: str, parent: Path | None = None) -> Path:
    """One that stays until the next of its prefix is made behind this process's end. Raises OSError."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    clear(prefix, parent)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{_machine()}-{os.getpid()}-{start_time(os.getpid())}-", dir=parent))


def clear_parts(folder: Path) -> None:
    """Remove what a process that was killed had only half written of the folder's own JSON files; to be called where
    nobody writes there.
    """
    for path in folder.glob("*.json.part"):
        path.unlink(missing_ok=True)


def clear(prefix: str, parent: Path) -> None:
    """Remove the folders of this prefix in `parent` whose processes, of this machine, have ended; none is not one.

    What cannot be removed stays.
    """
    name = re.compile(re.escape(f"{prefix}{_machine()}-") + r"(\d+)-(\d+)-[a-z0-9_]+")
    with os.scandir(parent) as entries:
        left = [(entry.path, owner) for entry in entries
                if (owner := name.fullmatch(entry.name)) and entry.is_dir(follow_symlinks=False)]  # fmt: skip
    for path, owner in left:
        if str(start_time(int(owner[1]))) != owner[2]:
            shutil.rmtree(path, ignore_errors=True)


def _machine() -> str:
    """Stands for its name: processes of another one, or of another container, cannot be seen from here."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]
