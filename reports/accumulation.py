"""Compare ways to split an update into several batches: what each saves in memory and costs in time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from workloads.networks import of_trial
from workloads.records.figures import FigureSpec
from workloads.records.result import TrialResult

from . import tables
from .condition_text import ABSENT
from .conditions import Condition, Section, Software
from .frameworks import display_name, ordered
from .load import Stored
from .quantities import ALLOCATOR_PEAK, MEMORY, SPEED, STEP_TIME, Quantity
from .table import Cell, Table

NAME, TITLE = "accumulation", "Accumulation: updates of {images} images in parts"
QUANTITIES = (SPEED, STEP_TIME, MEMORY, ALLOCATOR_PEAK)
BESIDE_WHOLE = (STEP_TIME, MEMORY)  # also shown as a ratio to the same update in one batch
HOW = (
    "Each row is the same update, of {images} images, in parts that go through the network one after the other; the "
    "optimizer makes one step for all of them. Step time is that of an update. The last two columns are parts of what "
    "the same framework needs without accumulation (1 x {images}): of means, without an interval. All else is "
    "alike: sections {numbers}."
)
NORMALISED = (
    "The network has BatchNorm, and an update accumulates several batches: statistics are of each batch, so the update "
    "is not that of one batch of the same images."
)


@dataclass(frozen=True)
class Split:
    """Trials of one framework whose updates consist of `accumulate` batches of this size."""

    framework: str
    accumulate: int
    batch_size: int
    section: int  # its number
    results: tuple[TrialResult, ...]


@dataclass(frozen=True)
class Shared:
    """Conditions shared by the rows of one table; frameworks may differ in software."""

    condition: Condition
    images: int  # of an update


def of_sections(sections: list[Section]) -> list[Table]:
    """Build a table for each number of images per update that some framework split in two or more ways, all
    else alike.
    """
    groups: dict[Shared, dict[tuple[str, Software], list[Split]]] = {}
    for number, section in enumerate(sections, start=1):
        accumulate = section.condition.task.accumulate
        for (framework, batch_size), results in tables.places(section).items():
            shared = Shared(_unsplit(section.condition), accumulate * batch_size)
            split = Split(framework, accumulate, batch_size, number, tuple(results))
            by_software = groups.setdefault(shared, {})
            by_software.setdefault((framework, section.software[framework]), []).append(split)
    made: list[Table] = []
    for shared, by_software in groups.items():
        splits = [split for several in by_software.values() if len(several) > 1 for split in several]
        if splits:
            name = "-".join([NAME, str(shared.images), *([str(len(made) + 1)] if made else [])])
            made.append(_table(name, shared, splits))
    return made


def remark(section: Section, stored: Stored) -> tuple[str, ...]:
    """Return a note if the section accumulates batches and its network has BatchNorm; otherwise nothing."""
    if section.condition.task.accumulate == 1:
        return ()
    folders = dict(zip(map(id, stored.results), stored.folders, strict=True))
    result = section.every[0]
    workload = of_trial(result.spec, folders[id(result)].parent.parent)
    if workload is None or not workload.statistic_shapes():
        return ()
    return (NORMALISED,)


def _unsplit(condition: Condition) -> Condition:
    """Return the condition without the way the update is split."""
    return replace(condition, task=replace(condition.task, accumulate=1))


def _table(name: str, shared: Shared, splits: list[Split]) -> Table:
    names = ordered(split.framework for split in splits)
    splits = sorted(splits, key=lambda split: (names.index(split.framework), split.accumulate, split.section))
    cells = [_cells(split, shared.condition) for split in splits]
    wholes = {s.framework: cell for s, cell in zip(splits, cells, strict=True) if s.accumulate == 1}
    most = {quantity: max(cell[quantity]["n"] for cell in cells) for quantity in QUANTITIES}
    rows = tuple(
        (
            Cell(display_name(split.framework)),
            Cell(f"{split.accumulate} x {split.batch_size}", split.accumulate),
            *(tables.shown(cell[quantity], quantity.decimals, most[quantity]) for quantity in QUANTITIES),
            *(_part(cell[quantity], wholes.get(split.framework, {}).get(quantity)) for quantity in BESIDE_WHOLE),
        )
        for split, cell in zip(splits, cells, strict=True)
    )
    figures = _figures(shared.condition)
    head = [f"{figure.label}, {figure.unit}" for figure in figures.values()]
    head += [f"{figures[quantity].label}, of 1 x {shared.images}" for quantity in BESIDE_WHOLE]
    numbers = ", ".join(map(str, sorted({split.section for split in splits})))
    how = HOW.format(images=shared.images, numbers=numbers)
    below = (f"{how} {tables.how_to_read_a_cell(most.values())}",)
    title = TITLE.format(images=shared.images)
    return Table(name, title, ("Framework", "Parts", *head), rows, _tidy(splits, cells), below=below, keys=2)


def _cells(split: Split, condition: Condition) -> dict[Quantity, dict[str, Any]]:
    return {quantity: tables.cell(split.results, spec) for quantity, spec in _figures(condition).items()}


def _figures(condition: Condition) -> dict[Quantity, FigureSpec]:
    """Map each quantity to its figure on the device; all of them exist on every device."""
    return {quantity: spec for quantity in QUANTITIES if (spec := quantity.figure(condition))}


def _part(cell: dict[str, Any], whole: dict[str, Any] | None) -> Cell:
    """Ratio to the mean of the whole update; a dash if either is unknown."""
    if whole is None or not cell["n"] or not whole["n"]:
        return Cell(ABSENT)
    part = cell["mean"] / whole["mean"]
    return Cell(f"{part:.2f}", part)


def _tidy(splits: list[Split], cells: list[dict[Quantity, dict[str, Any]]]) -> pd.DataFrame:
    """Build a data frame with a row for each split and quantity."""
    rows = [
        {"framework": s.framework, "batch_size": s.batch_size, "accumulate": s.accumulate, "quantity": q.name, **each}
        for s, by_quantity in zip(splits, cells, strict=True)
        for q, each in by_quantity.items()
    ]
    return tables.tidy(pd.DataFrame(rows), "accumulate", "quantity")
