"""The files of a trial's folder, JSON written so that a reader never sees half of it, and folders of earlier attempts.

Each attempt at a job has a separate folder, ROOM/ID-NUMBER, counted from 1. None is removed or overwritten.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..temporary import clear_parts

JOB_FILE = "job.json"
EVENTS_FILE = "events.jsonl"
SAMPLES_FILE = "samples.csv"
DRIVER_SAMPLES_FILE = "driver_samples.csv"
# Of the GPUs after the first, counted from 1.
OTHER_SAMPLES_FILE, OTHER_DRIVER_SAMPLES_FILE = "samples-gpu{}.csv", "driver_samples-gpu{}.csv"
METER_FILE = "meter.json"
COMPUTER_FILE = "computer.json"  # of an answer that several trials share: the computer that gave it
LOG_FILE = "log.txt"
COMPILED_FOLDER = "compiled"  # what a framework compiles, in the trial's folder, while its worker runs
SAMPLER_LOG_FILE = "sampler.txt"  # the sampler's error output; none if it is empty
LOGS = (LOG_FILE, SAMPLER_LOG_FILE)  # free text
RESULT_FILE = "result.json"
ATTEMPT_FILE = "attempt.json"  # the runner's own knowledge of a trial, for a result that is rebuilt from its files
UNREADABLE_FILE = "result-unreadable-{number}.json"  # an unreadable result that was replaced

CACHE_FOLDER = "cache"  # in a results folder: decoded images, if the caller names no cache; may be removed
LOCK_FILE = ".lock-{}"  # in a results folder: for a device or for a file that only one run at a time writes
LOCK_FILES = ".lock*"  # all of them

ATTEMPTS = "attempts"  # in a results folder: earlier attempts at a trial, each as ID-NUMBER, counted from 1
# An id ends in a digest of eight characters, all of which may be digits: a number has fewer.
NUMBERED = re.compile(r"(?P<id>.+)-(?P<number>[1-9][0-9]{0,6})")


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write atomically: a reader sees the old file or the whole new one, which is on the disk on return. JSON has no
    NaN or infinity: they become null.

    Raises OSError; then nothing is left of it.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(without_nan(data), file, indent=1, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync(path.parent)


def read_bytes(path: Path) -> bytes | None:
    """Return the file's content; None if there is none. Raises ValueError, one line, if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path.name}: cannot be read: {error.strerror}") from error


def set_aside(path: Path, name: str) -> Path:
    """Rename the file to the first free of `name`, whose {number} counts from 1; return the path. Raises OSError."""
    numbered = (path.with_name(name.format(number=number)) for number in itertools.count(1))
    return path.rename(next(free for free in numbered if not free.exists()))


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk. A name belongs to its folder, and is lost if the machine stops before
    the folder is flushed. Does nothing if the file system does not support it. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def settle(folder: Path) -> None:
    """Flush everything that the folder's processes wrote there, and the folder itself, to the disk. Raises OSError."""
    for path in folder.iterdir():
        if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
            sync(path)
    sync(folder)
    sync(folder.parent)


def without_nan(value: Any) -> Any:
    """Return the same data with None for every NaN and infinity."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and value - value != 0:  # NaN and the infinities
        return None
    return value


def attempts_by_id(room: Path) -> dict[str, list[Path]]:
    """Return {id: its folders, in order} of all attempts in the folder `room`; empty if it does not exist."""
    return _by_id(room.glob("*"))


def attempts_of(room: Path, name: str) -> list[Path]:
    """Return the folders of the attempts at the job of this id, in order."""
    return _by_id(room.glob(f"{name}-*")).get(name, [])


def _by_id(paths: Iterable[Path]) -> dict[str, list[Path]]:
    folders: dict[str, list[tuple[int, Path]]] = {}
    for path in paths:
        if (name := NUMBERED.fullmatch(path.name)) and path.is_dir():
            folders.setdefault(name["id"], []).append((int(name["number"]), path))
    return {name: [path for _, path in sorted(numbered)] for name, numbered in sorted(folders.items())}


def attempt_number(folder: Path) -> int:
    """Return the number of an attempt's folder."""
    return int(folder.name.rpartition("-")[2])


def next_attempt_path(room: Path, name: str) -> Path:
    """Return the path after all existing ones. A number is not reused if an earlier one was removed."""
    return room / f"{name}-{1 + max(map(attempt_number, attempts_of(room, name)), default=0)}"


def move_aside(folder: Path, room: Path) -> Path:
    """Move the whole folder into `room`, as the newest attempt there; return its new path. JSON files that a killed
    process left half written are removed. Raises OSError.
    """
    room.mkdir(exist_ok=True)
    clear_parts(folder)
    moved = folder.rename(next_attempt_path(room, folder.name))
    for changed in (room, folder.parent, room.parent):
        sync(changed)
    return moved
