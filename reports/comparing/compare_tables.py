"""A comparison as tables: what differs, what is worse, what is better, and each quantity cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from workloads.records.intervals import CONFIDENCE_PERCENT

from ..condition_text import ABSENT
from ..frameworks import display_name, ordered
from ..order import ERROR
from ..spread import LEAST_SPREAD
from ..table import Cell, Table
from ..tables import significant
from . import mean_tables
from .comparison import Comparison, Contrasted, Ending
from .contrast import POWER, Verdict
from .judging import Compared
from .mean_tables import WORDS

HOW = (
    f"B against A: the ratio B/A of geometric means and its {CONFIDENCE_PERCENT} % interval (Welch's t on "
    "logarithms); of accuracy the difference B - A in percentage points (paired by repeat where the inputs are the "
    "same). The spread of a cell is taken to be that of all batch sizes of its framework and side, or its own where "
    f"that is larger; repeats that agree better than {100 * LEAST_SPREAD:g} %, of accuracies than one test image, are "
    "taken to spread by that much, for what they hide is unknown. A framework's mean over its batch sizes has the "
    "cells' own spreads.",
    "Better or worse: one-sided tests, corrected after Holm for the cells and means of the same quantity, each "
    f"quantity and direction for itself: at most {100 * ERROR:g} % of comparisons call anything of a quantity worse "
    f"that is not. The smallest loss found is the one that {100 * POWER:g} % of such comparisons would call worse.",
    "The test knows how repeats of one run differ from each other, not how runs differ: on a machine with neighbours "
    "two runs of the same code can differ by more than their repeats do.",
)
COLUMNS = (
    "section", "framework", "batch_size", "quantity", "unit", "n_a", "n_b", "median_a", "median_b", "effect", "value",
    "low", "high", "p_worse_adjusted", "p_better_adjusted", "verdict", "notes",
)  # fmt: skip


def tables_of(comparison: Comparison) -> list[Table]:
    """All tables of a comparison, those of what is worse and better first after what differs."""
    several = len(comparison.contrasts) > 1
    found = [
        _differences(one, f"-{number}" if several else "") for number, one in enumerate(comparison.contrasts, start=1)
    ]
    found += [
        table
        for verdict, name, title in (
            (Verdict.REGRESSION, "regressions", "Regressions: worse in B"),
            (Verdict.IMPROVEMENT, "improvements", "Improvements: better in B"),
        )
        if (table := _changes(comparison, verdict, name, title)) is not None
    ]
    for number, one in enumerate(comparison.contrasts, start=1):
        suffix = f"-{number}" if several else ""
        if one.judged.means:
            found.append(mean_tables.table(one, suffix))
        for name in dict.fromkeys(cell.measure.quantity.name for cell in one.cells):
            found.append(_quantity(one, [cell for cell in one.cells if cell.measure.quantity.name == name], suffix))
    return found


def tidy(comparison: Comparison) -> pd.DataFrame:
    """COLUMNS, a row for each quantity of each cell, and one of quantity "status" for each that ended otherwise."""
    rows = []
    for one in comparison.contrasts:
        rows += [_ending_row(one.pair.title, ending) for ending in one.endings]
        rows += [_row(one.pair.title, cell) for cell in one.cells]
    return _frame(rows)


def _frame(rows: list[dict[str, object]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"n_a": "Int64", "n_b": "Int64"})


def _differences(one: Contrasted, suffix: str) -> Table:
    rows = one.pair.differences
    same = one.pair.same_trials
    every = len(one.pair.b.results)
    below = (
        [f"Of the {every} trials of B {same} are also in A: the same measurement, not a second one."] if same else []
    )
    below += [] if rows else ["Nothing that was recorded differs: B repeats A under the same conditions."]
    return Table(
        f"compare-conditions{suffix}",
        f"What differs: {one.pair.title}",
        ("What", "A", "B"),
        tuple(tuple(Cell(text) for text in row) for row in rows),
        pd.DataFrame(rows, columns=["what", "a", "b"]),
        below=(*below, *one.uncompared, *_only(one)),
        words=True,
    )


def _only(one: Contrasted) -> list[str]:
    """A line for each side that holds cells which the other does not."""
    lines = []
    for side, places in (("A", one.only_a), ("B", one.only_b)):
        sizes: dict[str, list[str]] = {}
        for framework, batch_size in places:
            sizes.setdefault(framework, []).append(str(batch_size))
        cells = "; ".join(f"{display_name(name)} at batch size {', '.join(own)}" for name, own in sizes.items())
        lines += [f"Only in {side}, not compared: {cells}."] if cells else []
    return lines


def _changes(comparison: Comparison, verdict: Verdict, name: str, title: str) -> Table | None:
    """None where there is none: the caller's count says so."""
    rows: list[tuple[Cell, ...]] = []
    tidied = []
    for one in comparison.contrasts:
        for ending in one.endings:
            if ending.verdict is verdict:
                ended = (Cell(ending.ended_a), Cell(ending.ended_b), Cell(ABSENT), Cell(ABSENT))
                notes = (ending.reason,) if ending.reason else ()
                rows.append((*_place(ending), Cell("status", notes=notes), *ended))
                tidied.append(_ending_row(one.pair.title, ending))
        changed = [cell for cell in one.cells if cell.verdict is verdict]
        for cell in sorted(changed, key=lambda cell: -abs(mean_tables.loss_percent(cell))):
            quantity, judgement = cell.measure.quantity, cell.judgement
            assert judgement is not None  # or it would have no such verdict
            p = judgement.worse if verdict is Verdict.REGRESSION else judgement.better
            rows.append(
                (
                    *_place(cell),
                    Cell(f"{quantity.name}, {quantity.unit}"),
                    _median(cell, cell.median_a),
                    _median(cell, cell.median_b),
                    Cell(mean_tables.effect(cell), mean_tables.value(cell), cell.notes, cell.trials),
                    Cell(f"{p:.2g}", p),
                )
            )
            tidied.append(_row(one.pair.title, cell))
    if not rows:
        return None
    head = ("Framework", "Batch size", "Quantity", "A", "B", "B against A", "Adjusted p")
    return Table(name, title, head, tuple(rows), _frame(tidied), words=True)


def _quantity(one: Contrasted, cells: list[Compared], suffix: str) -> Table:
    measure, sizes = cells[0].measure, sorted({cell.batch_size for cell in cells})
    quantity = measure.quantity
    by_place = {(cell.framework, cell.batch_size): cell for cell in cells}
    rows = []
    for framework in ordered(cell.framework for cell in cells):
        own = [by_place.get((framework, size)) for size in sizes]
        rows.append((Cell(display_name(framework)), *(_cell(cell) if cell else Cell("not in both") for cell in own)))
    how = "difference B - A, percentage points" if measure.in_points else "ratio B/A"
    better = {1: "more is better", -1: "less is better", 0: "neither more nor less is better: not judged"}
    spec = quantity.figure(one.pair.a.condition)
    return Table(
        f"compare-{quantity.name}{suffix}",
        f"{spec.label if spec else quantity.name}: {how} ({better[measure.better]})",
        ("Framework / batch size", *map(str, sizes)),
        tuple(rows),
        _frame([_row(one.pair.title, cell) for cell in cells]),
        above=(one.pair.title,),
    )


def _cell(cell: Compared) -> Cell:
    if cell.shift is None or math.isnan(cell.shift.value):
        return Cell(ABSENT, None, cell.notes or ("no value on one side",), cell.trials)
    return Cell(
        mean_tables.effect(cell) + WORDS.get(cell.verdict, ""), mean_tables.value(cell), cell.notes, cell.trials
    )


def _median(cell: Compared, median: float) -> Cell:
    decimals = cell.measure.quantity.decimals
    return Cell(f"{median:z.{significant(median) if decimals is None else decimals}f}", median)


def _place(of: Compared | Ending) -> tuple[Cell, Cell]:
    return Cell(display_name(of.framework)), Cell(str(of.batch_size), of.batch_size)


def _row(section: str, cell: Compared) -> dict[str, object]:
    quantity, judgement = cell.measure.quantity, cell.judgement
    low, high = map(cell.measure.shown, judgement.estimate.interval) if judgement else (math.nan, math.nan)
    return {
        "section": section,
        "framework": cell.framework,
        "batch_size": cell.batch_size,
        "quantity": quantity.name,
        "unit": quantity.unit,
        "n_a": cell.n_a,
        "n_b": cell.n_b,
        "median_a": cell.median_a,
        "median_b": cell.median_b,
        "effect": "difference_points" if cell.measure.in_points else "ratio",
        "value": mean_tables.value(cell),
        "low": low,
        "high": high,
        "p_worse_adjusted": judgement.worse if judgement else None,
        "p_better_adjusted": judgement.better if judgement else None,
        "verdict": str(cell.verdict),
        "notes": _joined(cell.notes),
    }


def _ending_row(section: str, ending: Ending) -> dict[str, object]:
    return {
        "section": section,
        "framework": ending.framework,
        "batch_size": ending.batch_size,
        "quantity": "status",
        "verdict": str(ending.verdict),
        "notes": _joined([f"A: {ending.ended_a}", f"B: {ending.ended_b}", ending.reason]),
    }


def _joined(notes: Iterable[str]) -> str:
    return "; ".join(note for note in notes if note)
