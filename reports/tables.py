"""Build the tables in the thesis's layout: one row per framework, batch sizes as columns.

A cell is the mean over the repeats that are ok, with its interval. If there is none, the cell says why; it is never
empty and never 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from workloads.records.disturbance import is_withheld
from workloads.records.figures import DIVERGED_STEP, FIGURES, Figure, FigureSpec, read_value
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.setting_words import OWN_CODE
from workloads.statistics import CONFIDENCE_PERCENT, Described, describe

from .conditions import Section
from .doubts import Doubt, find_doubts
from .frameworks import order_frameworks
from .quantities import Quantity
from .table import Table, TableCell

STATISTICS = ["n", "median", "min", "max", "mean", "low", "high", "cv_percent", "unit", "status"]
BEHIND = ["notes", "sources", "trials"]  # tuples of str
Place = tuple[str, int]  # framework, batch size
JOINED = "; "  # separator of a tuple's items in a file
NOT_RUN, UNKNOWN = "not_run", "unknown"
SHORT_WORDS = {UNKNOWN: "\N{EN DASH}", Status.OUT_OF_MEMORY.value: "OOM"}
MOST_DECIMALS = 9  # a file from elsewhere may hold 1e-300
MEASURED = frozenset((Status.OK, Status.DIVERGED, Status.CONTENDED))  # trials with figures to show


@dataclass(frozen=True)
class CellSummary(Described):
    """A framework at one batch size: STATISTICS and BEHIND of its repeats, and what else tables and charts show.

    `n` counts the values of the mean. The numbers are in `unit`; low and high are the interval of the mean.
    """

    median: float
    min: float
    max: float
    unit: str
    status: str  # "ok", "unknown" (the figure is null), "not_run", or how the trials ended, joined by "+"
    notes: tuple[str, ...]
    sources: tuple[str, ...]
    trials: tuple[str, ...]
    known: tuple[str, ...]  # trials that have a value
    doubts: frozenset[Doubt]  # explained by the notes
    errors: tuple[float, ...]  # possible errors of its values, where known


def find_figure(result: TrialResult, name: str) -> Figure:
    """Return the result's figure; if it has none, a null figure with the reason."""
    return result.figures.get(name) or Figure(None, "", reason=f"the stored result has no figure {name}")


def find_measured_figure(section: Section, quantity: Quantity) -> FigureSpec | None:
    """Return the figure shown for the quantity; None if the device has none, or it is rare and no trial has a value."""
    spec = quantity.figure(section.condition)
    if spec and spec.rare and all(find_figure(result, spec.name).value is None for result in section.results):
        return None
    return spec


def compute_cells(section: Section, quantity: Quantity) -> Mapping[Place, CellSummary]:
    """Map {(framework, batch size): its cell} for each framework and batch size in the section's results.

    Raises ValueError if the condition's device has no such quantity.
    """
    if quantity not in section.computed:
        section.computed[quantity] = _compute_cells(section, quantity)
    cells: Mapping[Place, CellSummary] = section.computed[quantity]
    return cells


def _compute_cells(section: Section, quantity: Quantity) -> Mapping[Place, CellSummary]:
    spec = quantity.figure(section.condition)
    if spec is None:
        raise ValueError(f"{quantity.name}: there is none on {section.condition.placement.device}")
    tried = group_by_place(section)
    return {
        (framework, batch_size): _with_attempts(summarise_cell(trials, spec), trials, section)
        for framework in order_frameworks(framework for framework, _ in tried)
        for batch_size in sorted({batch_size for _, batch_size in tried})
        for trials in [tried.get((framework, batch_size), [])]
    }


def _with_attempts(cell: CellSummary, trials: Sequence[TrialResult], section: Section) -> CellSummary:
    """Add a note for each trial that was tried more than once, so that earlier failures stay visible."""
    tried = [f"repeat {t.spec.draw.repeat}: {section.attempts[t.key]}" for t in trials if t.key in section.attempts]
    return replace(cell, notes=(*cell.notes, *tried))


def group_by_place(section: Section) -> Mapping[Place, list[TrialResult]]:
    """Map each framework and batch size that was tried to its repeats, all in the tables' order."""
    if Place not in section.computed:
        section.computed[Place] = _sort_into_places(section)
    sorted_results: Mapping[Place, list[TrialResult]] = section.computed[Place]
    return sorted_results


def _sort_into_places(section: Section) -> Mapping[Place, list[TrialResult]]:
    names = order_frameworks(result.spec.cell.framework for result in section.results)

    def order(result: TrialResult) -> tuple[int, int, int]:
        cell = result.spec.cell
        return names.index(cell.framework), cell.batch_size, result.spec.draw.repeat

    repeats: dict[Place, list[TrialResult]] = {}
    for result in sorted(section.results, key=order):
        repeats.setdefault((result.spec.cell.framework, result.spec.cell.batch_size), []).append(result)
    return repeats


def is_shown(result: TrialResult, spec: FigureSpec) -> bool:
    """True if the trial was measured and this figure counts.

    A diverged trial learnt nothing, and figures that other processes may have changed are withheld.
    """
    diverged = result.status is Status.DIVERGED
    if result.status is Status.CONTENDED:
        diverged = find_figure(result, DIVERGED_STEP.name).value is not None
    return result.status in MEASURED and not (spec.learnt and diverged) and not is_withheld(result, spec)


def summarise_cell(
    results: Sequence[TrialResult], spec: FigureSpec, read: Callable[[TrialResult, str], Figure] = find_figure
) -> CellSummary:
    """Summarise the repeats of a framework and batch size; without any, the cell is one that was not run."""
    ok = [(result, read(result, spec.name)) for result in results if is_shown(result, spec)]
    known = [(result, figure) for result, figure in ok if figure.value is not None]
    ended = [result for result in results if not is_shown(result, spec)]
    notes = [OWN_CODE] if any(result.spec.task.own_code for result in results) else []
    notes += sorted({f"unknown: {figure.reason}" for _, figure in ok if figure.value is None})
    values = [figure.value * spec.factor for _, figure in known if figure.value is not None]
    numbers, ends = describe(values, spec.bounds), values or [math.nan]
    doubted: dict[Doubt, str] = {}
    if known:
        status = "ok"
        notes += [f"repeat {result.spec.draw.repeat}: {describe_status(result.status)}" for result in ended]
        doubted = find_doubts(known, spec, numbers.cv_percent)
        notes += doubted.values()
    elif ok:
        status = UNKNOWN
    else:
        status = "+".join(sorted({str(result.status) for result in ended})) or NOT_RUN
    return CellSummary(
        **vars(numbers),
        median=statistics.median(ends),
        min=min(ends),
        max=max(ends),
        unit=spec.unit,
        status=status,
        notes=tuple(notes),
        sources=tuple(dict.fromkeys(figure.source for _, figure in known)),
        trials=tuple(result.spec.id for result in results),
        known=tuple(result.spec.id for result, _ in known),
        doubts=frozenset(doubted),
        errors=_errors([result for result, _ in known], spec),
    )


def _errors(results: Sequence[TrialResult], spec: FigureSpec) -> tuple[float, ...]:
    """Return the known values of the figure's `error`, in its unit."""
    if not spec.error:
        return ()
    error = FIGURES[spec.error]
    values = (read_value(result.figures, error) for result in results)
    return tuple(value * error.factor for value in values if value is not None)


def build_table(sections: Mapping[str, Section], quantity: Quantity, title: str) -> Table | str:
    """Build a table, a row per framework, a column per batch size and section; nothing is averaged over sections.

    The keys name the sections in the columns' heads: "" where there is one. An optional quantity without a value gives
    one line instead.
    """
    cells = {
        (framework, size, letter): cell
        for letter, section in sections.items()
        for (framework, size), cell in compute_cells(section, quantity).items()
    }
    most = max(cell.n for cell in cells.values())
    if quantity.optional and not most:
        return _say_why_empty(cells.values(), title)
    columns = sorted({(size, letter) for _, size, letter in cells})
    named, rows = next(iter(sections.values())).named, []
    for name in order_frameworks(framework for framework, _, _ in cells):
        row = (cells.get((name, size, letter)) for size, letter in columns)
        there = (
            TableCell(describe_status(NOT_RUN)) if cell is None else format_cell(cell, quantity.decimals, most)
            for cell in row
        )
        rows.append((TableCell(named(name)), *there))
    return Table(
        quantity.name,
        title,
        ("Framework / batch size", *(f"{size} {letter}".strip() for size, letter in columns)),
        tuple(rows),
        tidy(
            ({"framework": framework, "batch_size": size} | ({"condition": letter} if letter else {}), cell)
            for (framework, size, letter), cell in cells.items()
        ),
        below=(
            explain_cells(cell.n for cell in cells.values()),
            *_how_far_off(cells.values(), quantity),
            *_sources(cells.values()),
        ),
        theme=quantity.theme,
        by_size=True,
    )


def tidy(named: Iterable[tuple[dict[str, Any], CellSummary]]) -> pd.DataFrame:
    """Return cells as files hold them: first what names each, then STATISTICS, then BEHIND as one text each."""
    return pd.DataFrame(
        names
        | {name: getattr(cell, name) for name in STATISTICS}
        | {name: JOINED.join(getattr(cell, name)) for name in BEHIND}
        for names, cell in named
    )


def _say_why_empty(cells: Collection[CellSummary], title: str) -> str:
    """Write one line in place of a table of cells without a single value."""
    notes = dict.fromkeys(note for cell in cells for note in cell.notes)
    ended = dict.fromkeys(describe_status(cell.status) for cell in cells if cell.status != UNKNOWN)
    return f"No value: {title}: {'; '.join([*notes, *ended])}."


def explain_cells(counts: Iterable[int]) -> str:
    """Write the sentence below a table, from the n of its cells."""
    some = [count for count in counts if count]
    if not some:
        return "No trial gave a value."
    most = max(some)
    if most == 1:
        return "One trial per cell (n = 1): no statement about the spread between runs."
    fewer = " A cell with fewer repeats has its n." if min(some) < most else ""
    interval = f"in brackets its {CONFIDENCE_PERCENT} % interval (Student's t)"
    return f"Mean of n = {most} repeats, {interval}; lowest, highest and median are in the CSV.{fewer}"


def _how_far_off(cells: Iterable[CellSummary], quantity: Quantity) -> list[str]:
    """Return the line that says how far the trials' values may be off; none if no trial's error is known."""
    values = sorted(value for cell in cells for value in cell.errors)
    if not values:
        return []
    error = next(FIGURES[spec.error] for spec in quantity.figures if spec.error)
    ends = dict.fromkeys(f"{value:.{count_decimals(value)}f}" for value in (values[0], values[-1]))
    return [f"{error.label}: {' to '.join(ends)} {error.unit}."]


def _sources(cells: Iterable[CellSummary]) -> list[str]:
    sources = dict.fromkeys(source for cell in cells for source in cell.sources if source)
    return [f"Source: {' / '.join(sources)}."] if sources else []


def format_cell(cell: CellSummary, decimals: int | None, most: int, compact: bool = False) -> TableCell:
    """Format the mean, the interval if n > 1, and n if it is less than `most`.

    Without a value, the cell is a dash, or how the trials ended. `decimals` None = three significant digits of the
    mean. `compact` leaves out an interval that rounds to the mean.
    """
    if cell.n == 0:
        return TableCell(describe_status(cell.status), None, cell.notes, cell.trials)
    digits = count_decimals(cell.mean) if decimals is None else decimals
    text, low, high = (f"{value:z.{digits}f}" for value in (cell.mean, cell.low, cell.high))
    if cell.n > 1 and not (compact and low == text == high):
        text += f" [{low}, {high}]"
    text += f" n={cell.n}" if cell.n < most else ""
    return TableCell(text, cell.mean, cell.notes, cell.trials)


def count_decimals(value: float) -> int:
    """Number of decimals for three significant digits, MOST_DECIMALS at most; whole numbers from 100 on."""
    return max(0, min(MOST_DECIMALS, 2 - math.floor(math.log10(abs(value))))) if value else 0


def format_number(value: float) -> str:
    """Format three significant digits; whole numbers from 100 on."""
    return f"{value:z,.{count_decimals(value)}f}"


def describe_status(status: str) -> str:
    """Text of a cell without a value: a dash for `unknown`, OOM for `out_of_memory`, otherwise how trials ended."""
    return " / ".join(SHORT_WORDS.get(part, part.replace("_", " ")) for part in status.split("+"))
