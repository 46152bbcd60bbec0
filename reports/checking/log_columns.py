"""Recognise columns in logs from other sources by name and unit, and define which values are possible."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

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
POWER = {"W": 1.0, "mW": 1e-3, "kW": 1e3}
ENERGY = {"J": 1.0, "mJ": 1e-3, "kJ": 1e3, "Wh": 3.6e3, "kWh": 3.6e6}
TEMPERATURE = {"°C": 1.0, "mC": 1e-3}
OTHER_NAMES = {
    "percent": "%", "pct": "%", "b": "bytes", "byte": "bytes", "watt": "W", "watts": "W", "joules": "J", "c": "°C",
    "celsius": "°C",
}  # fmt: skip
TEMPERATURE_WORDS = r"temp(erature)?[sc]?(?![a-z])|tmptr"  # does not match "attempt"
IN_USE = r"mem|rss|(^|[^a-z])v?ram([^a-z]|$)|(^|[^a-z])fb([^a-z]|$)|fbusd"  # memory
# No card has 400,000 MiB, draws 2,000 W, or clocks its memory at 20,000 MHz.
IGNORED = re.compile(
    r"util\w*[._ ]?mem|mem\w*[._ ](copy|contr)|mcutl|^mem \[%\]$|gpu\.\d+\.memory$|(en|de)c(oder|$|[^a-z])"
    r"|jpe?g|\bofa|limit|count|reason|throttl|foreign|version|free|fre$|error|fan|disk|network|pcie|bar1|ccpm"
    rf"|available|(^|[^a-z])cap|gpu\.process|__m(in|ax)$|_s$|({IN_USE}).*(total|ttl)|(total|ttl).*({IN_USE})"
)
# The first kind that fits a column's name; columns that may be zero throughout have no kind.
KINDS = {
    "energy": ColumnKind(re.compile(r"energy|joule|totec"), ENERGY),
    "": ColumnKind(IGNORED, {}),
    "temperature": ColumnKind(
        re.compile(r"temp(erature)?[sc]?(?![a-z])|tmptr"), TEMPERATURE, 125, 125, 1, other="K, °F"
    ),
    "clock": ColumnKind(re.compile(r"(?<!wall)(?<!wall[ _.-])clock|clk|mhz"), FREQUENCY, 20_000, 20_000, 10),
    "power": ColumnKind(re.compile(r"power|watt|pwr"), POWER, 2_000, 20_000, 1),
    "memory": ColumnKind(re.compile(IN_USE), MEMORY, 400_000, 2**26),
    "usage": ColumnKind(
        re.compile(
            r"util|usage|busy|gputl|gract|engine_active|gpu.*load|^sm($| |_)"
            r"|(^|[^a-z])[gc]pu[ _.:]?\d*[ _.]*[\[(]?(%|percent|pct|active)?[\])]?$"
        ),
        PERCENT | {"ratio": 100.0},
        100,
        100 * 2**10,  # of a process, summed over cores
        1,
        "a sum over several devices",
    ),
}
SHARE = ColumnKind(re.compile(""), PERCENT, 100, 100)  # of memory or power, in percent
HOST = re.compile(r"cpu|host|rss|system[./]mem|proc|(^|[^a-z])ram")
IMPLIED_UNITS = {r"total_energy_consumption|totec": "mJ", r"gract|engine_active": "ratio"}  # of DCGM
UNIT_NAMES = OTHER_NAMES | {name.lower(): name for kind in KINDS.values() for name in kind.units}
UNIT_AT_END = re.compile(
    r"(?:(?<![a-zA-Z])|(?<=[a-z])(?=[A-Z])|(?=%))"
    rf"((?i:{'|'.join(sorted(map(re.escape, UNIT_NAMES), key=len, reverse=True))}))[\])\s]*$"
)


def kind_of(column: str) -> str:
    """Return the name of the kind; "" for a column that is not checked, as a usage in MB or W."""
    kind = next((kind for kind, each in KINDS.items() if each.words.search(column.lower())), "")
    unit = named_unit(column)
    return "" if kind == "usage" and unit and unit not in KINDS[kind].units else kind


def named_unit(column: str) -> str:
    """Return the unit at the end of a column's name; "" without one."""
    at_end = UNIT_AT_END.search(column)
    return UNIT_NAMES[at_end[1].lower()] if at_end else ""


def is_unit(text: str) -> bool:
    """True for the name of a known unit."""
    return text.lower() in UNIT_NAMES


def is_number(cell: str) -> bool:
    """True for a number, with or without a unit, or for a value marked as unknown."""
    return bool(NUMBER.fullmatch(cell) or UNKNOWN.fullmatch(cell))


def unit_of(cell: str) -> str:
    """Return the unit after a number; "" if there is no known one."""
    number = NUMBER.fullmatch(cell)
    return UNIT_NAMES.get(number[2].lower(), "") if number else ""


def column_by_unit(unit: str) -> str:
    """Name a column of cells with this unit: "usage [%]"; "" for a unit of no kind."""
    kinds = ("usage", "memory", "power", "clock")
    return next((f"{kind} [{unit}]" for kind in kinds if unit in KINDS[kind].units), "")
