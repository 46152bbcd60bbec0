"""Two results folders, A the baseline and B: every cell that both hold, compared; every other one named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workloads.records.result import TrialResult
from workloads.records.status import Status

from .. import load, tables
from ..conditions import Replaced, Section, sections
from ..frameworks import display_name, ordered
from ..load import ReportError, Stored
from ..spread import accuracy_step
from . import contrast, judging
from .contrast import MEASURES, Measure, Shift, Verdict
from .judging import Compared, Judged
from .pairing import Pair, pair

Place = tuple[str, int]  # framework, batch size


@dataclass(frozen=True)
class Ending:
    """A cell whose trials did not end the same way on both sides; `reason` is that of the side that is worse."""

    framework: str
    batch_size: int
    ended_a: str
    ended_b: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Contrasted:
    """What came of one pair; `uncompared`: a line for each quantity that is not the same thing on both sides."""

    pair: Pair
    judged: Judged
    endings: tuple[Ending, ...]
    only_a: tuple[Place, ...]
    only_b: tuple[Place, ...]
    uncompared: tuple[str, ...]

    @property
    def cells(self) -> tuple[Compared, ...]:
        """Every quantity of every cell that both sides have."""
        return self.judged.cells


@dataclass(frozen=True)
class Side:
    """One results folder; `path` as it was given."""

    path: Path
    stored: Stored
    replaced: tuple[Replaced, ...]


@dataclass(frozen=True)
class Comparison:
    """`alone`: a line for each section that has no counterpart."""

    a: Side
    b: Side
    contrasts: tuple[Contrasted, ...]
    alone: tuple[str, ...]

    @property
    def cells(self) -> list[Compared]:
        """Of all pairs, in their order."""
        return [cell for found in self.contrasts for cell in found.cells]

    @property
    def endings(self) -> list[Ending]:
        """Cells of which the trials ended otherwise than in the other side, of all pairs."""
        return [ending for found in self.contrasts for ending in found.endings]

    @property
    def tested(self) -> list[Compared]:
        """Those of `testable` that had enough repeats."""
        return [cell for cell in self.testable if cell.judgement]

    @property
    def lost(self) -> list[Compared]:
        """Those that are judged, have a value in A and none in B."""
        return [cell for cell in self.cells if cell.measure.better and cell.n_a and not cell.n_b]

    @property
    def testable(self) -> list[Compared]:
        """Those that would be tested with enough repeats."""
        return [cell for cell in self.cells if cell.verdict not in (Verdict.NOT_JUDGED, Verdict.NO_VALUE)]


def compare(a: Path, b: Path) -> Comparison:
    """Raises ReportError: a folder is missing or without a readable result, or the two have nothing in common."""
    sides, found = [], []
    for path in (a, b):
        stored = load.read(path)
        if not stored.results:
            first = stored.unreadable[0]
            raise ReportError(f"{first.path}: {first.reason}; no result of this folder can be read")
        own, replaced = sections(stored.results)
        sides.append(Side(path, stored, tuple(replaced)))
        found.append(own)
    pairing = pair(*found)
    contrasts = _judged([_contrasted(one) for one in pairing.pairs])
    if not any(one.cells for one in contrasts):
        differences = "; ".join([*pairing.alone, *(line for one in contrasts for line in one.uncompared)])
        why = differences or "no framework was run at a batch size that is in both"
        raise ReportError(f"{a} and {b}: nothing in common: {why}")
    return Comparison(sides[0], sides[1], tuple(contrasts), pairing.alone)


def _contrasted(pair: Pair) -> Contrasted:
    places_a, places_b = _places(pair.a.results), _places(pair.b.results)
    both = [place for place in places_a if place in places_b]
    cells, uncompared = [], []
    for measure in MEASURES:
        quantity = measure.quantity
        spec_a, spec_b = (quantity.figure(section.condition) for section in (pair.a, pair.b))
        if spec_a is None or spec_a is not spec_b:
            if spec_a or spec_b:
                labels = [spec.label if spec else "no such quantity" for spec in (spec_a, spec_b)]
                uncompared.append(f"{quantity.name} is not compared: A has {labels[0]}, B {labels[1]}")
            continue
        notes = _notes(pair.a, measure, "A"), _notes(pair.b, measure, "B")
        cells += [
            _cell(pair, measure, place, places_a[place], places_b[place], [*notes[0][place], *notes[1][place]])
            for place in both
        ]
    endings = [_ending(place, places_a[place], places_b[place]) for place in both]
    return Contrasted(
        pair,
        Judged(tuple(cells), ()),
        tuple(ending for ending in endings if ending is not None),
        tuple(place for place in places_a if place not in places_b),
        tuple(place for place in places_b if place not in places_a),
        tuple(uncompared),
    )


def _places(results: Sequence[TrialResult]) -> dict[Place, list[TrialResult]]:
    """{(framework, batch size): its repeats} in the tables' order."""
    found: dict[Place, list[TrialResult]] = {}
    for result in sorted(results, key=lambda result: (result.spec.cell.batch_size, result.spec.draw.repeat)):
        found.setdefault((result.spec.cell.framework, result.spec.cell.batch_size), []).append(result)
    order = ordered(framework for framework, _ in found)
    return {place: found[place] for place in sorted(found, key=lambda place: (order.index(place[0]), place[1]))}


def _notes(section: Section, measure: Measure, side: str) -> dict[Place, list[str]]:
    """{cell: what the report's table would say beneath it}."""
    found = tables.by_place(section, measure.quantity)
    return {place: [f"{side}: {note}" for note in cell["notes"]] for place, cell in found.items()}


def _cell(
    pair: Pair, measure: Measure, place: Place, a: list[TrialResult], b: list[TrialResult], notes: list[str]
) -> Compared:
    known_a, known_b = _known(a, measure, pair.a), _known(b, measure, pair.b)
    values_a, values_b = [value for _, value in known_a], [value for _, value in known_b]
    shift = None
    if values_a and values_b and measure.in_points:
        shift, remarks = _in_points(known_a, known_b, accuracy_step(pair.a.condition.task.dataset))
        notes += remarks
    elif values_a and values_b:
        shift = contrast.of_ratio(values_a, values_b)
    if measure.better and shift and shift.untested:
        notes.append(shift.untested)
    trials = tuple(result.spec.id for result in (*a, *b))
    return replace(judging.cell(*place, measure, values_a, values_b, shift), notes=tuple(notes), trials=trials)


def _known(results: list[TrialResult], measure: Measure, section: Section) -> list[tuple[TrialResult, float]]:
    """The trials that are ok and have a value, in the quantity's unit."""
    spec = measure.quantity.figure(section.condition)
    assert spec is not None  # such a quantity is compared with nothing
    figures = [(result, tables.figure_of(result, spec.name)) for result in results if result.status is Status.OK]
    return [(result, figure.value * spec.factor) for result, figure in figures if figure.value is not None]


def _in_points(
    a: list[tuple[TrialResult, float]], b: list[tuple[TrialResult, float]], step: float
) -> tuple[Shift, list[str]]:
    """Paired by repeat where at least one repeat had the same inputs on both sides, else of independent repeats.

    `step`: the points that one test image is worth.
    """
    of_b = {result.spec.draw.repeat: (result, value) for result, value in b}
    pairs = [
        (value, of_b[result.spec.draw.repeat][1])
        for result, value in a
        if result.spec.draw.repeat in of_b and _inputs(result) == _inputs(of_b[result.spec.draw.repeat][0])
    ]
    if not pairs:
        values_a, values_b = ([value for _, value in side] for side in (a, b))
        remark = "the inputs differ between A and B: repeats are not paired"
        return contrast.of_points(values_a, values_b, False, step), [remark]
    left = len(a) + len(b) - 2 * len(pairs)
    remarks = [f"left out, for want of a counterpart with the same inputs: {left} of the repeats"] if left else []
    return contrast.of_points([x for x, _ in pairs], [y for _, y in pairs], True, step), remarks


def _inputs(result: TrialResult) -> dict[str, str]:
    return {name: file.sha256 for name, file in result.spec.inputs.items()}


def _ending(place: Place, a: list[TrialResult], b: list[TrialResult]) -> Ending | None:
    """None where both sides ended equally well. The share counts, for A and B may have different numbers of repeats."""
    shares = [sum(result.status is Status.OK for result in side) / len(side) for side in (a, b)]
    if shares[0] == shares[1]:
        return None
    worse = b if shares[1] < shares[0] else a
    reasons = dict.fromkeys(
        result.reason or "no reason was stored" for result in worse if result.status is not Status.OK
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


def _judged(contrasts: list[Contrasted]) -> list[Contrasted]:
    results = judging.judged([one.cells for one in contrasts])
    return [replace(one, judged=judged) for one, judged in zip(contrasts, results, strict=True)]


def ended_worse(comparison: Comparison) -> list[str]:
    """A line for each cell of B that did not end as well as in A."""
    return [
        f"{display_name(ending.framework)}, batch size {ending.batch_size}: {ending.ended_a} in A, {ending.ended_b} "
        f"in B: {ending.reason}"
        for ending in comparison.endings
        if ending.verdict is Verdict.REGRESSION
    ]
