"""Compare two results folders, or two columns of one; A is the baseline.

Every cell that both hold is compared; every other one is listed. A side may hold several runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.statistics import Verdict

from .. import tables
from ..frameworks import FrameworkNames, order_frameworks
from ..load import ReportError
from ..publishing import archive
from ..sentences import status_words
from ..tables import Place
from . import cell_tests
from .cell_tests import QUANTITIES, AnyTest, CellTest, MeanTest
from .cell_values import WELL_ENDED, compare_cell
from .pairing import Names, Pair, name_before, pair, pair_columns
from .sides import ReadSide, Side, read_side


@dataclass(frozen=True)
class Ending:
    """A cell, and how its trials ended on both sides; UNDECIDED if equally well. `reason` is that of the worse side.

    Tables name its framework `label`. `section`: as of a test.
    """

    framework: str
    label: str
    batch_size: int
    ended_a: str
    ended_b: str
    verdict: Verdict
    reason: str
    names: Names
    section: str = ""

    @property
    def name(self) -> str:
        """Name of framework and batch size in a sentence."""
        return f"{self.label}, batch size {self.batch_size}"

    @property
    def line(self) -> str:
        """Line that names the cell, how it ended, and why."""
        cell = f"{name_before(self.section)}{self.name}"
        return f"{cell}: {self.ended_a} in {self.names[0]}, {self.ended_b} in {self.names[1]}: {self.reason}"


@dataclass(frozen=True)
class PairComparison:
    """Result of one pair. `uncompared`: a line for each quantity that differs in kind. `names`: of A and B.

    `every_ending`: of each cell that both sides have. `lost`: those of `uncompared` that A measured, and of which more
    or less is better.
    """

    pair: Pair
    tests: tuple[AnyTest, ...]
    every_ending: tuple[Ending, ...]
    only_a: tuple[Place, ...]
    only_b: tuple[Place, ...]
    uncompared: tuple[str, ...]
    lost: tuple[str, ...]
    names: Names

    @property
    def against(self) -> str:
        """Title of the pair, as "PyTorch @tuned against PyTorch"."""
        return f"{self.names[1]} against {self.names[0]}"

    @property
    def endings(self) -> list[Ending]:
        """Cells whose trials ended better on one side."""
        return [ending for ending in self.every_ending if ending.verdict is not Verdict.UNDECIDED]

    @property
    def cells(self) -> list[CellTest]:
        """Tests of every quantity of every cell that both sides have."""
        return [test for test in self.tests if isinstance(test, CellTest)]

    @property
    def means(self) -> list[MeanTest]:
        """Tests of every quantity of every framework."""
        return [test for test in self.tests if isinstance(test, MeanTest)]


@dataclass(frozen=True)
class Comparison:
    """A comparison of two sides. `alone`: a line for each section that has no counterpart."""

    a: Side
    b: Side
    pairs: tuple[PairComparison, ...]
    alone: tuple[str, ...]

    @property
    def names(self) -> Names:
        """Names of A and B in a sentence."""
        return self.pairs[0].names

    @property
    def tests(self) -> list[AnyTest]:
        """Tests of all pairs, in order."""
        return [test for compared in self.pairs for test in compared.tests]

    @property
    def cells(self) -> list[CellTest]:
        """Cells of all pairs, in order."""
        return [cell for compared in self.pairs for cell in compared.cells]

    @property
    def endings(self) -> list[Ending]:
        """Cells of all pairs whose trials ended differently on the two sides."""
        return [ending for compared in self.pairs for ending in compared.endings]


def compare(a: Path, b: Path) -> Comparison:
    """Compare two results folders. Where both have a label of a framework, B's is used.

    Raises ReportError if a folder is missing or has no readable result, or the two have nothing in common.
    """
    return compare_sides(read_side(a), read_side(b))


def compare_sides(a: ReadSide, b: ReadSide) -> Comparison:
    """Compare two results folders that were read. Raises ReportError if they have nothing in common."""
    (side_a, sections_a), (side_b, sections_b) = a, b
    names = _names(side_a, side_b)
    named = FrameworkNames({**side_a.stored.named.labels, **side_b.stored.named.labels})
    both = [[replace(section, named=named) for section in side] for side in (sections_a, sections_b)]
    return _tested(side_a, side_b, names, *pair(both[0], both[1], names))


def compare_columns(results: Path, names: tuple[str, str]) -> Comparison:
    """Compare two frameworks, builds or modes of one results folder.

    Raises ReportError as `compare`, and if one of them does not exist.
    """
    side, in_sections = read_side(results)
    there = order_frameworks(result.spec.cell.framework for result in side.stored.results)
    if names[0] == names[1]:
        raise ReportError(f"--frameworks {' '.join(names)}: the same twice; name two of {', '.join(there)}")
    if unknown := [name for name in names if name not in there]:
        raise ReportError(f"--frameworks: no trial of {unknown[0]} in {results}; there are {', '.join(there)}")
    a, b = (_column(side, name) for name in names)
    return _tested(a, b, _names(a, b), *pair_columns(in_sections, names))


def _names(a: Side, b: Side) -> Names:
    """Return the columns' names, otherwise the shortest ends of the folders' paths that differ.

    Returns A and B if both are the same folder.
    """
    if a.column:
        return a.label, b.label
    paths = [(side.path.parent if side.path.name == archive.ARCHIVE else side.path).resolve() for side in (a, b)]
    for count in range(1, max(len(path.parts) for path in paths)):
        name_a, name_b = ("/".join(path.parts[-count:]) for path in paths)
        if name_a != name_b:
            return name_a, name_b
    return "A", "B"


def _column(side: Side, name: str) -> Side:
    """Return one column of a side; its folder's unreadable files are kept because they may belong to either column."""
    stored = side.stored
    own = [place for place, result in enumerate(stored.results) if result.spec.cell.framework == name]
    results, folders = tuple(stored.results[place] for place in own), tuple(stored.folders[place] for place in own)
    replaced = tuple(each for each in side.replaced if each.old.spec.cell.framework == name)
    of_column = replace(stored, results=results, folders=folders)
    return Side(side.path, of_column, replaced, name, stored.named(name), side.runs)


def _tested(a: Side, b: Side, names: Names, pairs: Sequence[Pair], alone: Sequence[str]) -> Comparison:
    """Test all pairs together. Raises ReportError if nothing is in common."""
    untested = [_compared(pair, names, pair.title if len(pairs) > 1 else "") for pair in pairs]
    if not any(pair.tests for pair in untested):
        differences = "; ".join([*alone, *(line for pair in untested for line in pair.uncompared)])
        why = differences or "no framework was run at a batch size that is in both"
        raise ReportError(f"{a.name} and {b.name}: nothing in common: {why}")
    tests = cell_tests.evaluate_pairs(pair.cells for pair in untested)
    compared = [replace(pair, tests=tuple(tested)) for pair, tested in zip(untested, tests, strict=True)]
    return Comparison(a, b, tuple(compared), tuple(alone))


def _compared(pair: Pair, names: Names, section: str) -> PairComparison:
    """Return the cells of a pair and how they ended, before the tests; `section` names the pair."""
    places_a, places_b = (
        {(pair.row if pair.columns else framework, size): results for (framework, size), results in places.items()}
        for places in map(tables.group_by_place, (pair.a, pair.b))
    )
    both = [place for place in places_a if place in places_b]
    cells, uncompared, lost = list[CellTest](), list[str](), list[str]()
    for quantity in QUANTITIES:
        spec_a, spec_b = (tables.find_measured_figure(section, quantity) for section in (pair.a, pair.b))
        if spec_a and spec_a is spec_b:
            cells += [replace(compare_cell(pair, names, quantity, place), section=section) for place in both]
        elif spec_a or spec_b:
            label_a, label_b = (spec.label if spec else "no such quantity" for spec in (spec_a, spec_b))
            uncompared.append(f"{quantity.name} is not compared: {names[0]} has {label_a}, {names[1]} {label_b}")
            measured = spec_a and any(cell.n for cell in tables.compute_cells(pair.a, quantity).values())
            lost += uncompared[-1:] if measured and quantity.better else []
    endings = [_ending(place, places_a[place], places_b[place], pair, names) for place in both]
    return PairComparison(
        pair,
        tuple(cells),
        tuple(replace(ending, section=section) for ending in endings),
        tuple(place for place in places_a if place not in places_b),
        tuple(place for place in places_b if place not in places_a),
        tuple(uncompared),
        tuple(lost),
        names,
    )


def _ending(place: Place, a: list[TrialResult], b: list[TrialResult], pair: Pair, names: Names) -> Ending:
    """Compare how the trials ended; UNDECIDED if equally well.

    Shares are compared because A and B may have different numbers of repeats.
    """
    shares = [sum(result.status in WELL_ENDED for result in side) / len(side) for side in (a, b)]
    worse = b if shares[1] < shares[0] else a
    reasons = dict.fromkeys(
        result.reason or "no reason was stored" for result in worse if result.status not in WELL_ENDED
    )
    kind = Verdict.UNDECIDED if shares[0] == shares[1] else Verdict.WORSE if worse is b else Verdict.BETTER
    framework, size = place
    return Ending(framework, pair.named(framework), size, _ended(a), _ended(b), kind, "; ".join(reasons), names)


def _ended(results: list[TrialResult]) -> str:
    """Format how trials ended: "ok", "out of memory", or "3 of 5 ok, 2 timeout"."""
    counts = Counter(status_words(result.status) for result in results)
    if len(counts) == 1:
        return next(iter(counts))
    counted = [f"{number} {status}" for status, number in counts.items() if status != Status.OK]
    return ", ".join([f"{counts[Status.OK]} of {len(results)} ok", *counted])
