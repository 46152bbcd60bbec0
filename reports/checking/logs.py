"""Others' samples of a device, by the columns that a file of theirs was read into."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Values = NDArray[np.float64]

TIMES = ("time", "timestamp", "datetime", "date", "elapsed", "seconds", "t", "epoch")  # the first word of the column
PER_SECOND = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # its last word
MOMENTS = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "ISO8601")  # nvidia-smi's first
SINCE_1970_S = 1e8  # a larger number of seconds is a date: 1973 or later
# The first that a column's name fits is its kind; what may be zero all along is none of them.
KINDS = {
    "": re.compile(r"util\w*[._ ]mem|encoder|decoder|jpeg|ofa|limit|total|count|reason|foreign|name|version|_s$"),
    "memory": re.compile(r"mem|rss"),
    "power": re.compile(r"power|watt"),
    "energy": re.compile(r"energy|joule"),
    "temperature": re.compile(r"temp"),
    "clock": re.compile(r"clock|mhz"),
    "usage": re.compile(r"util|usage|busy|^(gpu|cpu)([^a-z]|$)"),
}
RUNNING_NUMBER = "number"  # of a sample, where a log has no times
DEVICE = re.compile(r"(gpu_)?(index|uuid|bus_id)|pci\.bus_id")
UNKNOWN = re.compile(r"|\[?(n/?a|not supported|not available|unknown error|err!?|nan|null|none)\]?", re.IGNORECASE)
NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*[%a-z/°]*", re.IGNORECASE)


@dataclass(frozen=True)
class Log:
    """The samples of one device. `times_s` is None where there is no column of times; `numbers` are their running
    numbers, None where there are none; `quantities` are {column: values} with NaN where the file says that a value is
    not known; `usage` names the one that tells how busy the device was, `memories` those of memory; `repeated` are the
    samples that another one with the same time or number repeats in every column.
    """

    name: str
    times_s: Values | None
    numbers: Values | None
    quantities: dict[str, Values]
    usage: str | None
    memories: tuple[str, ...]
    repeated: int


def devices(path: Path, table: pd.DataFrame) -> Iterator[Log]:
    """Raises ValueError for a file without rows, without a quantity, or with a cell that cannot be read."""
    if not len(table):
        raise ValueError("it has no rows")
    column = next((name for name in table.columns if DEVICE.fullmatch(name.lower())), None)
    if column is None or table[column].nunique() * 2 > len(table):  # a number of its own for every row is no device
        yield _log(str(path), table)
        return
    groups = list(table.groupby(column, sort=False))
    for label, rows in groups:
        yield _log(f"{path}, {column} {label}" if len(groups) > 1 else str(path), rows)


def _log(name: str, table: pd.DataFrame) -> Log:
    times = next((column for column in table.columns if _unit(column) is not None), None)
    kinds = {column: kind for column in table.columns if column != times and (kind := _kind(column))}
    if not kinds:
        raise ValueError(f"no column of usage, memory or power; it has {', '.join(table.columns)}")
    usages = [column for column, kind in kinds.items() if kind == "usage"]
    usage = next((column for column in usages if "gpu" in column.lower()), usages[0] if usages else None)
    memories = tuple(column for column, kind in kinds.items() if kind == "memory")
    return Log(
        name,
        times_s=None if times is None else _seconds(times, table[times]),
        numbers=_numbers(RUNNING_NUMBER, table[RUNNING_NUMBER]) if RUNNING_NUMBER in table.columns else None,
        quantities={column: _numbers(column, table[column]) for column in kinds},
        usage=usage,
        memories=memories,
        repeated=int(table.duplicated().sum()) if times is not None or RUNNING_NUMBER in table.columns else 0,
    )


def is_number(cell: str) -> bool:
    """Whether it is one, with or without a unit, or says that it is not known."""
    return bool(NUMBER.fullmatch(cell) or UNKNOWN.fullmatch(cell))


def _kind(column: str) -> str:
    """ "" for a column that is not looked at."""
    return next((kind for kind, words in KINDS.items() if words.search(column.lower())), "")


def _unit(column: str) -> str | None:
    """The unit that the name of a column of times ends with, "" where it has none; None for any other column."""
    first, *more = re.findall(r"[a-z]+", column.lower()) or [""]
    if first not in TIMES or len(more) > 1 or (more and more[0] not in PER_SECOND) or (first == "epoch" and not more):
        return None
    return more[0] if more else ""


def _numbers(column: str, cells: pd.Series) -> Values:
    """ "37 %" is 37; "[N/A]" is NaN. Raises ValueError for anything else."""
    unread = cells[~cells.map(is_number)]
    if len(unread):
        raise ValueError(f"{column}, row {unread.index[0] + 1}: {unread.iloc[0]!r} is no number")
    return pd.to_numeric(cells.str.extract(NUMBER, expand=False)).to_numpy(np.float64)


def _seconds(column: str, cells: pd.Series) -> Values:
    """Since the first. A number without a unit is taken by its size: a date in ns, us, ms or s, else seconds.

    Raises ValueError for a time that cannot be read.
    """
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
    if not np.isnan(numbers).any():
        since_1970 = (scale for scale in (1e9, 1e6, 1e3) if numbers[0] > SINCE_1970_S * scale)
        seconds: Values = (numbers - numbers[0]) / (PER_SECOND.get(_unit(column) or "") or next(since_1970, 1.0))
        return seconds
    unread = cells[np.isnan(numbers)]
    for form in MOMENTS:
        moments = pd.to_datetime(cells, format=form, errors="coerce", utc=True)
        if moments.notna().all():
            return np.asarray((moments - moments.iloc[0]).dt.total_seconds(), np.float64)
        unread = min(unread, cells[moments.isna()], key=len)
    raise ValueError(f"{column}, row {unread.index[0] + 1}: {unread.iloc[0]!r} is no time")
