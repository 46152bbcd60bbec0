"""Folders that exist while one process works in them; those that a dead process left are cleared by the next.

Their names contain their owner: the machine with its process namespace, the process and its start time. Nothing else is
ever cleared.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .lifeline import start_time


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a folder in `parent`, by default the system's temporary one; removed after the block. Raises OSError."""
    folder = new_folder(prefix, parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def new_folder(prefix: str, parent: Path | None = None) -> Path:
    """Make a folder that stays until the next of its prefix is made after this process has ended. Raises OSError."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    clear(prefix, parent)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{_machine()}-{os.getpid()}-{start_time(os.getpid())}-", dir=parent))


def clear_parts(folder: Path, names: Iterable[str] = ("*.json",)) -> None:
    """Remove what a killed process left half written of these JSON files; call it only while nobody writes them."""
    for path in (path for name in names for path in folder.glob(f"{name}.part")):
        path.unlink(missing_ok=True)


def clear(prefix: str, parent: Path) -> None:
    """Remove the folders of this prefix in `parent` whose processes have ended; there may be none.

    Folders of processes that cannot be seen from here stay, and those that cannot be removed.
    """
    name = re.compile(re.escape(f"{prefix}{_machine()}-") + r"(\d+)-(\d+)-[a-z0-9_]+")
    with os.scandir(parent) as entries:
        left = [(entry.path, owner) for entry in entries
                if (owner := name.fullmatch(entry.name)) and entry.is_dir(follow_symlinks=False)]  # fmt: skip
    for path, owner in left:
        if str(start_time(int(owner[1]))) != owner[2]:
            shutil.rmtree(path, ignore_errors=True)


def _machine() -> str:
    """Return a digest of its name and of this process namespace, because processes of others are not visible here.

    A container may have the name of its machine, or of another container.
    """
    return hashlib.sha256(f"{platform.node()} {_process_namespace()}".encode()).hexdigest()[:8]


def _process_namespace() -> int | None:
    """Return the number of this process's PID namespace (namespaces(7)); None if this system has none."""
    with suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return None
