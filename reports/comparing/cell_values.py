"""Collect the values of one cell on both sides, and compare them by run, by repeat, or in pairs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.shifts import Shift, shift_points, shift_ratio, shift_runs
from workloads.statistics import accuracy_step

from .. import tables
from ..conditions import Section
from ..quantities import ACCURACY, Quantity
from ..tables import Place
from . import cell_tests
from .cell_tests import MOVED_BY_THE_HOUR, CellTest, Replicate
from .pairing import Names, Pair

Values = list[tuple[TrialResult, float]]
Numbers = Sequence[float]
Shared = TypeVar("Shared", bound=Hashable)
WELL_ENDED = (Status.OK, Status.CONTENDED)  # neighbours are not a property of what is compared
NO_COMMON_REPEAT = "no repeat is in both: repeats are not paired"
DIFFERENT_INPUTS = "the inputs differ between {} and {}: repeats are not paired"
LEFT_OUT = "left out because they have no counterpart: {} of the repeats"


def compare_cell(pair: Pair, names: Names, quantity: Quantity, place: Place) -> CellTest:
    """Test one cell; its notes are those of the reports' tables."""
    framework, size = place
    own_places = [(name, size) for name in pair.own(framework)]
    sides = list(zip(names, (pair.a, pair.b), own_places, strict=True))
    known_a, known_b = (list_known(section, quantity, own) for _, section, own in sides)
    values_a, values_b = ([value for _, value in known] for known in (known_a, known_b))
    notes = [
        f"{side}: {note}" for side, section, own in sides for note in tables.compute_cells(section, quantity)[own].notes
    ]
    spread, replicate = Shift(math.nan), _replicate(pair, quantity)
    if values_a and values_b and quantity is ACCURACY:
        task = pair.a.condition.task
        step = accuracy_step(task.dataset, task.source)
        spread, remarks = _compare_pairs(known_a, known_b, _inputs, partial(shift_points, least_spread=step))
        notes += [DIFFERENT_INPUTS.format(*names)] if remarks is None else remarks
    elif values_a and values_b and pair.columns:  # repeats of one run are close in time
        spread, remarks = _compare_pairs(known_a, known_b, partial(_repeat, pair.a), shift_ratio)
        notes += [NO_COMMON_REPEAT] if remarks is None else remarks
    elif values_a and values_b and replicate is Replicate.RUNS:
        sides_by_run = (_grouped(known, partial(_run, side)) for known, side in ((known_a, pair.a), (known_b, pair.b)))
        spread = shift_runs(*sides_by_run)
    elif values_a and values_b:
        spread = shift_ratio(values_a, values_b)
    if quantity.better and spread.untested:
        notes.append(spread.untested)
    trials = tuple(result.spec.id for _, section, own in sides for result in tables.group_by_place(section)[own])
    # Values that the estimate counts: runs with the same inputs count once, repeats without a counterpart do not count.
    repeats = min((side.n for side in spread.sides.values()), default=min(len(values_a), len(values_b)))
    cell = cell_tests.build_cell_test(place, pair.named(framework), quantity, values_a, values_b, spread)
    return replace(cell, notes=tuple(notes), trials=trials, replicate=replicate, repeats=repeats)


def _replicate(pair: Pair, quantity: Quantity) -> Replicate:
    """Choose runs if both sides hold several. Accuracy is paired by its inputs, two columns of one run by repeat."""
    if quantity is ACCURACY or pair.columns:
        return Replicate.REPEATS
    if all(len({_run(section, r) for r in section.results}) > 1 for section in (pair.a, pair.b)):
        return Replicate.RUNS
    return Replicate.ONE_RUN if quantity in MOVED_BY_THE_HOUR else Replicate.REPEATS


def list_known(section: Section, quantity: Quantity, place: Place) -> Values:
    """List the trials that have a value to compare, in the quantity's unit."""
    spec = quantity.figure(section.condition)
    assert spec is not None  # a quantity without a figure is not compared
    results = [r for r in tables.group_by_place(section)[place] if r.status in WELL_ENDED and tables.is_shown(r, spec)]
    figures = [(result, tables.find_figure(result, spec.name)) for result in results]
    return [(result, figure.value * spec.factor) for result, figure in figures if figure.value is not None]


def _compare_pairs(
    a: Values, b: Values, key: Callable[[TrialResult], Hashable], shift: Callable[[Numbers, Numbers, bool], Shift]
) -> tuple[Shift, list[str] | None]:
    """Compare in pairs of the same key if there is one, otherwise independently: no remarks then, but None.

    Trials with the same key on one side give one value, their mean.
    """
    of_a, of_b = ({name: statistics.fmean(values) for name, values in _grouped(side, key).items()} for side in (a, b))
    pairs = [(value, of_b[name]) for name, value in of_a.items() if name in of_b]
    if not pairs:
        return shift([*of_a.values()], [*of_b.values()], False), None
    left = len(of_a) + len(of_b) - 2 * len(pairs)
    values_a, values_b = zip(*pairs, strict=True)
    return shift(values_a, values_b, True), [LEFT_OUT.format(left)] if left else []


def _grouped(known: Values, key: Callable[[TrialResult], Shared]) -> dict[Shared, list[float]]:
    groups: dict[Shared, list[float]] = {}
    for result, value in known:
        groups.setdefault(key(result), []).append(value)
    return groups


def _run(section: Section, result: TrialResult) -> int:
    return section.runs.get(result.key, 0)


def _repeat(section: Section, result: TrialResult) -> tuple[int, int]:
    return _run(section, result), result.spec.draw.repeat


def _inputs(result: TrialResult) -> tuple[int, frozenset[tuple[str, str]]]:
    """Return the repeat, and the checksums of what it read."""
    return result.spec.draw.repeat, frozenset((name, file.sha256) for name, file in result.spec.inputs.items())
