"""What is wrong with others' samples: duplicates, zeros, too few of them, times out of order, idle time in the mean."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from workloads.records.checks import FEWEST_SAMPLES, SHORTEST_S

from . import forms, logs, training_logs
from .logs import Log

LONGEST_GAP_PERIODS = 3
CSV = ".csv"
SUFFIXES = (CSV, ".txt", ".log", ".dat")  # of what is looked for in a folder


class Kind(StrEnum):
    """What a file of others holds; each value stands behind "3 "."""

    SAMPLES = "with samples of a device"
    TRAINING = "printed by training programs"
    UNREADABLE = "that cannot be read"


@dataclass(frozen=True)
class _File:
    kind: Kind
    digest: str  # of what it says: other names, spaces and line ends make no other file
    findings: list[str]
    assumed: str | None


def examine(paths: Iterable[Path], findings: list[str], notes: list[str]) -> dict[Kind, int]:
    """How many files of each kind there are; adds a line for each finding, also of a file that repeats an earlier one,
    and a note on what the columns of each file without a header were taken for.
    """
    kinds: Counter[Kind] = Counter()
    seen: dict[str, Path] = {}
    for path in paths:
        try:
            file = _content(path)
        except ValueError as error:
            findings.append(f"{path}: cannot be read: {error}")
            kinds[Kind.UNREADABLE] += 1
            continue
        kinds[file.kind] += 1
        notes += [f"{path}: no header: {file.assumed}"] if file.assumed else []
        first = seen.setdefault(file.digest, path)
        findings += file.findings if first == path else [f"{path}: duplicate of {first}"]
    return kinds


def _content(path: Path) -> _File:
    """Raises ValueError with the reason, or with the first line that cannot be read."""
    text = forms.content(path)
    parse = forms.parser(text)
    if parse is forms.separated and path.suffix.lower() != CSV:
        training = training_logs.read(text)
        if training is not None:
            findings = [f"{path}: {line}" for line in training_logs.faults(training)]
            digest = hashlib.sha256("\n".join(text.split()).encode()).hexdigest()
            return _File(Kind.TRAINING, digest, findings, training_logs.assumed(training))
        number, line = forms.first_line(text)
        if not any(mark in line for mark in forms.SEPARATORS):
            raise forms.unreadable(number, line)
    table, assumed = parse(text)
    digest = hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()
    findings = [f"{log.name}: {line}" for log in logs.devices(path, table) for line in faults(log)]
    return _File(Kind.SAMPLES, digest, findings, assumed)


def faults(log: Log) -> list[str]:
    """What is wrong with it, a line each."""
    return [*_length(log), *_order(log), *_numbers(log), *_all_zero(log), *_idle(log)]


def _length(log: Log) -> Iterator[str]:
    count = len(next(iter(log.quantities.values())))
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
    """Running numbers that are not, and samples that are there more than once."""
    if log.repeated:
        yield f"repeated: {log.repeated} rows are another one's in every column"
    steps = np.diff(log.numbers) if log.numbers is not None else np.empty(0)
    jumps = np.flatnonzero(steps != 1)
    if len(jumps):
        where = f"{len(jumps)} of {len(steps)} steps, the first before row {jumps[0] + 2}"
        yield f"running numbers are not one after the other: {where}: samples are missing, or it is more than one run"


def _all_zero(log: Log) -> Iterator[str]:
    known = {column: values[~np.isnan(values)] for column, values in log.quantities.items()}
    if not any(len(values) for values in known.values()):
        yield f"not one value is known of {', '.join(known)}"
    for column, values in known.items():
        if len(values) and not values.any():
            yield f"{column}: all {len(values)} values are 0"


def _idle(log: Log) -> Iterator[str]:
    """Samples at which nothing ran, or nothing was held, in what a mean over the log takes for a load."""
    for column in (*((log.usage,) if log.usage is not None else ()), *log.memories):
        known = log.quantities[column][~np.isnan(log.quantities[column])]
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
