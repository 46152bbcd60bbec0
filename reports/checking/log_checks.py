"""Find faults in logs from other sources, and state their figures."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workloads.records.checks import FEWEST_SAMPLES, SHORTEST_S

from .log_columns import LogColumn, Values
from .log_reader import Log, read_logs, read_text

LONGEST_GAP_PERIODS = 3
UNEVEN_PERCENT = 1.0  # of a mean: smaller shifts by uneven periods are ignored
CLOCK_JUMP_MHZ = 100
SUFFIXES = (".csv", ".txt", ".log", ".dat")  # of files searched in a folder
READ, UNREADABLE = "with samples of a device", "that cannot be read"  # after a count

Columns = dict[str, LogColumn]
Faults = Iterator[dict[str, object]]


@dataclass(frozen=True)
class LogCheck:
    """A check of a log. `find` yields the facts of each fault, which `sentence` puts into words.

    `find` gets the log, and its columns of the kinds that it `needs`; without one the check is left out.
    """

    needs: tuple[str, ...]
    find: Callable[[Log, Columns], Faults]
    sentence: str


def examine_logs(
    paths: Iterable[Path], findings: list[str], notes: list[str], columns: Sequence[str] = ()
) -> dict[str, int]:
    """Examine files; returns the number of files that could be read, and that could not.

    Adds a line to `findings` for each finding, and for a file that repeats an earlier one. Adds to `notes` what had to
    be assumed about each file, and each device's figures. `columns` are those of files without a header.
    """
    kinds: Counter[str] = Counter()
    seen: dict[str, Path] = {}
    for path in paths:
        try:
            text = read_text(path)
            logs, assumed = read_logs(str(path), text, columns)
        except ValueError as error:
            findings.append(f"{path}: cannot be read: {error}")
            kinds[UNREADABLE] += 1
            continue
        kinds[READ] += 1
        notes += [f"{path}: {line}" for line in assumed]
        notes += [f"{log.name}: figures: {state_figures(log)}" for log in logs]
        words = " ".join(text.replace(",", " ").split())  # spaces and line ends do not matter
        first = seen.setdefault(hashlib.sha256(words.encode()).hexdigest(), path)
        faults = [f"{log.name}: {line}" for log in logs for line in check_log(log)]
        findings += faults if first == path else [f"{path}: duplicate of {first}"]
    return kinds


def check_log(log: Log) -> Iterator[str]:
    """Yield a line for each fault of the log."""
    for check in CHECKS:
        columns = {name: column for name, column in log.columns.items() if column.kind in check.needs}
        if columns:
            yield from (check.sentence.format(**facts) for facts in check.find(log, columns))


def _find_no_times(log: Log, columns: Columns) -> Faults:
    if log.times_s is None:
        yield {"lacking": ": its length, order" if log.numbers is None else " but a running number: its length"}


def _find_short(log: Log, columns: Columns) -> Faults:
    count = _count(log)
    length_s = np.inf if log.times_s is None else float(np.ptp(log.times_s))
    if length_s < SHORTEST_S or count < FEWEST_SAMPLES:
        yield {"length": "" if log.times_s is None else f"{length_s:.2f} s, ", "count": count}


def _find_backward(log: Log, columns: Columns) -> Faults:
    steps = np.diff([] if log.times_s is None else log.times_s)
    back = np.flatnonzero(steps <= 0)
    if len(back):
        yield {"count": len(back), "steps": len(steps), "row": back[0] + 2}


def _find_gaps(log: Log, columns: Columns) -> Faults:
    steps = np.diff([] if log.times_s is None else log.times_s)
    period_s = float(np.median(steps[steps > 0])) if (steps > 0).any() else np.inf
    if count := int((steps > LONGEST_GAP_PERIODS * period_s).sum()):
        yield {"count": count, "period_s": period_s, "longest_s": steps.max(), "row": int(np.argmax(steps)) + 2}


def _find_repeated(log: Log, columns: Columns) -> Faults:
    if log.repeated:
        yield {"count": log.repeated}


def _find_jumps(log: Log, columns: Columns) -> Faults:
    steps = np.diff([] if log.numbers is None else log.numbers)
    jumps = np.flatnonzero(steps != 1)
    if len(jumps):
        yield {"count": len(jumps), "steps": len(steps), "row": jumps[0] + 2}


def _find_unknown(log: Log, columns: Columns) -> Faults:
    if not any(len(column.known) for column in columns.values()):
        yield {"columns": ", ".join(columns)}


def _find_zeros(log: Log, columns: Columns) -> Faults:
    for name, column in columns.items():
        if len(column.known) and not column.known.any():
            yield {"column": name, "count": len(column.known)}


def _find_impossible(log: Log, columns: Columns) -> Faults:
    """Find values that no device has, with the unit that they may be in."""
    for name, column in columns.items():
        known, peak, unit = column.known, column.known.max(initial=0), column.unit
        outside = np.flatnonzero((column.values < 0) | (column.values > column.most))
        least = column.bounds.least_peak / column.factor if unit != "ratio" else 0
        if len(outside):
            first = f"the first {column.values[outside[0]]:g} {unit} in row {outside[0] + 1}"
            what = f"{len(outside)} of {len(known)} values are outside 0 to {column.most:g} {unit}, {first}"
        elif not column.is_host and 0 < peak <= least and (column.kind != "usage" or (known % 1).any()):
            what = f"no value is above {peak:g} {unit}"
        else:
            continue
        yield {"column": name, "what": what, "other": _suggest_unit(column, peak)}


def _suggest_unit(column: LogColumn, peak: float) -> str:
    """Name the first unit in which the largest value is possible, as " (mW: at most 23.3 W)"; "" without one."""
    first = next(iter(column.bounds.units))
    most = column.most * column.factor
    for unit, factor in column.bounds.units.items():
        if factor != column.factor and max(column.bounds.least_peak, most / 1e3) < peak * factor <= most:
            return f" ({unit}: at most {peak * factor:.3g} {first})"
    return f" ({column.bounds.other})" if column.bounds.other and peak > most else ""


def _find_idle(log: Log, columns: Columns) -> Faults:
    """Find idle samples that a mean over the log would treat as load: of the first usage of a device, and of memory."""
    usages = {name: column for name, column in columns.items() if column.kind == "usage"}
    first = next((name for name, column in usages.items() if not column.is_host), next(iter(usages), None))
    for name in (name for name in columns if name == first or name not in usages):
        known = columns[name].known
        busy = np.flatnonzero(known)
        if 0 < len(busy) < len(known):
            leading, trailing = int(busy[0]), len(known) - 1 - int(busy[-1])
            yield {"column": name, "share": 100 * (1 - len(busy) / len(known)), "count": len(known),
                   "leading": leading, "trailing": trailing, "between": len(known) - len(busy) - leading - trailing,
                   "mean": known.mean(), "busy": known[busy].mean()}  # fmt: skip


def _find_uneven(log: Log, columns: Columns) -> Faults:
    """Find means of samples that uneven periods shift away from the mean over time."""
    for name, column in columns.items():
        if held := _hold(log, column):
            over_time, values = float(np.average(held[1], weights=held[0])), held[1]
            if abs(values.mean() - over_time) * 100 > UNEVEN_PERCENT * abs(over_time):
                yield {"column": name, "mean": column.known.mean(), "over_time": over_time, "unit": column.unit}


BOUNDED = ("usage", "memory", "power", "clock", "temperature")
EVERY = (*BOUNDED, "energy")
CHECKS = (
    LogCheck(EVERY, _find_no_times, "no column of times{lacking} and gaps are unknown"),
    LogCheck(EVERY, _find_short,
             f"too short: {{length}}{{count}} samples; {SHORTEST_S:g} s and {FEWEST_SAMPLES} samples are required"),
    LogCheck(EVERY, _find_backward, "times do not increase: {count} of {steps} steps, the first before row {row}"),
    LogCheck(EVERY, _find_gaps,
             f"gaps: {{count}} over {LONGEST_GAP_PERIODS} periods of {{period_s:.3g}} s, the longest "
             "{longest_s:.3g} s before row {row}"),
    LogCheck(EVERY, _find_repeated, "repeated: {count} rows equal another row in every column"),
    LogCheck(EVERY, _find_jumps,
             "running numbers are not consecutive: {count} of {steps} steps, the first before row {row}: "
             "samples are missing, or it is more than one run"),
    LogCheck(EVERY, _find_unknown, "no value is known of {columns}"),
    LogCheck(EVERY, _find_zeros, "{column}: all {count} values are 0"),
    LogCheck(BOUNDED, _find_impossible, "impossible: {column}: {what}: is this another unit{other}?"),
    LogCheck(("usage", "memory"), _find_idle,
             "idle time included: {column} is 0 in {share:.1f} % of {count} samples ({leading} leading, {trailing} "
             "trailing, {between} between): mean {mean:.2f} over all, {busy:.2f} over busy ones"),
    LogCheck(("usage", "power"), _find_uneven,
             "uneven periods: {column}: the mean of samples is {mean:.2f} {unit}, the mean over time {over_time:.2f} "
             "{unit}"),
)  # fmt: skip


def state_figures(log: Log) -> str:
    """State the number of samples, and the figures of each column: means, peaks, energy."""
    parts = [f"{_count(log)} samples"]
    if log.times_s is not None and len(log.times_s) > 1:
        steps = np.diff(log.times_s)
        spans = f"period {np.median(steps):.3f} s, the longest {steps.max():.3f} s"
        parts = [f"{parts[0]} in {log.times_s[-1] - log.times_s[0]:.3f} s, {spans}"]
    return "; ".join([*parts, *(f"{name}: {_state_column(log, column)}"
                                for name, column in log.columns.items() if len(column.known))])  # fmt: skip


def _state_column(log: Log, column: LogColumn) -> str:
    """State a column's range; of usage and power the means, of samples and over time, and the energy."""
    known, unit, held = column.known, column.unit, _hold(log, column)
    if column.kind not in ("usage", "power"):
        jumps = int((np.abs(np.diff(known)) * column.factor >= CLOCK_JUMP_MHZ).sum())
        clock = f", {jumps} jumps of {CLOCK_JUMP_MHZ} MHz or more" if column.kind == "clock" else ""
        return f"{known.min():g} to {known.max():g} {unit}{clock}"
    means = f"mean {known.mean():.2f} {unit}"
    means += f", over time {np.average(held[1], weights=held[0]):.2f} {unit}" if held else ""
    if column.kind == "usage":
        shares = [f"at {value} in {100 * (known == value).mean():.1f} % of them" for value in (0, 100)]
        return f"{means}, {', '.join(shares)}"
    energy = ""
    if held and unit != "%" and log.times_s is not None:
        held_j = float((held[0] * held[1]).sum()) * column.factor
        line_j = float(np.trapezoid(known, log.times_s[~np.isnan(column.values)])) * column.factor
        energy = f", {held_j:.1f} J (by trapezoids {line_j:.1f} J)"
    return f"{means}, at most {known.max():g} {unit}{energy}"


def _count(log: Log) -> int:
    return len(next(iter(log.columns.values())).values)


def _hold(log: Log, column: LogColumn) -> tuple[Values, Values] | None:
    """Return (seconds until the next reading, readings without the last).

    Returns None if times are unknown or do not increase.
    """
    if log.times_s is None:
        return None
    steps = np.diff(log.times_s[~np.isnan(column.values)])
    if not len(steps) or (steps < 0).any() or not steps.any():
        return None
    return steps, column.known[:-1]
