"""A comparison as tables: what differs, what is worse, what is better, and each quantity cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from ..captions import ABSENT
from ..frameworks import display_name, ordered
from ..spread import CONFIDENCE_PERCENT
from ..table import Cell, Table
from ..tables import significant
from . import contrast
from .comparison import Compared, Comparison, Contrasted, Ending
from .contrast import ERROR, Verdict

HOW = (
    f"B against A: the ratio B/A of geometric means and its {CONFIDENCE_PERCENT} % interval (Welch's t on logarithms, "
    f"each cell for itself); of accuracy the difference B - A in percentage points (paired by repeat where the inputs "
    f"are the same). A cell is called better or worse where the test says so after the correction for many cells by "
    f"Benjamini and Hochberg at {100 * ERROR:g} %: of the cells so called at most {100 * ERROR:g} % are so by chance, "
    "in expectation, and where nothing differs that is the probability that any is.",
    "The test knows how repeats of one run differ from each other, not how runs differ: on a machine with neighbours "
    "two runs of the same code can differ by more than their repeats do.",
)
COLUMNS = (
    "section", "framework", "batch_size", "quantity", "unit", "n_a", "n_b", "median_a", "median_b", "effect", "value",
    "low", "high", "p", "p_adjusted", "verdict", "notes",
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
        told = "; ".join(f"{display_name(name)} at batch size {', '.join(own)}" for name, own in sizes.items())
        lines += [f"Only in {side}, not compared: {told}."] if told else []
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
        for cell in sorted(changed, key=lambda cell: -abs(contrast.worsening_percent(cell.measure, cell.effect))):
            quantity = cell.measure.quantity
            rows.append(
                (
                    *_place(cell),
                    Cell(f"{quantity.name}, {quantity.unit}"),
                    _median(cell, cell.median_a),
                    _median(cell, cell.median_b),
                    Cell(_effect(cell), cell.effect.value, cell.notes, cell.trials),
                    Cell(f"{cell.p_adjusted:.2g}", cell.p_adjusted),
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
    source = quantity.source(one.pair.a.condition)
    return Table(
        f"compare-{quantity.name}{suffix}",
        f"{source.label if source else quantity.name}: {how} ({better[measure.better]})",
        ("Framework / batch size", *map(str, sizes)),
        tuple(rows),
        _frame([_row(one.pair.title, cell) for cell in cells]),
        above=(one.pair.title,),
    )


def _cell(cell: Compared) -> Cell:
    if cell.verdict is Verdict.NO_VALUE:
        return Cell(ABSENT, None, cell.notes or ("no value on one side",), cell.trials)
    word = {Verdict.REGRESSION: " worse", Verdict.IMPROVEMENT: " better"}.get(cell.verdict, "")
    return Cell(_effect(cell) + word, cell.effect.value, cell.notes, cell.trials)


def _effect(cell: Compared) -> str:
    """ "0.921 [0.905, 0.937]" of a ratio, "-0.28 [-0.90, 0.34]" of points; without an interval where there is none."""
    found = cell.effect
    form = "+z.2f" if cell.measure.in_points else f".{max(3, significant(found.value))}f"
    if math.isnan(found.low):
        return f"{found.value:{form}}"
    return f"{found.value:{form}} [{found.low:{form}}, {found.high:{form}}]"


def _median(cell: Compared, median: float) -> Cell:
    decimals = cell.measure.quantity.decimals
    return Cell(f"{median:z.{significant(median) if decimals is None else decimals}f}", median)


def _place(of: Compared | Ending) -> tuple[Cell, Cell]:
    return Cell(display_name(of.framework)), Cell(str(of.batch_size), of.batch_size)


def _row(section: str, cell: Compared) -> dict[str, object]:
    found, quantity = cell.effect, cell.measure.quantity
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
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "p": found.p if cell.measure.better else None,
        "p_adjusted": cell.p_adjusted,
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
