"""What others' samples are worth: duplicates, zeros, too few of them, times out of order, idle time in the mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from workloads.checks import FEWEST_SAMPLES, SHORTEST_S

from . import logs
from .logs import Log

LONGEST_GAP_PERIODS = 3


def examine(paths: Iterable[Path]) -> list[str]:
    """A line for each finding, file by file; of files that hold the same, the later ones are named."""
    findings = []
    seen: dict[str, Path] = {}
    for path in paths:
        try:
            table = logs.read(path)
            digest = hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()
            if digest in seen:
                findings.append(f"{path}: duplicate of {seen[digest]}")
                continue
            seen[digest] = path
            findings += [f"{log.name}: {line}" for log in logs.devices(path, table) for line in worth(log)]
        except ValueError as error:
            findings.append(f"{path}: cannot be read: {error}")
    return findings


def worth(log: Log) -> list[str]:
    """What is wrong with it, a line each."""
    return [*_length(log), *_order(log), *_all_zero(log), *_idle(log)]


def _length(log: Log) -> Iterator[str]:
    count = len(next(iter(log.quantities.values())))
    if log.times_s is None:
        yield "no column of times: its length, order and gaps cannot be told"
        length_s, told = np.inf, f"{count} samples"
    else:
        length_s = float(log.times_s.max() - log.times_s.min())
        told = f"{length_s:.2f} s, {count} samples"
    if length_s < SHORTEST_S or count < FEWEST_SAMPLES:
        yield f"too short: {told}; {SHORTEST_S:g} s and {FEWEST_SAMPLES} samples are wanted"


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
        told = f"the longest {longest_s:.3g} s before row {where}"
        yield f"gaps: {count} over {LONGEST_GAP_PERIODS} periods of {period_s:.3g} s, {told}"


def _all_zero(log: Log) -> Iterator[str]:
    known = {column: values[~np.isnan(values)] for column, values in log.quantities.items()}
    if not any(len(values) for values in known.values()):
        yield f"not one value is known of {', '.join(known)}"
    for column, values in known.items():
        if len(values) and not values.any():
            yield f"{column}: all {len(values)} values are 0"


def _idle(log: Log) -> Iterator[str]:
    values = log.quantities[log.usage] if log.usage is not None else np.empty(0)
    known = values[~np.isnan(values)]
    busy = np.flatnonzero(known)
    if not len(busy) or len(busy) == len(known):
        return
    leading, trailing = int(busy[0]), len(known) - 1 - int(busy[-1])
    between = len(known) - len(busy) - leading - trailing
    share = 100 * (1 - len(busy) / len(known))
    yield (
        f"idle time included: {log.usage} is 0 in {share:.1f} % of {len(known)} samples ({leading} leading, {trailing} "
        f"trailing, {between} between): mean {known.mean():.2f} over all, {known[busy].mean():.2f} over busy ones"
    )
