"""Follow each cell over commits: a step counts where an independent second run shows it, too.

Entries are results folders in the order in which they were measured. A cell begins at the first entry that has a value
of it, and is compared with its last confirmed level: that entry, or the last one at which a step was confirmed. A
single run that was disturbed is therefore no step, and neither is the return from it.

Two entries that are compared with the same third are independent only of each other. So a step against the first entry
needs another entry that agreed with it: otherwise that one may be the disturbed run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from workloads.records.result import Key
from workloads.statistics import Verdict

from .. import tables
from ..conditions import Section
from ..load import ReportError
from ..sentences import say
from . import comparison
from .cell_tests import MOVED_BY_THE_HOUR, QUANTITIES, CellTest, Untested
from .cell_values import list_known
from .comparison import Comparison, Ending, PairComparison
from .comparison_tables import CHANGED, list_sizes
from .pairing import name_before, name_sections, pair
from .sides import ReadSide, read_side

Cell = tuple[int, str, int, str]  # number of the section, framework, batch size, quantity
NAMES = "entry 1", "the later entry"  # the same words for every entry: lines that are alike are listed once
STATUS = "status"  # in place of a quantity: how the trials ended
TOO_FEW = Untested.ONE_RUN, Untested.NOT_TESTED  # runs or repeats
Change = CellTest | Ending
Compared = dict[Cell, tuple[PairComparison, Change]]  # each cell with the pair of sections that it is of


class Confirmation(StrEnum):
    """Outcome of a change."""

    CONFIRMED = "confirmed"
    REFUTED = "not confirmed"
    AWAITED = "awaits a second run"
    FIRST_DIFFERS = "the first entry differs"


@dataclass(frozen=True)
class CellChange:
    """Change of a cell in entry `place` against entry `base`, counted from 1.

    `section` is the title of its section if there are several. `again` is the same cell of the next entry that can be
    compared with that base; None if there is none yet. `agreed`: another entry was at the level of the base.
    """

    section: str
    base: int
    place: int
    test: Change
    again: Change | None
    agreed: bool = True

    @property
    def confirmation(self) -> Confirmation:
        """Outcome: confirmed if the second run shows it, too, in the same direction, and the base was no single run."""
        if self.again is None:
            return Confirmation.AWAITED
        if self.again.verdict is not self.test.verdict:
            return Confirmation.REFUTED
        return Confirmation.CONFIRMED if self.agreed else Confirmation.FIRST_DIFFERS

    @property
    def quantity(self) -> str:
        """Name of the quantity, or STATUS."""
        return self.test.quantity.name if isinstance(self.test, CellTest) else STATUS

    @property
    def name(self) -> str:
        """Name of the cell in a sentence."""
        return f"{name_before(self.section)}{self.test.name}"


@dataclass
class Entries:
    """Entries in the order of their first trials; each comparison of two of them is made once."""

    sides: tuple[ReadSide, ...]
    made: dict[tuple[int, int], Comparison | str] = field(default_factory=dict)
    listed: dict[tuple[int, int], Compared] = field(default_factory=dict)

    @cached_property
    def sections(self) -> tuple[list[dict[Key, int]], list[Section]]:
        """Numbers of the sections of each entry, by the key of a section's first trial, and the first of each number.

        A section has the number of the earliest one that it is paired with.
        """
        numbers: list[dict[Key, int]] = []
        firsts: list[tuple[int, Section]] = []
        for place, (_, sections) in enumerate(self.sides):
            own: dict[Key, int] = {}
            for earlier in dict.fromkeys(first for first, _ in firsts):
                for each in pair(self.sides[earlier][1], sections, NAMES)[0]:
                    number = numbers[earlier][_key(each.a)]
                    if number not in own.values():
                        own.setdefault(_key(each.b), number)
            for section in sections:
                if section.results and _key(section) not in own:
                    own[_key(section)] = len(firsts)
                    firsts.append((place, section))
            numbers.append(own)
        return numbers, [section for _, section in firsts]

    @cached_property
    def titles(self) -> list[str]:
        """Titles of the sections, by number."""
        return name_sections(self.sections[1])

    @cached_property
    def cells(self) -> dict[Cell, int]:
        """Map each cell to the first entry that has a value of it, counted from 0."""
        first: dict[Cell, int] = {}
        for place, (_, sections) in enumerate(self.sides):
            for section in sections:
                if section.results:
                    for cell in _list_values(section, self.sections[0][place][_key(section)]):
                        first.setdefault(cell, place)
        return first

    def compare(self, base: int, place: int) -> Comparison | str:
        """Compare two entries, counted from 0. Returns a line that says why if they have nothing in common."""
        if (base, place) not in self.made:
            try:
                self.made[base, place] = comparison.compare_sides(self.sides[base], self.sides[place])
            except ReportError as error:
                self.made[base, place] = str(error)
        return self.made[base, place]

    def list_cells(self, base: int, place: int) -> Compared:
        """List the cells that two entries have in common, counted from 0."""
        if (base, place) in self.listed:
            return self.listed[base, place]
        found = self.compare(base, place)
        cells = self.listed[base, place] = {}
        for each in () if isinstance(found, str) else found.pairs:
            number = self.sections[0][base][_key(each.pair.a)]
            if self.sections[0][place][_key(each.pair.b)] != number:
                continue  # two series are paired if they are the only ones of their entries
            for ending in each.every_ending:
                cells[number, ending.framework, ending.batch_size, STATUS] = each, ending
            for test in each.cells:
                cells[number, test.framework, test.batch_size, test.quantity.name] = each, test
        return cells

    def list_judged(self, base: int, cell: Cell) -> list[tuple[int, Change]]:
        """List the entries after `base` in which the cell could be judged against it."""
        every = ((place, self.list_cells(base, place).get(cell)) for place in range(base + 1, len(self.sides)))
        return [(place, found[1]) for place, found in every if found and isinstance(found[1].verdict, Verdict)]

    @cached_property
    def judged(self) -> list[str]:
        """Quantities, and STATUS, of which a cell could be judged in some entry."""
        return list(dict.fromkeys(cell[3] for cell, first in self.cells.items() if self.list_judged(first, cell)))

    @cached_property
    def unjudged(self) -> dict[str, list[int]]:
        """Map each quantity of which a cell could not be judged to the entries with too few values, counted from 1."""
        found: dict[str, set[int]] = {}
        for cell, first in self.cells.items():
            for place in range(first + 1, len(self.sides)):
                compared, test = self.list_cells(first, place).get(cell, (None, None))
                if compared and isinstance(test, CellTest) and test.verdict in TOO_FEW:
                    sides = {first + 1: compared.pair.a, place + 1: compared.pair.b}
                    few = {entry for entry, section in sides.items() if _count_values(section, test) < 2}
                    found.setdefault(test.quantity.name, set()).update(few or sides)
        return {name: sorted(entries) for name, entries in found.items()}

    def list_missing(self) -> list[str]:
        """List what an entry does not have in common with entry 1, each line with its entries."""
        lines: dict[str, list[int]] = {}
        for place in range(1, len(self.sides)):
            found = self.compare(0, place)
            _, alone = pair(self.sides[0][1], self.sides[place][1], NAMES)
            if isinstance(found, str):
                own = [": ".join(["nothing in common with entry 1", *(["; ".join(alone)] if alone else [])])]
            else:
                own = [*alone, *_list_lacking(found)]
            for line in own:
                lines.setdefault(line, []).append(place + 1)
        return [
            f"{'Entry' if len(places) == 1 else 'Entries'} {', '.join(map(str, places))}: {line}"
            for line, places in lines.items()
        ]


def _key(section: Section) -> Key:
    return section.results[0].key


def _list_values(section: Section, number: int) -> Iterator[Cell]:
    """Yield the cells that a section has a value of."""
    places = tables.group_by_place(section)
    yield from ((number, *place, STATUS) for place in places)
    for quantity in QUANTITIES:
        if tables.find_measured_figure(section, quantity):
            yield from ((number, *place, quantity.name) for place in places if list_known(section, quantity, place))


def _count_values(section: Section, test: CellTest) -> int:
    """Count what a test of the cell counts: runs if its quantity varies between runs, otherwise repeats."""
    known = list_known(section, test.quantity, (test.framework, test.batch_size))
    runs = {section.runs.get(result.key, 0) for result, _ in known}
    return len(runs if test.quantity in MOVED_BY_THE_HOUR else known)


def _list_lacking(found: Comparison) -> list[str]:
    """List the cells of A that B lacks, a line for each pair."""
    several = len(found.pairs) > 1
    return [
        name_before(each.pair.title if several else "")
        + say("compare.only_in", each.pair.named, side=NAMES[0], places=list_sizes(each.only_a))
        for each in found.pairs
        if each.only_a
    ]


def read_entries(folders: Sequence[Path]) -> Entries:
    """Read results folders. Raises ReportError for fewer than two, a trial in two of them, and as `compare`."""
    if len(folders) < 2:
        raise ReportError(f"{folders[0]}: one results folder has no history; give two or more")
    seen: set[Path] = set()
    for folder in folders:
        if folder.resolve() in seen:
            raise ReportError(f"{folder}: given twice; a history has each results folder once")
        seen.add(folder.resolve())
    read = [read_side(folder) for folder in folders]
    holders: dict[Key, Path] = {}
    for folder, (side, _) in zip(folders, read, strict=True):
        begun = [result.key for result in side.stored.results if result.wall_s]
        if twice := next((key for key in begun if key in holders), None):
            raise ReportError(f"{folder}: it also holds a trial of {holders[twice]}: a copy is no second run; omit one")
        holders |= dict.fromkeys(begun, folder)
    read.sort(key=lambda entry: min(result.started_at for result in entry[0].stored.results))
    return Entries(tuple(read))


def find_steps(entries: Entries) -> list[CellChange]:
    """Find the changes of every cell, by the order of entries. Raises ReportError if no two have a cell in common."""
    count = len(entries.sides)
    bases = dict.fromkeys(entries.cells.values())
    if not any(entries.list_cells(base, place) for base in bases for place in range(base + 1, count)):
        raise ReportError(str(entries.compare(0, 1)))
    steps = [step for cell, first in entries.cells.items() for step in _follow(entries, cell, first)]
    return sorted(steps, key=lambda step: step.place)


def _follow(entries: Entries, cell: Cell, base: int) -> list[CellChange]:
    section = entries.titles[cell[0]] if len(entries.titles) > 1 else ""
    steps: list[CellChange] = []
    quiet, later = list[int](), entries.list_judged(base, cell)
    while later:
        (place, test), *later = later
        if test.verdict not in CHANGED:
            quiet.append(place)
            continue
        # Without a difference from the base an entry may only be noisy: it agrees if it differs from this one, too.
        others = (entries.list_cells(each, place).get(cell) for each in quiet)
        agreed = any(other and other[1].verdict is test.verdict for other in others)
        steps.append(CellChange(section, base + 1, place + 1, test, later[0][1] if later else None, agreed))
        if steps[-1].confirmation in (Confirmation.CONFIRMED, Confirmation.FIRST_DIFFERS):
            base, quiet = place, []
            later = entries.list_judged(base, cell)
    return steps
