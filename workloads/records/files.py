"""The files of a trial's folder, and JSON written so that a reader never sees half of it."""

from __future__ import annotations

import errno
import itertools
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

JOB_FILE = "job.json"
EVENTS_FILE = "events.jsonl"
SAMPLES_FILE = "samples.csv"
DRIVER_SAMPLES_FILE = "driver_samples.csv"
# Of the GPUs after the first, counted from 1.
OTHER_SAMPLES_FILE, OTHER_DRIVER_SAMPLES_FILE = "samples-gpu{}.csv", "driver_samples-gpu{}.csv"
METER_FILE = "meter.json"
LOG_FILE = "log.txt"
SAMPLER_LOG_FILE = "sampler.txt"  # the sampler's error output; none if it is empty
RESULT_FILE = "result.json"
ATTEMPT_FILE = "attempt.json"  # the runner's own knowledge of a trial, for a result that is rebuilt from its files
UNREADABLE_FILE = "result-unreadable-{number}.json"  # an unreadable result that was replaced

CACHE_FOLDER = "cache"  # in a results folder: decoded images, if the caller names no cache; may be removed
LOCK_FILE = ".lock-{}"  # in a results folder: for a device or for a file that only one run at a time writes
LOCK_FILES = ".lock*"  # all of them

ATTEMPTS = "attempts"  # in a results folder: earlier attempts at a trial, each as ID-NUMBER, counted from 1


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
