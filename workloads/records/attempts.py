"""Attempts at a job, each in a separate folder: ROOM/ID-NUMBER, counted from 1. None is removed or overwritten."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..temporary import clear_parts
from .files import sync

# An id ends in a digest of eight characters, all of which may be digits: a number has fewer.
NUMBERED = re.compile(r"(?P<id>.+)-(?P<number>[1-9][0-9]{0,6})")


def by_id(room: Path) -> dict[str, list[Path]]:
    """Return {id: its folders, in order} of all attempts in the folder `room`; empty if it does not exist."""
    return _by_id(room.glob("*"))


def of(room: Path, name: str) -> list[Path]:
    """Return the folders of the attempts at the job of this id, in order."""
    return _by_id(room.glob(f"{name}-*")).get(name, [])


def _by_id(paths: Iterable[Path]) -> dict[str, list[Path]]:
    folders: dict[str, list[tuple[int, Path]]] = {}
    for path in paths:
        if (name := NUMBERED.fullmatch(path.name)) and path.is_dir():
            folders.setdefault(name["id"], []).append((int(name["number"]), path))
    return {name: [path for _, path in sorted(numbered)] for name, numbered in sorted(folders.items())}


def number(folder: Path) -> int:
    """Return the number of an attempt's folder."""
    return int(folder.name.rpartition("-")[2])


def next_path(room: Path, name: str) -> Path:
    """Return the path after all existing ones. A number is not reused if an earlier one was removed."""
    return room / f"{name}-{1 + max(map(number, of(room, name)), default=0)}"


def put_aside(folder: Path, room: Path) -> Path:
    """Move the whole folder into `room`, as the newest attempt there; return its new path. JSON files that a killed
    process left half written are removed. Raises OSError.
    """
    room.mkdir(exist_ok=True)
    clear_parts(folder)
    moved = folder.rename(next_path(room, folder.name))
    for changed in (room, folder.parent, room.parent):
        sync(changed)
    return moved
