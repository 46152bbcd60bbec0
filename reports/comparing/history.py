"""Follow each cell over commits: a step counts where an independent second run shows it, too.

Entries are results folders in the order in which they were measured. Each is compared with the last confirmed level:
the first entry, or the last one at which a step of this cell was confirmed. A single run that was disturbed is
therefore no step, and neither is the return from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ..load import ReportError
from . import comparison
from .cell_tests import CellTest
from .comparison import PairComparison
from .comparison_tables import CHANGED
from .sides import ReadSide, read_side

Cell = tuple[str, str, int, str]  # title of the task, framework, batch size, quantity


class Confirmation(StrEnum):
    """Outcome of a change."""

    CONFIRMED = "confirmed"
    REFUTED = "not confirmed"
    AWAITED = "awaits a second run"


@dataclass(frozen=True)
class CellChange:
    """Change of a cell in entry `place` against entry `base`, counted from 1.

    `again` is the same cell of the entry after `place`, against the same base; None if there is none yet.
    """

    base: int
    place: int
    test: CellTest
    again: CellTest | None

    @property
    def confirmation(self) -> Confirmation:
        """Outcome: confirmed if the second run shows it, too, in the same direction."""
        if self.again is None:
            return Confirmation.AWAITED
        same = self.again.verdict is self.test.verdict
        return Confirmation.CONFIRMED if same else Confirmation.REFUTED


Compared = dict[Cell, tuple[PairComparison, CellTest]]  # each cell with the pair of sections that it is of


@dataclass
class Entries:
    """Entries in the order of their first trials; each comparison of two of them is made once."""

    sides: tuple[ReadSide, ...]
    made: dict[tuple[int, int], Compared] = field(default_factory=dict)

    def list_cells(self, base: int, place: int) -> Compared:
        """List the cells of two entries, counted from 0. Raises ReportError if they have nothing in common."""
        if (base, place) not in self.made:
            pairs = comparison.compare_sides(self.sides[base], self.sides[place]).pairs
            titles = [each.pair.title for each in pairs]
            self.made[base, place] = {
                (title, cell.framework, cell.batch_size, cell.quantity.name): (each, cell)
                for title, each in zip(titles, pairs, strict=True)
                for cell in each.cells
            }
        return self.made[base, place]


def read_entries(folders: Sequence[Path]) -> Entries:
    """Read results folders. Raises ReportError for fewer than two, one given twice, and as `compare`."""
    if len(folders) < 2:
        raise ReportError(f"{folders[0]}: one results folder has no history; give two or more")
    seen: set[Path] = set()
    for folder in folders:
        if folder.resolve() in seen:
            raise ReportError(f"{folder}: given twice; a history has each results folder once")
        seen.add(folder.resolve())
    read = [read_side(folder) for folder in folders]
    read.sort(key=lambda entry: min(result.started_at for result in entry[0].stored.results))
    return Entries(tuple(read))


def find_steps(entries: Entries) -> list[CellChange]:
    """Find the changes of every cell, by the order of entries. Raises ReportError if two have nothing in common."""
    count = len(entries.sides)
    every = dict.fromkeys(cell for place in range(1, count) for cell in entries.list_cells(0, place))
    steps = [step for cell in every for step in _follow(entries, cell)]
    return sorted(steps, key=lambda step: step.place)


def _follow(entries: Entries, cell: Cell) -> list[CellChange]:
    steps: list[CellChange] = []
    base, count = 0, len(entries.sides)
    for place in range(1, count):
        _, test = entries.list_cells(base, place).get(cell, (None, None))
        if test is None or test.verdict not in CHANGED:
            continue
        _, again = entries.list_cells(base, place + 1).get(cell, (None, None)) if place + 1 < count else (None, None)
        steps.append(CellChange(base + 1, place + 1, test, again))
        if steps[-1].confirmation is Confirmation.CONFIRMED:
            base = place
    return steps
