"""Read samples of a device from other sources, by the columns of their file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from . import log_columns
from .log_columns import (
    HOST,
    IMPLIED_UNITS,
    KINDS,
    NUMBER,
    PERCENT,
    SHARE,
    UNIT_NAMES,
    UNKNOWN,
    ColumnKind,
)

Values = NDArray[np.float64]

TIMES = ("time", "timestamp", "datetime", "date", "elapsed", "runtime", "seconds", "t", "epoch", "unix", "ts")
FILLERS = (*TIMES, "relative", "wall", "process")  # "Relative Time (Process)"
PER_SECOND = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # by the column's last word
DAYLESS = ("%H:%M:%S", "%H:%M:%S.%f")
MOMENTS = (  # nvidia-smi's first
    "%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "ISO8601", "%Y%m%d %H:%M:%S", "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M:%S.%f", *DAYLESS,
)  # fmt: skip
DAY_S = 86_400
SINCE_1970_S = 1e8  # a larger number of seconds is a date, 1973 or later


RUNNING_NUMBER = "number"  # of a sample, if a log has no times
DEVICE = re.compile(
    r"((gpu|cpu|card|device|dev|cuda|pci)[ ._]*)?(index|idx|id|uuid|serial|bus[ ._]?id|model|name|ordinal|minor)"
    r"|(gpu|cpu|card|device)[ ._]*(no|num|number)|device|card|host(name)?|node|pid|entity"
)
OWN_NUMBER = re.compile(  # number of a device in the name of its column: "system.gpu.0.gpu", "gpu1_util", "power_2"
    r"(?:gpu|cuda|card|device)[ ._/:-]?(\d+)(?![\da-z])|(?:util\w*|usage|power|mem\w*|temp\w*|watts?)[ ._]?(\d+)$"
)


@dataclass(frozen=True)
class LogColumn:
    """Values of a column of this kind, in `unit`; NaN where the file says that a value is unknown.

    `factor` converts a value to the first unit of its bounds; `most` is the largest possible value in `unit`.
    """

    kind: str
    values: Values
    unit: str
    factor: float
    bounds: ColumnKind
    most: float
    is_host: bool


@dataclass(frozen=True)
class Log:
    """Samples of one device. `times_s` is None if there is no column of times.

    `numbers` are their running numbers, None if there are none. `quantities` are {column: its values}. `usage` names
    the column that shows how busy the device was. `repeated` counts the samples that repeat another one in every
    column, its time or number included.
    """

    name: str
    times_s: Values | None
    numbers: Values | None
    quantities: dict[str, LogColumn]
    usage: str | None
    repeated: int

    def columns(self, kind: str) -> list[str]:
        """List the columns of this kind."""
        return [column for column, quantity in self.quantities.items() if quantity.kind == kind]


def devices(path: Path, table: pd.DataFrame) -> Iterator[Log]:
    """Yield the log of each device.

    Raises ValueError for a file without rows, without a quantity, or with a cell that cannot be read.
    """
    if not len(table):
        raise ValueError("it has no rows")
    table = _with_moments(table)
    keys = _device_columns(table)
    numbers = {column: next(filter(None, found.groups())) for column in table.columns
               if column not in keys and (found := OWN_NUMBER.search(column.lower()))}  # fmt: skip
    if len(set(numbers.values())) > 1:
        for number in dict.fromkeys(numbers.values()):
            others = [column for column, own in numbers.items() if own != number]
            shared = [column for column in table.columns if column in numbers or _is_time(column)]
            yield _log(f"{path}, device {number}", table[[each for each in shared if each not in others]], keys)
        table = table.drop(columns=list(numbers))
        if any(map(log_columns.kind_of, table.columns)):
            yield _log(str(path), table, keys)
        return
    if not keys:
        yield _log(str(path), table, keys)
        return
    groups = [rows for _, rows in table.groupby(keys, sort=False)]
    telling = [column for column in keys if table[column].nunique() > 1]
    telling = next(([column] for column in telling if table[column].nunique() == len(groups)), telling)
    for rows in groups:
        label = ", ".join(f"{column} {rows[column].iloc[0]}" for column in telling)
        yield _log(f"{path}, {label}" if telling else str(path), rows, keys)


def _with_moments(table: pd.DataFrame) -> pd.DataFrame:
    """Join a date and a time of day into one column of times."""
    day, hour = (next((c for c in table.columns if c.lower() == name), None) for name in ("date", "time"))
    if day is None or hour is None or not table[hour].str.match(r"\d?\d:").all():
        return table
    joined = table[day] + " " + table[hour]
    return table.drop(columns=hour).assign(**{day: joined})


def _device_columns(table: pd.DataFrame) -> list[str]:
    """List the columns that number or name the device; a column with a different value in every row is not one."""
    found = [column for column in table.columns if DEVICE.fullmatch(column.lower())]
    usages = [column for column in table.columns if log_columns.kind_of(column) == "usage" and column not in found]
    for bare in (column for column in usages if column.lower() in ("gpu", "cpu")):
        others = [c for c in usages if c != bare and ("cpu" in c.lower()) == (bare.lower() == "cpu")]
        number = pd.to_numeric(table[bare], errors="coerce")
        count = number.max() + 1
        turns = count > 1 and bool((number == np.arange(len(table)) % count).all())
        if others or turns:
            found.append(bare)
    return [column for column in found if table[column].nunique() * 2 <= len(table)]


def _log(name: str, table: pd.DataFrame, keys: list[str]) -> Log:
    times = next((column for column in table.columns if _is_time(column)), None)
    left = [column for column in table.columns if column != times and column not in keys
            and not DEVICE.fullmatch(column.lower())]  # fmt: skip
    kinds = {column: kind for column in left if (kind := log_columns.kind_of(column)) and not _is_text(table[column])}
    if not kinds:
        raise ValueError(f"no column of usage, memory or power; it has {', '.join(table.columns)}")
    totals = {column: _quantity(column, "memory", table[column]) for column in left if _is_total(column)}
    sizes = [(total.is_host, np.nanmax(total.values, initial=0) * total.factor) for total in totals.values()]
    whole = {of_host: max((size for host, size in sizes if host == of_host), default=0.0) for of_host in (False, True)}
    usages = [column for column, kind in kinds.items() if kind == "usage"]
    usage = next((column for column in usages if not HOST.search(column.lower())), usages[0] if usages else None)
    return Log(
        name,
        times_s=None if times is None else _seconds(times, table[times]),
        numbers=_numbers(RUNNING_NUMBER, table[RUNNING_NUMBER]) if RUNNING_NUMBER in table.columns else None,
        quantities={column: _quantity(column, kind, table[column], whole) for column, kind in kinds.items()},
        usage=usage,
        repeated=int(table.duplicated().sum()) if times is not None or RUNNING_NUMBER in table.columns else 0,
    )


def _is_total(column: str) -> bool:
    return re.search(r"(mem\w*|fb|(^|[^a-z])v?ram)[._ ]?t(o)?t(a)?l|total[._ ]?(mem|v?ram)", column.lower()) is not None


def _is_text(cells: pd.Series) -> bool:
    """True for a column of names: no cell begins like a number, and not all are unknown."""
    known = cells[~cells.map(_is_unknown)]
    return len(known) > 0 and not known.str.match(r"[-+.]?\d").any()


def _is_time(column: str) -> bool:
    return _time_unit(column) is not None


def _time_unit(column: str) -> str | None:
    """Unit at the end of a time column's name, "" if it has none; None for any other column."""
    words = re.findall(r"[a-z]+", column.lower())
    if not words or words[0] not in FILLERS or not set(words) & set(TIMES):
        return None
    unit = words[-1] if words[-1] in PER_SECOND and len(words) > 1 else ""
    others = words[: len(words) - bool(unit)]
    if any(word not in FILLERS for word in others) or ("epoch" in words and (others != ["epoch"] or not unit)):
        return None
    return unit


def _quantity(column: str, kind: str, cells: pd.Series, whole: Mapping[bool, float] | None = None) -> LogColumn:
    """Convert a column to one unit: that of the cells, otherwise of its name, otherwise the usual one.

    Raises ValueError as `_numbers`. `whole` is the memory of the card (False) and of the host (True) in the first unit.
    It is 0 if unknown.
    """
    values = _numbers(column, cells)
    implied = next((unit for words, unit in IMPLIED_UNITS.items() if re.search(words, column.lower())), "")
    named = log_columns.named_unit(column) or implied
    behind = _known(cells).str.extract(NUMBER)[1].fillna("").str.lower().map(UNIT_NAMES).fillna("")
    told = behind[behind != ""]
    unit = told.iloc[0] if len(told) else named
    is_share = kind in ("memory", "power") and unit in PERCENT
    bounds = SHARE if is_share else KINDS[kind]
    strange = told[~told.isin(list(bounds.units))]
    if len(strange):
        where = f"{column}, row {strange.index[0] + 1}"
        raise ValueError(f"{where}: {strange.iloc[0]} is no unit of {kind} beside {', '.join(bounds.units)}")
    if unit not in bounds.units:
        unit = next(iter(bounds.units))
    factor = bounds.units[unit]
    if behind.nunique() > 1:
        values = values * behind.map(bounds.units).fillna(factor).to_numpy(np.float64) / factor
    is_host = HOST.search(column.lower()) is not None
    most = bounds.most_of_host if is_host else bounds.most
    if kind == "memory" and not is_share and whole and 0 < whole[is_host] < most:
        most = whole[is_host]
    return LogColumn(kind, values, unit, factor, bounds, most / factor, is_host)


def _numbers(column: str, cells: pd.Series) -> Values:
    """Read numbers: "37 %" is 37; "[N/A]" is NaN. Raises ValueError for anything else."""
    unread = cells[~cells.map(log_columns.is_number)]
    if len(unread):
        raise ValueError(f"{column}, row {unread.index[0] + 1}: {unread.iloc[0]!r} is no number")
    return pd.to_numeric(_known(cells).str.extract(NUMBER)[0]).to_numpy(np.float64)


def _known(cells: pd.Series) -> pd.Series:
    """Empty the cells that say that a value is unknown: "[Unknown Error 15]" does not mean 15."""
    return cells.mask(cells.map(_is_unknown), "")


def _is_unknown(cell: str) -> bool:
    return UNKNOWN.fullmatch(cell) is not None


def _seconds(column: str, cells: pd.Series) -> Values:
    """Convert times to seconds since the first.

    A number without a unit is classified by its size: a date in ns, us, ms or s, otherwise seconds. Raises ValueError
    for a time that cannot be read.
    """
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
    if not np.isnan(numbers).any():
        since_1970 = (scale for scale in (1e9, 1e6, 1e3) if numbers[0] > SINCE_1970_S * scale)
        scale = PER_SECOND.get(_time_unit(column) or "") or next(since_1970, 1.0)
        seconds: Values = (numbers - numbers[0]) / scale
        return seconds
    unread = cells[np.isnan(numbers)]
    for form in MOMENTS:
        moments = pd.to_datetime(cells, format=form, errors="coerce", utc=True)
        if moments.notna().all():
            elapsed = np.asarray((moments - moments.iloc[0]).dt.total_seconds(), np.float64)
            midnights = np.cumsum(np.diff(elapsed, prepend=0) < -DAY_S / 2) if form in DAYLESS else 0
            return np.asarray(elapsed + DAY_S * midnights, np.float64)
        unread = min(unread, cells[moments.isna()], key=len)
    raise ValueError(f"{column}, row {unread.index[0] + 1}: {unread.iloc[0]!r} is no time")
