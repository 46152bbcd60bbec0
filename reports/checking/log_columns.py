"""Recognise columns in logs from other sources by name and unit, and read their cells as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Values = NDArray[np.float64]
UNKNOWN = re.compile(r"|-|\[.*\]|n/?a|not supported|not available|unknown error|err!?|nan|null|none", re.IGNORECASE)
NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*([%a-z/°]*)", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnKind:
    """A kind of quantity, for columns with these words.

    `units` are {name: its size in the first unit}; the first is the usual one. Values are possible from 0 to `most`, on
    a host to `most_of_host`. A peak of `least_peak` or less is too small.
    """

    words: re.Pattern[str]
    units: dict[str, float]
    most: float = np.inf
    most_of_host: float = np.inf
    least_peak: float = 0.0
    other: str = ""  # another unit to suggest if none of `units` brings a value in range


PERCENT = {"%": 1.0}
MEMORY = {"MiB": 1.0, "MB": 1.0, "KiB": 2.0**-10, "KB": 2.0**-10, "bytes": 2.0**-20, "GiB": 2.0**10, "GB": 2.0**10}
FREQUENCY = {"MHz": 1.0, "kHz": 1e-3, "Hz": 1e-6, "GHz": 1e3}
ENERGY = {"J": 1.0, "mJ": 1e-3, "kJ": 1e3, "Wh": 3.6e3, "kWh": 3.6e6}
OTHER_NAMES = {
    "percent": "%", "pct": "%", "b": "bytes", "byte": "bytes", "watt": "W", "watts": "W", "joules": "J", "c": "°C",
    "celsius": "°C",
}  # fmt: skip
IN_USE = r"mem|rss|(^|[^a-z])v?ram([^a-z]|$)|(^|[^a-z])fb([^a-z]|$)|fbusd"  # memory
IGNORED = re.compile(
    r"util\w*[._ ]?mem|mem\w*[._ ](copy|contr)|mcutl|^mem \[%\]$|gpu\.\d+\.memory$|(en|de)c(oder|$|[^a-z])"
    r"|jpe?g|\bofa|limit|count|reason|throttl|foreign|version|free|fre$|error|fan|disk|network|pcie|bar1|ccpm"
    rf"|available|(^|[^a-z])cap|gpu\.process|__m(in|ax)$|_s$|({IN_USE}).*(total|ttl)|(total|ttl).*({IN_USE})"
)
USAGE = re.compile(
    r"util|usage|busy|gputl|gract|engine_active|gpu.*load|^sm($| |_)"
    r"|(^|[^a-z])[gc]pu[ _.:]?\d*[ _.]*[\[(]?(%|percent|pct|active)?[\])]?$"
)
# The first kind that fits a column's name; columns that may be zero throughout have no kind. No card has 400,000 MiB,
# draws 2,000 W, or clocks its memory at 20,000 MHz. A process's usage is summed over the cores of its host.
KINDS = {
    "energy": ColumnKind(re.compile(r"energy|joule|totec"), ENERGY),
    "": ColumnKind(IGNORED, {}),
    "temperature": ColumnKind(  # does not match "attempt"
        re.compile(r"temp(erature)?[sc]?(?![a-z])|tmptr"), {"°C": 1.0, "mC": 1e-3}, 125, 125, 1, "K, °F"
    ),
    "clock": ColumnKind(re.compile(r"(?<!wall)(?<!wall[ _.-])clock|clk|mhz"), FREQUENCY, 20_000, 20_000, 10),
    "power": ColumnKind(re.compile(r"power|watt|pwr"), {"W": 1.0, "mW": 1e-3, "kW": 1e3}, 2_000, 20_000, 1),
    "memory": ColumnKind(re.compile(IN_USE), MEMORY, 400_000, 2**26),
    "usage": ColumnKind(USAGE, PERCENT | {"ratio": 100.0}, 100, 100 * 2**10, 1, "a sum over several devices"),
}
SHARE = ColumnKind(re.compile(""), PERCENT, 100, 100)  # of memory or power, in percent
HOST = re.compile(r"cpu|host|rss|system[./]mem|proc|(^|[^a-z])ram")
IMPLIED_UNITS = {r"total_energy_consumption|totec": "mJ", r"gract|engine_active": "ratio"}  # of DCGM
UNIT_NAMES = OTHER_NAMES | {name.lower(): name for kind in KINDS.values() for name in kind.units}
UNIT_AT_END = re.compile(
    r"(?:(?<![a-zA-Z])|(?<=[a-z])(?=[A-Z])|(?=%))"
    rf"((?i:{'|'.join(sorted(map(re.escape, UNIT_NAMES), key=len, reverse=True))}))[\])\s]*$"
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

    @property
    def known(self) -> Values:
        """The values that are known."""
        return self.values[~np.isnan(self.values)]


def find_kind(column: str) -> str:
    """Return the name of the kind; "" for a column that is not checked, as a usage in MB or W."""
    kind = next((kind for kind, each in KINDS.items() if each.words.search(column.lower())), "")
    unit = read_unit(column)
    return "" if kind == "usage" and unit and unit not in KINDS[kind].units else kind


def read_unit(column: str) -> str:
    """Return the unit at the end of a column's name; "" without one."""
    at_end = UNIT_AT_END.search(column)
    return UNIT_NAMES[at_end[1].lower()] if at_end else ""


def read_column(column: str, kind: str, cells: pd.Series[str], whole: Mapping[bool, float] | None = None) -> LogColumn:
    """Convert a column to one unit: that of the cells, otherwise of its name, otherwise the usual one.

    `whole` is the memory of the card (False) and of the host (True) in the first unit; 0 if unknown. Raises ValueError
    for a cell that is no number, or has another quantity's unit.
    """
    values, units = read_numbers(column, cells)
    stated = units[units != ""]
    implied = next((unit for words, unit in IMPLIED_UNITS.items() if re.search(words, column.lower())), "")
    unit = stated.iloc[0] if len(stated) else read_unit(column) or implied
    is_share = kind in ("memory", "power") and unit in PERCENT
    bounds = SHARE if is_share else KINDS[kind]
    strange = stated[~stated.isin(list(bounds.units))]
    if len(strange):
        where = f"{column}, row {strange.index[0] + 1}"
        raise ValueError(f"{where}: {strange.iloc[0]} is not a unit of {kind}; known units: {', '.join(bounds.units)}")
    if unit not in bounds.units:
        unit = next(iter(bounds.units))
    factor = bounds.units[unit]
    values = values * (units.map(bounds.units).fillna(factor).to_numpy(np.float64) / factor)
    is_host = HOST.search(column.lower()) is not None
    most = bounds.most_of_host if is_host else bounds.most
    if kind == "memory" and not is_share and whole and 0 < whole[is_host] < most:
        most = whole[is_host]
    return LogColumn(kind, values, unit, factor, bounds, most / factor, is_host)


def read_numbers(column: str, cells: pd.Series[str]) -> tuple[Values, pd.Series[str]]:
    """Return (numbers, known units): "37 %" is 37; "[N/A]" is NaN. Raises ValueError for anything else."""
    unread = cells[~cells.map(is_number)]
    if len(unread):
        raise ValueError(f"{column}, row {unread.index[0] + 1}: {unread.iloc[0]!r} is not a number")
    parts = cells.mask(cells.map(is_unknown), "").str.extract(NUMBER)  # "[Unknown Error 15]" does not mean 15
    units = parts[1].fillna("").str.lower().map(UNIT_NAMES).fillna("")
    return pd.to_numeric(parts[0]).to_numpy(np.float64), units


def is_number(cell: str) -> bool:
    """True for a number, with or without a unit, or for a value marked as unknown."""
    return bool(NUMBER.fullmatch(cell)) or is_unknown(cell)


def is_unknown(cell: str) -> bool:
    """True if the cell says that its value is unknown."""
    return bool(UNKNOWN.fullmatch(cell))
