"""Find faults in logs from other sources.

Checks for duplicates, zeros, impossible values, too few samples, times out of order, and means biased by idle time or
uneven periods.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from workloads.records.checks import FEWEST_SAMPLES, SHORTEST_S

from . import forms, logs, training_logs
from .logs import Log, LogColumn, Values

LONGEST_GAP_PERIODS = 3
UNEVEN_PERCENT = 1.0  # of a mean: smaller shifts by uneven periods are ignored
CLOCK_JUMP_MHZ = 100
CSV = ".csv"
SUFFIXES = (CSV, ".txt", ".log", ".dat")  # of files searched in a folder


class LogKind(StrEnum):
    """Content of an external file; the output prints each value after a count."""

    SAMPLES = "with samples of a device"
    TRAINING = "printed by training programs"
    UNREADABLE = "that cannot be read"


@dataclass(frozen=True)
class _File:
    kind: LogKind
    digest: str  # of its content; names, spaces and line ends do not matter
    findings: list[str]
    notes: list[str]


def examine(
    paths: Iterable[Path], findings: list[str], notes: list[str], columns: Sequence[str] = ()
) -> dict[LogKind, int]:
    """Examine files; returns the number of files of each kind.

    Adds a line to `findings` for each finding, and for a file that repeats an earlier one. Adds to `notes` what had to
    be assumed about each file, and each device's figures. `columns` are those of files without a header.
    """
    kinds: Counter[LogKind] = Counter()
    seen: dict[str, Path] = {}
    for path in paths:
        try:
            file = _content(path, columns)
        except ValueError as error:
            findings.append(f"{path}: cannot be read: {error}")
            kinds[LogKind.UNREADABLE] += 1
            continue
        kinds[file.kind] += 1
        notes += file.notes
        first = seen.setdefault(file.digest, path)
        findings += file.findings if first == path else [f"{path}: duplicate of {first}"]
    return kinds


def _content(path: Path, columns: Sequence[str]) -> _File:
    """Read a file. Raises ValueError with the reason, or with the first line that cannot be read."""
    text = forms.content(path)
    parse = forms.parser(text)
    if parse is forms.separated and path.suffix.lower() != CSV:
        training = training_logs.read(text)
        if training is not None:
            findings = [f"{path}: {line}" for line in training_logs.faults(training)]
            digest = hashlib.sha256("\n".join(text.split()).encode()).hexdigest()
            notes = [f"{path}: no header: {training_logs.assumed(training)}"]
            return _File(LogKind.TRAINING, digest, findings, notes)
        if not forms.is_separated(text):
            raise forms.unreadable(*forms.first_line(text))
    table, assumed = parse(text, columns)
    digest = hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()
    devices = list(logs.devices(path, table))
    findings = [f"{log.name}: {line}" for log in devices for check in CHECKS for line in check(log)]
    notes = [f"{path}: {line}" for line in assumed]
    return _File(LogKind.SAMPLES, digest, findings, notes + [f"{log.name}: figures: {figures(log)}" for log in devices])


def _length(log: Log) -> Iterator[str]:
    count = _count(log)
    if log.times_s is None:
        lacking = "its length, order and gaps" if log.numbers is None else "but a running number: its length and gaps"
        yield f"no column of times{':' * (log.numbers is None)} {lacking} cannot be told"
        length_s, length = np.inf, f"{count} samples"
    else:
        length_s = float(log.times_s.max() - log.times_s.min())
        length = f"{length_s:.2f} s, {count} samples"
    if length_s < SHORTEST_S or count < FEWEST_SAMPLES:
        yield f"too short: {length}; {SHORTEST_S:g} s and {FEWEST_SAMPLES} samples are wanted"


def _order(log: Log) -> Iterator[str]:
    steps = np.diff(log.times_s) if log.times_s is not None else np.empty(0)
    back = np.flatnonzero(steps <= 0)
    if len(back):
        yield f"times do not increase: {len(back)} of {len(steps)} steps, the first before row {back[0] + 2}"
    forward = steps[steps > 0]
    if not len(forward):
        return
    period_s, longest_s = float(np.median(forward)), float(forward.max())
    count = int((forward > LONGEST_GAP_PERIODS * period_s).sum())
    if count:
        where = int(np.argmax(steps)) + 2
        gap = f"the longest {longest_s:.3g} s before row {where}"
        yield f"gaps: {count} over {LONGEST_GAP_PERIODS} periods of {period_s:.3g} s, {gap}"


def _numbers(log: Log) -> Iterator[str]:
    """Find running numbers with jumps, and samples that occur more than once."""
    if log.repeated:
        yield f"repeated: {log.repeated} rows are another one's in every column"
    steps = np.diff(log.numbers) if log.numbers is not None else np.empty(0)
    jumps = np.flatnonzero(steps != 1)
    if len(jumps):
        where = f"{len(jumps)} of {len(steps)} steps, the first before row {jumps[0] + 2}"
        yield f"running numbers are not one after the other: {where}: samples are missing, or it is more than one run"


def _all_zero(log: Log) -> Iterator[str]:
    known = {column: _known(quantity.values) for column, quantity in log.quantities.items()}
    if not any(len(values) for values in known.values()):
        yield f"not one value is known of {', '.join(known)}"
    for column, values in known.items():
        if len(values) and not values.any():
            yield f"{column}: all {len(values)} values are 0"


def _impossible(log: Log) -> Iterator[str]:
    """Find values that no device has, and suggest the unit that they may be in."""
    for column, quantity in log.quantities.items():
        known = _known(quantity.values)
        outside = np.flatnonzero((quantity.values < 0) | (quantity.values > quantity.most))
        peak = known.max(initial=0)
        least = quantity.bounds.least_peak / quantity.factor if quantity.unit != "ratio" else 0
        if len(outside):
            first = f"the first {quantity.values[outside[0]]:g} {quantity.unit} in row {outside[0] + 1}"
            where = f"{len(outside)} of {len(known)} values are outside 0 to {quantity.most:g} {quantity.unit}, {first}"
            yield f"impossible: {column}: {where}: is this another unit{_other_unit(quantity, peak)}?"
        elif not quantity.is_host and 0 < peak <= least and (quantity.kind != "usage" or (known % 1).any()):
            most = f"no value is above {peak:g} {quantity.unit}"
            yield f"impossible: {column}: {most}: is this another unit{_other_unit(quantity, peak)}?"


def _other_unit(quantity: LogColumn, peak: float) -> str:
    """Suggest the first unit in which the largest value is possible, as " (mW: at most 23.3 W)"; "" if
    there is none.
    """
    first = next(iter(quantity.bounds.units))
    most = quantity.most * quantity.factor
    for unit, factor in quantity.bounds.units.items():
        if factor != quantity.factor and max(quantity.bounds.least_peak, most / 1e3) < peak * factor <= most:
            return f" ({unit}: at most {peak * factor:.3g} {first})"
    return f" ({quantity.bounds.other})" if quantity.bounds.other and peak > most else ""


def _idle(log: Log) -> Iterator[str]:
    """Find idle samples that a mean over the log would treat as load."""
    for column in (*((log.usage,) if log.usage is not None else ()), *log.columns("memory")):
        known = _known(log.quantities[column].values)
        busy = np.flatnonzero(known)
        if not len(busy) or len(busy) == len(known):
            continue
        leading, trailing = int(busy[0]), len(known) - 1 - int(busy[-1])
        between = len(known) - len(busy) - leading - trailing
        share = 100 * (1 - len(busy) / len(known))
        zeros = f"{column} is 0 in {share:.1f} % of {len(known)} samples"
        where = f"{leading} leading, {trailing} trailing, {between} between"
        means = f"mean {known.mean():.2f} over all, {known[busy].mean():.2f} over busy ones"
        yield f"idle time included: {zeros} ({where}): {means}"


def _uneven(log: Log) -> Iterator[str]:
    """Find means of samples that uneven periods shift away from the mean over time."""
    for column in (*log.columns("usage"), *log.columns("power")):
        held = _held(log, column)
        if held is None:
            continue
        weights_s, values = held
        over_time = float(np.average(values, weights=weights_s))
        if abs(values.mean() - over_time) * 100 > UNEVEN_PERCENT * abs(over_time):
            unit = log.quantities[column].unit
            plain = _known(log.quantities[column].values).mean()
            means = f"the mean of samples is {plain:.2f} {unit}, the mean over time {over_time:.2f} {unit}"
            yield f"uneven periods: {column}: {means}"


# All checks; each yields a line for each fault.
CHECKS: tuple[Callable[[Log], Iterator[str]], ...] = (
    _length, _order, _numbers, _all_zero, _impossible, _idle, _uneven,
)  # fmt: skip


def figures(log: Log) -> str:
    """State the number of samples, and the figures of each column: means, peaks, energy."""
    parts = [f"{_count(log)} samples"]
    if log.times_s is not None and len(log.times_s) > 1:
        steps = np.diff(log.times_s)
        spans = f"period {np.median(steps):.3f} s, the longest {steps.max():.3f} s"
        parts = [f"{parts[0]} in {log.times_s[-1] - log.times_s[0]:.3f} s, {spans}"]
    for column, quantity in log.quantities.items():
        if len(known := _known(quantity.values)):
            parts.append(f"{column}: {FIGURES[quantity.kind](log, column, known)}")
    return "; ".join(parts)


def _means(log: Log, column: str, known: Values) -> str:
    """State the mean of samples, and the mean over time, where a reading holds until the next one."""
    unit, held = log.quantities[column].unit, _held(log, column)
    over_time = f", over time {np.average(held[1], weights=held[0]):.2f} {unit}" if held else ""
    return f"mean {known.mean():.2f} {unit}{over_time}"


def _usage_figures(log: Log, column: str, known: Values) -> str:
    shares = [f"at {value} in {100 * (known == value).mean():.1f} % of them" for value in (0, 100)]
    return f"{_means(log, column, known)}, {', '.join(shares)}"


def _power_figures(log: Log, column: str, known: Values) -> str:
    quantity, held = log.quantities[column], _held(log, column)
    energy = ""
    if held and quantity.unit != "%" and log.times_s is not None:
        there = ~np.isnan(quantity.values)
        held_j = float((held[0] * held[1]).sum()) * quantity.factor
        line_j = float(np.trapezoid(quantity.values[there], log.times_s[there])) * quantity.factor
        energy = f", {held_j:.1f} J (by trapezoids {line_j:.1f} J)"
    return f"{_means(log, column, known)}, at most {known.max():g} {quantity.unit}{energy}"


def _range_figures(log: Log, column: str, known: Values) -> str:
    quantity = log.quantities[column]
    text = f"{known.min():g} to {known.max():g} {quantity.unit}"
    if quantity.kind != "clock":
        return text
    jumps = int((np.abs(np.diff(known)) * quantity.factor >= CLOCK_JUMP_MHZ).sum())
    return f"{text}, {jumps} jumps of {CLOCK_JUMP_MHZ} MHz or more"


FIGURES: dict[str, Callable[[Log, str, Values], str]] = {
    "usage": _usage_figures,
    "power": _power_figures,
    "memory": _range_figures,
    "clock": _range_figures,
    "temperature": _range_figures,
    "energy": _range_figures,
}


def _count(log: Log) -> int:
    return len(next(iter(log.quantities.values())).values)


def _known(values: Values) -> Values:
    return values[~np.isnan(values)]


def _held(log: Log, column: str) -> tuple[Values, Values] | None:
    """Return (seconds until the next reading, readings without the last).

    Returns None if times are unknown or do not increase.
    """
    if log.times_s is None:
        return None
    there = ~np.isnan(log.quantities[column].values)
    steps = np.diff(log.times_s[there])
    if not len(steps) or (steps < 0).any() or not steps.any():
        return None
    return steps, log.quantities[column].values[there][:-1]
