"""Write plain files of tar archives, in the same way with every Python: 3.11.0 to 3.11.3 know no `filter`."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path, PurePosixPath


def extract_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write a plain file, or make a folder, below `folder`; of its mode, only that it is a program is kept.

    Raises tarfile.ExtractError for links, devices and paths that lead out of `folder`, and OSError.
    """
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or not (member.isreg() or member.isdir()):
        raise tarfile.ExtractError(f"{ascii(member.name)[:80]} is not a plain file inside its folder")
    target = folder / path
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None, "a plain file has content"
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)


def extract_all(archive: tarfile.TarFile, folder: Path) -> None:
    """Write every member below `folder`. Raises as `extract_member`."""
    for member in archive:
        extract_member(archive, member, folder)
