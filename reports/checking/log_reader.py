"""Read tables of samples from other sources: the log of each device, by the columns of the file."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from .log_columns import NUMBER, UNIT_NAMES, LogColumn, Values, find_kind, is_unknown, read_column, read_numbers

SHOWN = 60  # characters of a line that is quoted
SEPARATORS = ("\t", ";", ",")  # the first of these that the first line contains; otherwise spaces
MONITOR = re.compile(r"\s*#\s*(gpu|date|time|entity)\b|\s*(entity)\b", re.IGNORECASE)  # of nvidia-smi and dcgmi dmon
UNIT_ROW = ("idx", "id", "yyyymmdd", "hh:mm:ss")  # first words of the line below a monitor's header
MOMENT = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S*")
# A decimal comma in a number, or in the seconds of a time of day.
DECIMAL_COMMA = re.compile(r"^([-+]?\d+|.*\d\d:\d\d:\d\d),(\d+)(?![\d,.])")
# DLBench's loggers: "12, gpu_percent:  73% | 7397MB" and "12, memory_percent: 2.8, cpu_percent: 57.1".
NAMED_CELLS = re.compile(r"\d+(, ?[A-Za-z]\w*: *[^,:]*)+")
WITH_MEMORY = re.compile(r"(\w+)_percent: *(\d+)% \| *(\d+)MB")
PROFILER = ("MEM ", "CMDLINE ")  # first words of memory_profiler's lines: "MEM 1109.41 1539876706.5429"
SAMPLE = "number"  # column of the samples' running numbers, if a log has no times
DEVICE = re.compile(
    r"((gpu|cpu|card|device|dev|cuda|pci)[ ._]*)?(index|idx|id|uuid|serial|bus[ ._]?id|model|name|ordinal|minor)"
    r"|(gpu|cpu|card|device)[ ._]*(no|num|number)|device|card|host(name)?|node|pid|entity"
)
OWN_NUMBER = re.compile(  # number of a device in the name of its column: "system.gpu.0.gpu", "gpu1_util", "power_2"
    r"(?:gpu|cuda|card|device)[ ._/:-]?(\d+)(?![\da-z])|(?:util\w*|usage|power|mem\w*|temp\w*|watts?)[ ._]?(\d+)$"
)
MEMORY_TOTAL = re.compile(r"(mem\w*|fb|(^|[^a-z])v?ram)[._ ]?t(o)?t(a)?l|total[._ ]?(mem|v?ram)")
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


@dataclass(frozen=True)
class Log:
    """Samples of one device.

    `times_s` and the running `numbers` are None if there is no such column. `repeated` counts the samples that repeat
    another one in every column, its time or number included.
    """

    name: str
    columns: dict[str, LogColumn]
    times_s: Values | None
    numbers: Values | None
    repeated: int


def read_text(path: Path) -> str:
    """Read the text of a file. Raises ValueError if it cannot be read, or a line is not text."""
    encoding = "utf-8-sig"
    try:
        stored = path.read_bytes()
        if stored.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # PowerShell's `>`
            encoding, stored = "utf-16", stored[: len(stored) // 2 * 2]
        return stored.decode(encoding)
    except OSError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except UnicodeDecodeError as error:
        number = stored.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {number} is not text in {encoding.upper().removesuffix('-SIG')}") from error


def read_logs(name: str, text: str, columns: Sequence[str]) -> tuple[list[Log], list[str]]:
    """Return (the log of each device, a line for each assumption); `columns` are those of a table without a header.

    Raises ValueError with the reason, or with the first row that cannot be read.
    """
    assumed: list[str] = []
    table = _read_table(_with_header(text, assumed), columns, assumed)
    return list(_split_devices(name, table)), assumed


def _with_header(text: str, assumed: list[str]) -> str:
    """Put a header before lines that have none, but are of a form that says what is in them."""
    lines = text.splitlines()
    first = next(filter(str.strip, lines), "").strip()
    if first.startswith(PROFILER):
        assumed.append("lines of memory_profiler: memory in MiB, seconds since 1970")
        return "\n".join(["profiler rss_mib time_s", *(line for line in lines if not line.startswith(PROFILER[1]))])
    if not NAMED_CELLS.fullmatch(first):
        return text
    lines = [WITH_MEMORY.sub(r"\1_percent: \2%, \1_memory: \3MB", line) for line in lines]
    named = [re.findall(r"(\w+):", line) for line in lines]
    names = next(filter(None, named))
    if named[-1] != names and not text.endswith("\n"):  # a kill cut it short
        del lines[-1]
    for number, (line, its_names) in enumerate(zip(lines, named, strict=False), start=1):
        if line.strip() and its_names != names:
            raise ValueError(f"line {number}: {line[:SHOWN]!r} does not name {', '.join(names)}")
    assumed.append(f"running numbers, then the figures that each line names: {', '.join(names)}")
    return "\n".join([", ".join([SAMPLE, *names]), *(re.sub(r"\w+: *", "", line) for line in lines)])


def _read_table(text: str, columns: Sequence[str], assumed: list[str]) -> pd.DataFrame:
    """Read rows of cells. A separator at the end of a row is no cell; a last row that a kill cut short is left out."""
    separator, rows = _read_rows(text)
    if not rows:
        raise ValueError("it is empty")
    if any(NUMBER.fullmatch(cell) or MOMENT.fullmatch(cell) for cell in rows[0]):
        while not rows[0][-1]:
            rows[0].pop()
        if len(rows[0]) != len(columns):
            named = f"--columns names {len(columns)}" if columns else "name them with --columns"
            raise ValueError(f"it has {len(rows[0])} columns and no header, {named}: {', '.join(rows[0])[:SHOWN]!r}")
        names = list(columns)
        assumed.append(f"no header: columns as given: {', '.join(names)}")
    else:
        header, names = rows[0], list(rows[0])
        units = next((row for row in rows[1:2] if row[0].lower() in UNIT_ROW), [])
        for place, unit in enumerate(units if len(units) == len(header) else []):
            names[place] += f" [{unit}]" if unit.lower() in UNIT_NAMES else ""
        rows = [row for row in rows if row not in (header, units)]  # both may come again before any row
    width = len(names)
    for number, row in enumerate(rows, start=1):
        if any(row[width:]):
            raise ValueError(f"row {number} has {len(row)} cells, the header {width}")
    if rows and len(rows[-1]) < width:
        rows.pop()
    if not rows:
        raise ValueError("it has no rows")
    numbers = [names[:place].count(name) + 1 for place, name in enumerate(names)]
    names = [f"{name}.{number}" if number > 1 else name for name, number in zip(names, numbers, strict=True)]
    table = pd.DataFrame([(row + [""] * width)[:width] for row in rows], columns=names, dtype=str)
    return table.apply(_read_plain, args=(separator, assumed))


def _read_rows(text: str) -> tuple[str, list[list[str]]]:
    """Return (the separator, the rows that are not blank as cells)."""
    first = next(filter(str.strip, text.splitlines()), "")
    words, is_monitor = first.split(), MONITOR.match(first) is not None
    separator = next((mark for mark in SEPARATORS if mark in first), " ")
    if not words:
        raise ValueError("it is empty")
    if is_monitor:
        text = re.sub(r"(?m)^\s*#\s*", "", text)
        text = re.sub(r"(?m)^(\s*GPU[\w-]*) +(?=\d)", r"\1-", text)  # dcgmi's name of a device: "GPU 0"
        words = first.strip(" #").split()
    elif separator == " " and not any(find_kind(word) or NUMBER.fullmatch(word) for word in words):
        raise ValueError(f"not a table: {first.strip()[:SHOWN]!r}")
    split: Iterator[list[str]] = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    if separator == " ":  # the last cell of a monitor's row may be the name of a process
        split = (line.split(maxsplit=len(words) - 1 if is_monitor else -1) for line in text.splitlines())
    try:
        return separator, [[cell.strip() for cell in cells] for cells in split if any(map(str.strip, cells))]
    except csv.Error as error:
        raise ValueError(" ".join(str(error).split())) from error


def _read_plain(cells: pd.Series[str], separator: str, assumed: list[str]) -> pd.Series[str]:
    """Reduce cells to one line, with decimal points."""
    several = cells.str.contains("\n", regex=False)
    if several.any():
        assumed.append(f"{cells.name}: {several.sum()} cells have several lines; the first line of each is read")
        cells = cells.str.partition("\n")[0].str.strip()
    # Between commas, 1,024 may mean 1024: such a number is unchanged, and rejected where it is read.
    commas = cells.str.extract(DECIMAL_COMMA)[1].dropna()
    if len(commas) and (separator != "," or (commas.str.len() != 3).any()):
        cells = cells.str.replace(DECIMAL_COMMA, r"\1.\2", regex=True)
    return cells


def _split_devices(name: str, table: pd.DataFrame) -> Iterator[Log]:
    """Yield the log of each device.

    Raises ValueError for a table without a quantity, or with a cell that cannot be read.
    """
    day, hour = (
        next((column for column in table.columns if column.lower() == word), None) for word in ("date", "time")
    )
    if day and hour and table[hour].str.match(r"\d?\d:").all():
        table = table.drop(columns=hour).assign(**{day: table[day] + " " + table[hour]})
    keys = _find_device_columns(table)
    numbers = {column: next(filter(None, found.groups())) for column in table.columns
               if column not in keys and (found := OWN_NUMBER.search(column.lower()))}  # fmt: skip
    if len(set(numbers.values())) > 1:
        for number in dict.fromkeys(numbers.values()):
            own = [
                c for c in table.columns if numbers.get(c) == number or (c not in numbers and _time_unit(c) is not None)
            ]
            yield _build_log(f"{name}, device {number}", table[own])
        table = table.drop(columns=[*numbers, *keys])
        if any(map(find_kind, table.columns)):
            yield _build_log(name, table)
        return
    groups = [rows for _, rows in table.groupby(keys, sort=False)] if keys else [table]
    telling = [column for column in keys if table[column].nunique() > 1]
    telling = next(([column] for column in telling if table[column].nunique() == len(groups)), telling)
    for rows in groups:
        label = ", ".join(f"{column} {rows[column].iloc[0]}" for column in telling)
        yield _build_log(f"{name}, {label}" if telling else name, rows.drop(columns=keys))


def _find_device_columns(table: pd.DataFrame) -> list[str]:
    """List the columns that number or name the device; a column with a different value in every row is not one."""
    found = [column for column in table.columns if DEVICE.fullmatch(column.lower())]
    usages = [column for column in table.columns if find_kind(column) == "usage" and column not in found]
    for bare in (column for column in usages if column.lower() in ("gpu", "cpu")):
        others = [c for c in usages if c != bare and ("cpu" in c.lower()) == (bare.lower() == "cpu")]
        number = pd.to_numeric(table[bare], errors="coerce")
        count = number.max() + 1
        if others or (count > 1 and (number == np.arange(len(table)) % count).all()):
            found.append(bare)
    return [column for column in found if table[column].nunique() * 2 <= len(table)]


def _build_log(name: str, table: pd.DataFrame) -> Log:
    times = next((column for column in table.columns if _time_unit(column) is not None), None)
    left = [column for column in table.columns if column != times and not DEVICE.fullmatch(column.lower())]
    kinds = {column: kind for column in left if (kind := find_kind(column)) and not _is_text(table[column])}
    if not kinds:
        raise ValueError(f"no column of usage, memory or power; it has {', '.join(table.columns)}")
    whole = {False: 0.0, True: 0.0}
    for column in (column for column in left if MEMORY_TOTAL.search(column.lower())):
        total = read_column(column, "memory", table[column])
        whole[total.is_host] = max(whole[total.is_host], total.known.max(initial=0) * total.factor)
    is_numbered = SAMPLE in table
    return Log(
        name,
        {column: read_column(column, kind, table[column], whole) for column, kind in kinds.items()},
        None if times is None else _read_seconds(times, table[times]),
        read_numbers(SAMPLE, table[SAMPLE])[0] if is_numbered else None,
        int(table.duplicated().sum()) if times is not None or is_numbered else 0,
    )


def _is_text(cells: pd.Series[str]) -> bool:
    """True for a column of names: no cell begins like a number, and not all are unknown."""
    known = cells[~cells.map(is_unknown)]
    return len(known) > 0 and not known.str.match(r"[-+.]?\d").any()


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


def _read_seconds(column: str, cells: pd.Series[str]) -> Values:
    """Convert times to seconds since the first.

    A number without a unit is classified by its size: a date in ns, us, ms or s, otherwise seconds. Raises ValueError
    for a time that cannot be read.
    """
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
    if not np.isnan(numbers).any():
        since_1970 = (scale for scale in (1e9, 1e6, 1e3) if numbers[0] > SINCE_1970_S * scale)
        return np.asarray((numbers - numbers[0]) / (PER_SECOND.get(_time_unit(column) or "") or next(since_1970, 1.0)))
    unread = cells[np.isnan(numbers)]
    for form in MOMENTS:
        moments = pd.to_datetime(cells, format=form, errors="coerce", utc=True)
        if moments.notna().all():
            elapsed = np.asarray((moments - moments.iloc[0]).dt.total_seconds(), np.float64)
            midnights = np.cumsum(np.diff(elapsed, prepend=0) < -DAY_S / 2) if form in DAYLESS else 0
            return np.asarray(elapsed + DAY_S * midnights, np.float64)
        unread = min(unread, cells[moments.isna()], key=len)
    raise ValueError(f"{column}, row {unread.index[0] + 1}: {unread.iloc[0]!r} is not a time")
