"""Read the cells of logs from other sources, as text by columns.

Cells are separated by commas, semicolons, tabs or spaces, with a header or without. In other logs every line names its
figures (DLBench's loggers, memory_profiler).
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from . import log_columns
from .logs import RUNNING_NUMBER

SHOWN = 60  # characters of a line that is quoted
SEPARATORS = ("\t", ";", ",")  # the first of these that the first line contains
NUMBERED = re.compile(r"(\d+), ?(\w+: .*|\w+: ?)")  # "12, memory_percent: 2.8, cpu_percent: 57.1"
LABELLED = re.compile(r"(\w+): ?([^,]*)")
DEVICE = re.compile(r" *(?P<usage>\d+|nan)% \| *(?P<memory>\d+|nan)MB")  # one for each GPU, side by side
PROFILED = re.compile(r"MEM (?P<memory>\d+\.\d+) (?P<time>\d+\.\d+)")
PROFILE_HEADER = "CMDLINE "
MOMENT = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S*")
# A decimal comma in a number, or in the seconds of a time of day.
DECIMAL_COMMA = re.compile(r"^([-+]?\d+|.*\d\d:\d\d:\d\d),(\d+)(?![\d,.])")
MONITOR = re.compile(r"\s*#\s*(gpu|date|time|entity)\b|\s*(entity)\b", re.IGNORECASE)  # of nvidia-smi and dcgmi dmon
ENTITY = re.compile(r"^(\s*GPU[\w-]*) +(?=\d)")  # dcgmi's name of a device has two words: "GPU 0"

# Cells of a file as text, by columns; and what was assumed to read them.
Cells = tuple[pd.DataFrame, list[str]]


def content(path: Path) -> str:
    """Read the text of a file. Raises ValueError if it cannot be read, or a line is not text."""
    encoding = "utf-8-sig"
    try:
        stored = path.read_bytes()
        if stored.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # PowerShell's `>`
            encoding = "utf-16"
            stored = stored[: len(stored) // 2 * 2]
        return stored.decode(encoding)
    except OSError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except UnicodeDecodeError as error:
        number = stored.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {number} is no text in {encoding.upper().removesuffix('-SIG')}") from error


def first_line(text: str) -> tuple[int, str]:
    """Return (number from 1, the line) of the first line that is not blank; (1, "") if there is none."""
    lines = enumerate(text.splitlines(), start=1)
    return next(((number, line.strip()) for number, line in lines if line.strip()), (1, ""))


def parser(text: str) -> Callable[[str, Sequence[str]], Cells]:
    """Return the reader for the form of log that the first line shows."""
    _, line = first_line(text)
    if NUMBERED.fullmatch(line):
        return numbered
    return profiled if PROFILED.fullmatch(line) or line.startswith(PROFILE_HEADER) else separated


def is_separated(text: str) -> bool:
    """True if the first line has cells: a separator, the header of a monitor, or numbers with spaces between them."""
    _, line = first_line(text)
    words = line.split()
    return (
        any(mark in line for mark in SEPARATORS)
        or MONITOR.match(line) is not None
        or (len(words) > 1 and all(map(_is_value, words)))
    )


def unreadable(number: int, line: str) -> ValueError:
    """Build the error for the first line that cannot be read; `number` counts from 1."""
    text = line.strip()
    return ValueError(f"line {number}: {text[:SHOWN] + '...' * (len(text) > SHOWN)!r} is of no form that is known")


def _parsed(text: str, parse: Callable[[str], list[dict[str, str]] | None], header: str | None = None) -> pd.DataFrame:
    """Parse every line with `parse`, which returns None for a line of another form.

    A first line that begins with `header` is skipped. Raises ValueError for another form, but ignores a last line that
    was cut short.
    """
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


def numbered(text: str, _: Sequence[str]) -> Cells:
    """Read lines like "12, gpu_percent:   73% | 7397MB".

    Several GPUs follow one after the other; without a GPU nothing follows the colon.
    """
    table = _parsed(text, _numbered_line)
    columns = ", ".join(str(name) for name in table.columns if name != RUNNING_NUMBER)
    bar = "; behind the bar memory in use, for the unit is MB" if " | " in text else ""
    assumed = "its first column is taken for the samples' running number, the lines name the others"
    return table, [f"no header: {assumed}: {columns}{bar}"]


def _numbered_line(line: str) -> list[dict[str, str]] | None:
    whole = NUMBERED.fullmatch(line)
    if whole is None:
        return None
    number, rest = whole.groups()
    row = {RUNNING_NUMBER: number}
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
        if labelled is None or not log_columns.is_number(labelled[2].strip()):
            return None
        row[labelled[1]] = labelled[2].strip()
    return [row]


def profiled(text: str, _: Sequence[str]) -> Cells:
    """Read lines of memory_profiler: "MEM 1109.41 1539876706.5429"; mprof puts the command line in front."""
    with_header = first_line(text)[1].startswith(PROFILE_HEADER)
    assumed = "memory in MiB and seconds since 1970 are assumed, for memory_profiler writes such lines (MEM, MiB, time)"
    return _parsed(text, _profiled_line, PROFILE_HEADER), [] if with_header else [f"no header: {assumed}"]


def _profiled_line(line: str) -> list[dict[str, str]] | None:
    sample = PROFILED.fullmatch(line)
    return [{"rss_mib": sample["memory"], "time_s": sample["time"]}] if sample else None


def separated(text: str, columns: Sequence[str]) -> Cells:
    """Read rows of cells; `columns` names them if there is no header. Raises ValueError with the reason.

    Repeated headers are left out, and so is a last row that a kill cut short. A separator at the end of a row is no
    cell. A row with more cells than the header is an error. If a cell has several lines, the first is read.
    """
    try:
        rows, separator = _rows(text)
    except csv.Error as error:
        raise ValueError(" ".join(str(error).split())) from error
    if not rows:
        raise ValueError("it is empty")
    first = rows[0]
    assumed: list[str] = []
    if _has_values(first):
        names, assumed = _given(columns, first) if columns else _names(first)
        header: list[str] = []
    else:
        header, rows = first, rows[1:]
        names = _with_units(header, rows[0]) if rows and _is_units(header, rows[0]) else header
    width, kept = len(names), {}
    for number, cells in enumerate(rows, start=1):
        if cells == header or (header and _is_units(header, cells)):
            continue
        if any(cells[width:]):
            raise ValueError(f"row {number} has {len(cells)} cells, the {'header' if header else 'first row'} {width}")
        kept[number - 1] = cells[:width] + [""] * (width - len(cells))
    if kept and len(rows[-1]) < width and len(rows) - 1 in kept:
        del kept[len(rows) - 1]
    table = pd.DataFrame.from_dict(kept, orient="index", columns=_unique(names), dtype=str)
    return _plain(table, separator, assumed), assumed


def _rows(text: str) -> tuple[list[list[str]], str]:
    """Split text into rows.

    Returns (rows that are not blank, stripped; the separator, a space for columns separated by spaces).
    """
    _, first = first_line(text)
    separator = next((mark for mark in SEPARATORS if mark in first), " " if is_separated(text) else ",")
    monitor = MONITOR.match(first) is not None
    if separator == " ":
        split: Iterator[list[str]] = (ENTITY.sub(r"\1-", line).split() for line in text.splitlines())
    else:
        split = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    rows: list[list[str]] = []
    for cells in split:
        if monitor and cells and cells[0].startswith("#"):  # "# gpu", "#gpu"
            cells = [*filter(None, [cells[0].strip("# ")]), *cells[1:]]
        if monitor and separator == " " and rows and len(cells) > len(rows[0]):  # the name of a process
            cells = [*cells[: len(rows[0]) - 1], " ".join(cells[len(rows[0]) - 1 :])]
        stripped = [cell.strip() for cell in cells]
        if any(stripped):
            rows.append(stripped)
    return rows, separator


def _is_units(header: list[str], cells: list[str]) -> bool:
    """True for the line below the header of `dmon` or `pmon`: "Idx W C C % %"."""
    return cells[0].lower() in ("idx", "id", "yyyymmdd", "hh:mm:ss") and header[0].lower() != cells[0].lower()


def _with_units(header: list[str], units: list[str]) -> list[str]:
    if len(units) != len(header):
        return header
    return [f"{name} [{unit}]" if log_columns.is_unit(unit) else name for name, unit in zip(header, units, strict=True)]


def _plain(table: pd.DataFrame, separator: str, assumed: list[str]) -> pd.DataFrame:
    """Reduce cells to one line, with decimal points."""
    for name in table.columns:
        cells = table[name]
        several = cells.str.contains("\n", regex=False)
        if several.any():
            assumed.append(f"{name}: {several.sum()} cells have several lines; the first line of each is read")
            cells = cells.str.partition("\n")[0].str.strip()
        # Between commas, 1,024 may mean 1024: such a number is unchanged, and rejected where it is read.
        commas = cells.str.extract(DECIMAL_COMMA)[1].dropna()
        if len(commas) and (separator != "," or (commas.str.len() != 3).any()):
            cells = cells.str.replace(DECIMAL_COMMA, r"\1.\2", regex=True)
        table[name] = cells
    return table


def _unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    left = dict.fromkeys(seen, 0)
    result = []
    for name in names:
        left[name] += 1
        result.append(name if left[name] == 1 else f"{name}.{left[name]}")
    return result


def _is_value(cell: str) -> bool:
    return not cell or log_columns.is_number(cell.replace(",", ".")) or MOMENT.fullmatch(cell) is not None


def _has_values(cells: list[str]) -> bool:
    """True if the row is not a header: all cells are values, or one is a time or a number with a unit."""
    return all(map(_is_value, cells)) or any(MOMENT.fullmatch(cell) or log_columns.unit_of(cell) for cell in cells)


def _given(columns: Sequence[str], cells: list[str]) -> tuple[list[str], list[str]]:
    while len(cells) > len(columns) and not cells[-1]:  # a separator at the end of a row
        cells = cells[:-1]
    if len(cells) != len(columns):
        raise ValueError(f"it has {len(cells)} columns and no header, --columns names {len(columns)}")
    return list(columns), [f"no header: columns as given: {', '.join(columns)}"]


def _names(cells: list[str]) -> tuple[list[str], list[str]]:
    """Name the columns of a log without a header, by the units of their first cells.

    Raises ValueError if none has one.
    """
    names: list[str] = []
    left: list[str] = []
    for place, cell in enumerate(cells, start=1):
        name = "timestamp" if MOMENT.fullmatch(cell) else log_columns.column_by_unit(log_columns.unit_of(cell))
        if not name or name in names:
            name = f"column {place}"
            left.append(name)
        names.append(name)
    columns = [f"column {place} as {name}" for place, name in enumerate(names, start=1) if name not in left]
    if not any(" [" in name for name in names):
        row = ", ".join(cells)[:SHOWN]
        raise ValueError(
            f"it has no header, and its cells have no units that say what they are: {row!r}; name them with --columns"
        )
    not_read = f"; not read: {', '.join(left)}" if left else ""
    return names, [f"no header: by the units of its first row: {', '.join(columns)}{not_read}"]
