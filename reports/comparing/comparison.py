"""Two results folders, or two columns of one, A the baseline and B: every cell that both hold, compared; every other
one named.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workloads.records.intervals import accuracy_step
from workloads.records.result import TrialResult
from workloads.records.status import Status

from .. import tables
from ..conditions import Replaced, Section, sections
from ..frameworks import display_name, ordered
from ..load import ReportError, Stored
from ..publishing import archive
from ..quantities import ACCURACY, Quantity
from ..tables import Place
from . import cell_tests, estimates
from .cell_tests import QUANTITIES, AnyTest, CellTest, MeanTest, Verdict
from .estimates import Shift
from .pairing import Names, Pair, pair, pair_columns

Values = list[tuple[TrialResult, float]]
WELL_ENDED = (Status.OK, Status.CONTENDED)  # neighbours are no property of what is compared
LEFT_OUT = "left out, for want of a counterpart: {} of the repeats"


@dataclass(frozen=True)
class Ending:
    """A cell whose trials did not end the same way on both sides; `reason` is that of the side that is worse."""

    framework: str
    batch_size: int
    ended_a: str
    ended_b: str
    verdict: Verdict
    reason: str

    @property
    def line(self) -> str:
        """Names the cell, how it ended, and why."""
        cell = f"{display_name(self.framework)}, batch size {self.batch_size}"
        return f"{cell}: {self.ended_a} in A, {self.ended_b} in B: {self.reason}"


@dataclass(frozen=True)
class Compared:
    """The result of one pair; `uncompared`: a line for each quantity that differs in kind. `names`: of A and B."""

    pair: Pair
    tests: tuple[AnyTest, ...]
    endings: tuple[Ending, ...]
    only_a: tuple[Place, ...]
    only_b: tuple[Place, ...]
    uncompared: tuple[str, ...]
    names: Names

    @property
    def against(self) -> str:
        """ "PyTorch @tuned against PyTorch"."""
        return f"{self.names[1]} against {self.names[0]}"

    @property
    def cells(self) -> list[CellTest]:
        """Every quantity of every cell that both sides have."""
        return [test for test in self.tests if isinstance(test, CellTest)]

    @property
    def means(self) -> list[MeanTest]:
        """Every quantity of every framework."""
        return [test for test in self.tests if isinstance(test, MeanTest)]


@dataclass(frozen=True)
class Side:
    """One results folder, or one `column` of it; `path` as it was given."""

    path: Path
    stored: Stored
    replaced: tuple[Replaced, ...]
    column: str = ""

    @property
    def name(self) -> str:
        """The words for it in a sentence."""
        return f"{display_name(self.column)} in {self.path}" if self.column else str(self.path)


@dataclass(frozen=True)
class Comparison:
    """`alone`: a line for each section that has no counterpart."""

    a: Side
    b: Side
    pairs: tuple[Compared, ...]
    alone: tuple[str, ...]

    @property
    def tests(self) -> list[AnyTest]:
        """Tests of all pairs, in their order."""
        return [test for compared in self.pairs for test in compared.tests]

    @property
    def cells(self) -> list[CellTest]:
        """Cells of all pairs, in their order."""
        return [cell for compared in self.pairs for cell in compared.cells]

    @property
    def endings(self) -> list[Ending]:
        """Cells of which the trials ended otherwise than in the other side, of all pairs."""
        return [ending for compared in self.pairs for ending in compared.endings]


def compare(a: Path, b: Path) -> Comparison:
    """Raises ReportError: a folder is missing or without a readable result, or the two have nothing in common."""
    (side_a, sections_a), (side_b, sections_b) = map(_read, (a, b))
    names = _names(side_a, side_b)
    return _tested(side_a, side_b, names, *pair(sections_a, sections_b, names))


def compare_columns(results: Path, names: tuple[str, str]) -> Comparison:
    """Two frameworks, builds or modes of one results folder. Raises ReportError as `compare`, and where one is not
    there.
    """
    side, in_sections = _read(results)
    there = ordered(result.spec.cell.framework for result in side.stored.results)
    if names[0] == names[1]:
        raise ReportError(f"--frameworks {' '.join(names)}: the same twice; name two of {', '.join(there)}")
    if unknown := [name for name in names if name not in there]:
        raise ReportError(f"--frameworks: no trial of {unknown[0]} in {results}; there are {', '.join(there)}")
    a, b = (_column(side, name) for name in names)
    return _tested(a, b, _names(a, b), *pair_columns(in_sections, names))


def _read(path: Path) -> tuple[Side, list[Section]]:
    stored = archive.stored(path)
    if not stored.results:
        first = stored.unreadable[0]
        raise ReportError(f"{first.path}: {first.reason}; no result of this folder can be read")
    in_sections, replaced = sections(stored.results)
    return Side(path, stored, tuple(replaced)), in_sections


def _names(a: Side, b: Side) -> Names:
    """The columns' names; else the ends of the folders' paths by which they differ, and A and B where they are one."""
    if a.column:
        return display_name(a.column), display_name(b.column)
    paths = [(side.path.parent if side.path.name == archive.ARCHIVE else side.path).resolve() for side in (a, b)]
    for count in range(1, max(len(path.parts) for path in paths)):
        name_a, name_b = ("/".join(path.parts[-count:]) for path in paths)
        if name_a != name_b:
            return name_a, name_b
    return "A", "B"


def _column(side: Side, name: str) -> Side:
    """Its folder's files that cannot be read may be of either column."""
    stored = side.stored
    own = [place for place, result in enumerate(stored.results) if result.spec.cell.framework == name]
    results, folders = tuple(stored.results[place] for place in own), tuple(stored.folders[place] for place in own)
    replaced = tuple(each for each in side.replaced if each.old.spec.cell.framework == name)
    return Side(side.path, replace(stored, results=results, folders=folders), replaced, name)


def _tested(a: Side, b: Side, names: Names, pairs: Sequence[Pair], alone: Sequence[str]) -> Comparison:
    """Raises ReportError where nothing is in common."""
    untested = [_compared(pair, names) for pair in pairs]
    if not any(pair.tests for pair in untested):
        differences = "; ".join([*alone, *(line for pair in untested for line in pair.uncompared)])
        why = differences or "no framework was run at a batch size that is in both"
        raise ReportError(f"{a.name} and {b.name}: nothing in common: {why}")
    tests = cell_tests.tested(pair.cells for pair in untested)
    compared = [replace(pair, tests=tuple(tested)) for pair, tested in zip(untested, tests, strict=True)]
    return Comparison(a, b, tuple(compared), tuple(alone))


def _compared(pair: Pair, names: Names) -> Compared:
    """Before the tests."""
    places_a, places_b = (
        {(pair.row if pair.columns else framework, size): results for (framework, size), results in places.items()}
        for places in map(tables.places, (pair.a, pair.b))
    )
    both = [place for place in places_a if place in places_b]
    cells, uncompared = [], []
    for quantity in QUANTITIES:
        spec_a, spec_b = (tables.measured(section, quantity) for section in (pair.a, pair.b))
        if spec_a and spec_a is spec_b:
            cells += [_cell(pair, names, quantity, place) for place in both]
        elif spec_a or spec_b:
            label_a, label_b = (spec.label if spec else "no such quantity" for spec in (spec_a, spec_b))
            uncompared.append(f"{quantity.name} is not compared: {names[0]} has {label_a}, {names[1]} {label_b}")
    endings = [_ending(place, places_a[place], places_b[place]) for place in both]
    return Compared(
        pair,
        tuple(cells),
        tuple(ending for ending in endings if ending is not None),
        tuple(place for place in places_a if place not in places_b),
        tuple(place for place in places_b if place not in places_a),
        tuple(uncompared),
        names,
    )


def _cell(pair: Pair, names: Names, quantity: Quantity, place: Place) -> CellTest:
    """One cell's test, with the notes that the reports' tables would have beneath it."""
    framework, size = place
    own_places = [(name, size) for name in pair.own(framework)]
    sides = list(zip(names, (pair.a, pair.b), own_places, strict=True))
    known_a, known_b = (_known(section, quantity, own) for _, section, own in sides)
    values_a, values_b = ([value for _, value in known] for known in (known_a, known_b))
    notes = [
        f"{side}: {note}" for side, section, own in sides for note in tables.by_place(section, quantity)[own]["notes"]
    ]
    spread = Shift(math.nan)
    if values_a and values_b and quantity is ACCURACY:
        task = pair.a.condition.task
        spread, remarks = _in_points(known_a, known_b, accuracy_step(task.dataset, task.source), names)
        notes += remarks
    elif values_a and values_b and pair.columns:
        spread, remarks = _of_repeats(known_a, known_b)
        notes += remarks
    elif values_a and values_b:
        spread = estimates.of_ratio(values_a, values_b)
    if quantity.better and spread.untested:
        notes.append(spread.untested)
    trials = tuple(result.spec.id for _, section, own in sides for result in tables.places(section)[own])
    cell = cell_tests.of_cell(*place, quantity, values_a, values_b, spread)
    return replace(cell, notes=tuple(notes), trials=trials)


def _known(section: Section, quantity: Quantity, place: Place) -> Values:
    """The trials that have a value to compare, in the quantity's unit."""
    spec = quantity.figure(section.condition)
    assert spec is not None  # such a quantity is compared with nothing
    results = [r for r in tables.places(section)[place] if r.status in WELL_ENDED and tables.is_shown(r, spec)]
    figures = [(result, tables.figure_of(result, spec.name)) for result in results]
    return [(result, figure.value * spec.factor) for result, figure in figures if figure.value is not None]


def _of_repeats(a: Values, b: Values) -> tuple[Shift, list[str]]:
    """Paired by repeat, for in one run those stand near one another; of independent ones where no repeat is in both."""
    of_b = {result.spec.draw.repeat: value for result, value in b}
    pairs = [(value, of_b[repeat]) for result, value in a if (repeat := result.spec.draw.repeat) in of_b]
    if not pairs:
        values_a, values_b = ([value for _, value in side] for side in (a, b))
        return estimates.of_ratio(values_a, values_b), ["no repeat is in both: repeats are not paired"]
    left = len(a) + len(b) - 2 * len(pairs)
    values_a, values_b = map(list, zip(*pairs, strict=True))
    return estimates.of_ratio(values_a, values_b, paired=True), [LEFT_OUT.format(left)] if left else []


def _in_points(a: Values, b: Values, step: float, names: Names) -> tuple[Shift, list[str]]:
    """Paired by repeat where at least one repeat had the same inputs on both sides, else of independent repeats.

    `step`: the points that one test image is worth.
    """
    of_b = {_inputs(result): value for result, value in b}
    pairs = [(value, of_b[_inputs(result)]) for result, value in a if _inputs(result) in of_b]
    if not pairs:
        values_a, values_b = ([value for _, value in side] for side in (a, b))
        remark = f"the inputs differ between {names[0]} and {names[1]}: repeats are not paired"
        return estimates.of_points(values_a, values_b, False, step), [remark]
    left = len(a) + len(b) - 2 * len(pairs)
    remarks = [LEFT_OUT.format(left)] if left else []
    values_a, values_b = map(list, zip(*pairs, strict=True))
    return estimates.of_points(values_a, values_b, True, step), remarks


def _inputs(result: TrialResult) -> tuple[int, frozenset[tuple[str, str]]]:
    """The repeat, and the checksums of what it read."""
    return result.spec.draw.repeat, frozenset((name, file.sha256) for name, file in result.spec.inputs.items())


def _ending(place: Place, a: list[TrialResult], b: list[TrialResult]) -> Ending | None:
    """None where both sides ended equally well. The share counts, for A and B may have different numbers of repeats."""
    shares = [sum(result.status in WELL_ENDED for result in side) / len(side) for side in (a, b)]
    if shares[0] == shares[1]:
        return None
    worse = b if shares[1] < shares[0] else a
    reasons = dict.fromkeys(
        result.reason or "no reason was stored" for result in worse if result.status not in WELL_ENDED
    )
    kind = Verdict.REGRESSION if worse is b else Verdict.IMPROVEMENT
    return Ending(*place, _ended(a), _ended(b), kind, "; ".join(reasons))


def _ended(results: list[TrialResult]) -> str:
    """ "ok", "out of memory", or "3 of 5 ok, 2 timeout"."""
    counts = Counter(str(result.status).replace("_", " ") for result in results)
    if len(counts) == 1:
        return next(iter(counts))
    counted = [f"{number} {status}" for status, number in counts.items() if status != Status.OK]
    return ", ".join([f"{counts[Status.OK]} of {len(results)} ok", *counted])
