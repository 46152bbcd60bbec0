"""Which form a file of others' samples has, and its cells as text: CSV with or without a header, and logs whose every
line names its own figures (DLBench's loggers, memory_profiler). What had to be assumed is told.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from . import logs

SHOWN = 60  # characters of a line that is quoted
SEPARATORS = (",", ";", "\t")
NUMBERED = re.compile(r"(\d+), ?(\w+: .*|\w+: ?)")  # "12, memory_percent: 2.8, cpu_percent: 57.1"
LABELLED = re.compile(r"(\w+): ?([^,]*)")
DEVICE = re.compile(r" *(?P<usage>\d+|nan)% \| *(?P<memory>\d+|nan)MB")  # one of each GPU, side by side
PROFILED = re.compile(r"MEM (?P<memory>\d+\.\d+) (?P<time>\d+\.\d+)")
PROFILE_HEADER = "CMDLINE "
MOMENT = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S*")
UNITS = {  # of the cells of a CSV file without a header, with the column that each is taken for
    "%": "usage [%]", "MiB": "memory [MiB]", "MB": "memory [MB]", "W": "power [W]", "MHz": "clock [MHz]",
}  # fmt: skip
WITH_UNIT = re.compile(r"[-+]?[\d.]+ ?([%A-Za-z]+)")


# The cells of a file as text, by columns; and what the columns were taken for and why, where it has no header.
Cells = tuple[pd.DataFrame, str | None]


def content(path: Path) -> str:
    """Raises ValueError where the file cannot be read, or has a line that is no text."""
    try:
        stored = path.read_bytes()
        return stored.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except UnicodeDecodeError as error:
        number = stored.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {number} is no text in UTF-8") from error


def first_line(text: str) -> tuple[int, str]:
    """(number from 1, the line) of the first one that is not blank; (1, "") without any."""
    lines = enumerate(text.splitlines(), start=1)
    return next(((number, line.strip()) for number, line in lines if line.strip()), (1, ""))


def parser(text: str) -> Callable[[str], Cells]:
    """What reads a file whose first line is this one's: the form of log that it is, else CSV."""
    _, line = first_line(text)
    if NUMBERED.fullmatch(line):
        return numbered
    return profiled if PROFILED.fullmatch(line) or line.startswith(PROFILE_HEADER) else separated


def unreadable(number: int, line: str) -> ValueError:
    """The first line that cannot be read; `number` counts from 1."""
    text = line.strip()
    return ValueError(f"line {number}: {text[:SHOWN] + '...' * (len(text) > SHOWN)!r} is of no form that is known")


def _parsed(text: str, parse: Callable[[str], list[dict[str, str]] | None], header: str | None = None) -> pd.DataFrame:
    """Every line by `parse`, which gives None for a line of another form; but one that begins with `header`."""
    lines = text.splitlines()
    rows: list[dict[str, str]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (header and not rows and line.startswith(header)):
            continue
        parsed = parse(line.rstrip())
        if parsed is None or (rows and set(parsed[0]) != set(rows[0])):
            if number == len(lines) and rows and not text.endswith("\n"):
                break
            raise unreadable(number, line)
        rows += parsed
    return pd.DataFrame(rows)


def numbered(text: str) -> Cells:
    """ "12, gpu_percent:   73% | 7397MB": several GPUs one behind the other, without any nothing behind the colon."""
    table = _parsed(text, _numbered_line)
    columns = ", ".join(str(name) for name in table.columns if name != logs.RUNNING_NUMBER)
    bar = "; behind the bar memory in use, for the unit is MB" if " | " in text else ""
    return (
        table,
        f"its first column is taken for the samples' running number, the lines name the others: {columns}{bar}",
    )


def _numbered_line(line: str) -> list[dict[str, str]] | None:
    whole = NUMBERED.fullmatch(line)
    if whole is None:
        return None
    number, rest = whole.groups()
    row = {logs.RUNNING_NUMBER: number}
    name, _, behind = rest.partition(":")
    if not behind.strip() or "|" in behind:
        devices = [device.groupdict() for device in DEVICE.finditer(behind)]
        if DEVICE.sub("", behind).strip():
            return None
        memory = f"{name.removesuffix('_percent')}_memory"
        if not devices:
            return [row | {name: "", memory: ""}]
        several = len(devices) > 1
        return [
            row | ({"index": str(index)} if several else {}) | {name: device["usage"], memory: device["memory"]}
            for index, device in enumerate(devices)
        ]
    for part in rest.split(", "):
        labelled = LABELLED.fullmatch(part)
        if labelled is None or not logs.is_number(labelled[2].strip()):
            return None
        row[labelled[1]] = labelled[2].strip()
    return [row]


def profiled(text: str) -> Cells:
    """As memory_profiler writes it: "MEM 1109.41 1539876706.5429"; mprof puts the command line in front."""
    with_header = first_line(text)[1].startswith(PROFILE_HEADER)
    assumption = (
        "memory in MiB and seconds since 1970 are assumed, for memory_profiler writes such lines (MEM, MiB, time)"
    )
    return _parsed(text, _profiled_line, PROFILE_HEADER), None if with_header else assumption


def _profiled_line(line: str) -> list[dict[str, str]] | None:
    sample = PROFILED.fullmatch(line)
    return [{"memory_mib": sample["memory"], "time_s": sample["time"]}] if sample else None


def separated(text: str) -> Cells:
    """CSV; a last row that a kill cut short is left out. Raises ValueError with the reason.

    A separator at the end of a row is no cell; a row with more cells than the header does not say which is which.
    """
    _, first = first_line(text)
    separator = next((mark for mark in SEPARATORS if mark in first), ",")
    header = [cell.strip() for cell in next(csv.reader([first], delimiter=separator), [])]
    names = assumed = None
    if header and all(_is_value(cell) for cell in header):
        names, assumed = _names(header, first)
    try:
        table = _table(text, separator, len(header), names)
    except (csv.Error, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    if len(table) and table.iloc[-1].isna().any():
        table = table.iloc[:-1]
    table.columns = [str(name).strip() for name in table.columns]
    return table.fillna("").apply(lambda column: column.str.strip()), assumed


def _table(text: str, separator: str, width: int, names: list[str] | None) -> pd.DataFrame:
    rows = (row for row in csv.reader(io.StringIO(text), delimiter=separator) if row)
    for number, row in enumerate(rows, start=int(names is not None)):
        if number and any(cell.strip() for cell in row[width:]):
            raise ValueError(f"row {number} has {len(row)} cells, the {'first row' if names else 'header'} {width}")
    return pd.read_csv(
        io.StringIO(text),
        sep=separator,
        dtype=str,
        skipinitialspace=True,
        keep_default_na=False,
        # A separator at the end of a row: neither the first column as the index, nor an error.
        index_col=False,
        usecols=range(width) if width else None,
        header=None if names else "infer",
        names=names,
    )


def _is_value(cell: str) -> bool:
    return not cell or logs.is_number(cell) or MOMENT.fullmatch(cell) is not None


def _names(cells: list[str], first: str) -> tuple[list[str], str]:
    """What columns without a header are, by the units of their first cells. Raises ValueError where no cell says so."""
    names: list[str] = []
    left: list[str] = []
    for place, cell in enumerate(cells, start=1):
        unit = WITH_UNIT.fullmatch(cell)
        name = "timestamp" if MOMENT.fullmatch(cell) else UNITS.get(unit[1] if unit else "", "")
        if not name or name in names:
            name = f"column {place}"
            left.append(name)
        names.append(name)
    columns = [f"column {place} as {name}" for place, name in enumerate(names, start=1) if name not in left]
    if not set(names) & set(UNITS.values()):
        raise ValueError(
            f"it has no header, and its cells have no units that say what they are: {first.strip()[:SHOWN]!r}"
        )
    return names, "by the units of its first row: " + ", ".join(columns) + (
        f"; not read: {', '.join(left)}" if left else ""
    )
