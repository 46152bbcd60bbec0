"""Collect the values of one cell on both sides, and compare them by run, by repeat, or in pairs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import replace

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
Inputs = tuple[int, frozenset[tuple[str, str]]]  # the repeat, and the checksums of what it read
WELL_ENDED = (Status.OK, Status.CONTENDED)  # neighbours are not a property of what is compared
LEFT_OUT = "left out, for want of a counterpart: {} of the repeats"


def compare_cell(pair: Pair, names: Names, quantity: Quantity, place: Place) -> CellTest:
    """Test one cell; its notes are those of the reports' tables."""
    framework, size = place
    own_places = [(name, size) for name in pair.own(framework)]
    sides = list(zip(names, (pair.a, pair.b), own_places, strict=True))
    known_a, known_b = (_known(section, quantity, own) for _, section, own in sides)
    values_a, values_b = ([value for _, value in known] for known in (known_a, known_b))
    notes = [
        f"{side}: {note}" for side, section, own in sides for note in tables.by_place(section, quantity)[own]["notes"]
    ]
    spread, replicate = Shift(math.nan), _replicate(pair, quantity)
    if values_a and values_b and quantity is ACCURACY:
        task = pair.a.condition.task
        spread, remarks = _in_points(known_a, known_b, accuracy_step(task.dataset, task.source), names)
        notes += remarks
    elif values_a and values_b and pair.columns:
        spread, remarks = _of_repeats(known_a, known_b, pair.a.runs)
        notes += remarks
    elif values_a and values_b and replicate is Replicate.RUNS:
        spread = shift_runs(_by_run(pair.a, known_a), _by_run(pair.b, known_b))
    elif values_a and values_b:
        spread = shift_ratio(values_a, values_b)
    if quantity.better and spread.untested:
        notes.append(spread.untested)
    trials = tuple(result.spec.id for _, section, own in sides for result in tables.places(section)[own])
    # Values that the estimate counts: runs with the same inputs count once, repeats without a counterpart do not count.
    repeats = min((side.n for side in spread.sides.values()), default=min(len(values_a), len(values_b)))
    cell = cell_tests.of_cell(*place, quantity, values_a, values_b, spread)
    return replace(cell, notes=tuple(notes), trials=trials, replicate=replicate, repeats=repeats)


def _replicate(pair: Pair, quantity: Quantity) -> Replicate:
    """Choose runs if both sides hold several. Accuracy is paired by its inputs, two columns of one run by repeat."""
    if quantity is ACCURACY or pair.columns:
        return Replicate.REPEATS
    if all(len({section.runs.get(id(r), 0) for r in section.results}) > 1 for section in (pair.a, pair.b)):
        return Replicate.RUNS
    return Replicate.ONE_RUN if quantity in MOVED_BY_THE_HOUR else Replicate.REPEATS


def _by_run(section: Section, known: Values) -> dict[int, list[float]]:
    """Group the values by run."""
    runs: dict[int, list[float]] = {}
    for result, value in known:
        runs.setdefault(section.runs[id(result)], []).append(value)
    return runs


def _known(section: Section, quantity: Quantity, place: Place) -> Values:
    """List the trials that have a value to compare, in the quantity's unit."""
    spec = quantity.figure(section.condition)
    assert spec is not None  # a quantity without a figure is not compared
    results = [r for r in tables.places(section)[place] if r.status in WELL_ENDED and tables.is_shown(r, spec)]
    figures = [(result, tables.figure_of(result, spec.name)) for result in results]
    return [(result, figure.value * spec.factor) for result, figure in figures if figure.value is not None]


def _of_repeats(a: Values, b: Values, run_of: Mapping[int, int]) -> tuple[Shift, list[str]]:
    """Compare paired by repeat, because repeats of one run are close in time.

    Uses independent repeats if none is in both.
    """

    def repeat(result: TrialResult) -> tuple[int, int]:
        return run_of.get(id(result), 0), result.spec.draw.repeat

    of_b = {repeat(result): value for result, value in b}
    pairs = [(value, of_b[repeat(result)]) for result, value in a if repeat(result) in of_b]
    if not pairs:
        values_a, values_b = ([value for _, value in side] for side in (a, b))
        return shift_ratio(values_a, values_b), ["no repeat is in both: repeats are not paired"]
    left = len(a) + len(b) - 2 * len(pairs)
    values_a, values_b = map(list, zip(*pairs, strict=True))
    return shift_ratio(values_a, values_b, paired=True), [LEFT_OUT.format(left)] if left else []


def _in_points(a: Values, b: Values, step: float, names: Names) -> tuple[Shift, list[str]]:
    """Compare paired by repeat if at least one repeat had the same inputs on both sides, otherwise independently.

    `step`: the share of one test image, in points. Runs with the same inputs give one value, their mean.
    """
    of_a, of_b = map(_by_inputs, (a, b))
    pairs = [(value, of_b[inputs]) for inputs, value in of_a.items() if inputs in of_b]
    if not pairs:
        values_a, values_b = ([*side.values()] for side in (of_a, of_b))
        remark = f"the inputs differ between {names[0]} and {names[1]}: repeats are not paired"
        return shift_points(values_a, values_b, False, step), [remark]
    left = len(of_a) + len(of_b) - 2 * len(pairs)
    remarks = [LEFT_OUT.format(left)] if left else []
    values_a, values_b = map(list, zip(*pairs, strict=True))
    return shift_points(values_a, values_b, True, step), remarks


def _by_inputs(side: Values) -> dict[Inputs, float]:
    values: dict[Inputs, list[float]] = {}
    for result, value in side:
        values.setdefault(_inputs(result), []).append(value)
    return {inputs: statistics.fmean(each) for inputs, each in values.items()}


def _inputs(result: TrialResult) -> Inputs:
    """Return the repeat, and the checksums of what it read."""
    return result.spec.draw.repeat, frozenset((name, file.sha256) for name, file in result.spec.inputs.items())
