"""Build the tables of a comparison: differences, regressions, improvements, each framework, each quantity by cell."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from workloads.statistics import CONFIDENCE_PERCENT, ERROR, LEAST_SPREAD, POWER, Verdict

from ..condition_text import ABSENT
from ..frameworks import display_name, ordered
from ..sentences import say
from ..table import Cell, Table, format_csv
from ..tables import JOINED, Place, significant
from . import effect_words, headline
from .cell_tests import WORDS, AnyTest, CellTest, MeanTest
from .comparison import Compared, Comparison, Ending

HOW = (
    f"B against A: the ratio B/A of geometric means and its {CONFIDENCE_PERCENT} % interval (Welch's t on "
    "logarithms; of two columns of one folder Student's, paired by repeat): 2.00 times as fast is twice as fast, 0.50 "
    "half as fast; of accuracy the difference B - A in percentage points (paired by repeat where the inputs are the "
    "same). The spread of a cell is taken to be that of all batch sizes of its framework and side, or its own where "
    f"that is larger; repeats that agree better than {100 * LEAST_SPREAD:g} %, of accuracies than one test image, are "
    "taken to spread by that much, for what they hide is unknown. A framework's mean over its batch sizes has the "
    "cells' own spreads, and so has the mean over all frameworks; where such an interval holds 1, no difference can be "
    "told.",
    "Better or worse: one-sided tests, corrected after Holm for the cells and means of the same quantity, each "
    f"quantity and direction for itself: at most {100 * ERROR:g} % of comparisons call anything of a quantity worse "
    f"that is not. The smallest loss found is the one that {100 * POWER:g} % of such comparisons would call worse.",
    "Two runs of the same code can differ by more than their repeats do: another hour, another neighbour. Speed and "
    "energy are therefore tested between runs: each side needs several, and a value is a run's mean. All cells of a "
    "run may hang together, so a framework's mean is taken within each. With one run on a side they are not judged.",
)
CELL_COLUMNS = [
    "section", "framework", "batch_size", "quantity", "unit", "n_a", "n_b", "median_a", "median_b", "effect", "value",
    "low", "high", "p_worse_adjusted", "p_better_adjusted", "verdict", "notes",
]  # fmt: skip
MEAN_COLUMNS = [
    "section", "framework", "quantity", "batch_sizes", "untested_batch_sizes", "effect", "value", "low", "high",
    "loss_percent", "loss_at_most_percent", "smallest_loss_found_percent", "p_worse_adjusted", "p_better_adjusted",
    "verdict",
]  # fmt: skip
CHANGES = (
    (Verdict.WORSE, "regressions", "Regressions: worse in {}"),
    (Verdict.BETTER, "improvements", "Improvements: better in {}"),
)
CHANGED = (Verdict.WORSE, Verdict.BETTER)


WORDING = "compare"


def tables_of(comparison: Comparison) -> list[Table]:
    """Build all tables of a comparison; regressions and improvements come directly after the differences."""
    several = len(comparison.pairs) > 1
    pairs = [(pair, f"-{number}" if several else "") for number, pair in enumerate(comparison.pairs, start=1)]
    tables = [table for pair, suffix in pairs if (table := headline.table(pair, suffix))]
    tables += [_differences(pair, suffix) for pair, suffix in pairs]
    for verdict, name, title in CHANGES:
        if rows := _changes(comparison, verdict):
            first = comparison.pairs[0]
            head = ("Framework", "Batch size", "Quantity", *first.names, first.against, "Adjusted p")
            tables.append(Table(name, title.format(first.names[1]), head, tuple(rows), words=True))
    for pair, suffix in pairs:
        tables += [_means(pair, suffix)] if pair.means else []
        tables += [_quantity(pair, name, suffix) for name in dict.fromkeys(cell.quantity.name for cell in pair.cells)]
    return tables


def cells_csv(comparison: Comparison) -> str:
    """Write CELL_COLUMNS, a row for each quantity of each cell, and a row "status" for each cell that ended
    differently.
    """
    rows: list[dict[str, object]] = []
    for pair in comparison.pairs:
        rows += [_ending_row(ending) | {"section": pair.pair.title} for ending in pair.endings]
        rows += [_cell_row(cell) | {"section": pair.pair.title} for cell in pair.cells]
    frame = pd.DataFrame(rows, columns=CELL_COLUMNS).astype({"n_a": "Int64", "n_b": "Int64"})
    return format_csv(frame)


def means_csv(comparison: Comparison) -> str:
    """Write MEAN_COLUMNS, a row for each framework and quantity of each pair; losses of accuracies in points."""
    rows = [_mean_row(mean) | {"section": pair.pair.title} for pair in comparison.pairs for mean in pair.means]
    return format_csv(pd.DataFrame(rows, columns=MEAN_COLUMNS))


def _differences(compared: Compared, suffix: str) -> Table:
    pair, every = compared.pair, len(compared.pair.b.results)
    below = []
    if same := pair.same_trials:
        below.append(say(WORDING, "same_trials", names=compared.names, every=every, same=same))
    if not pair.differences:
        below.append(say(WORDING, "nothing_differs", names=compared.names))
    below += compared.uncompared
    for side, places in zip(compared.names, (compared.only_a, compared.only_b), strict=True):
        below += [say(WORDING, "only_in", side=side, places=_by_framework(places))] if places else []
    return Table(
        f"compare-conditions{suffix}",
        "What differs",
        ("What", *compared.names),
        tuple(tuple(map(Cell, row)) for row in pair.differences),
        above=(pair.title,),
        below=tuple(below),
        words=True,
    )


def _by_framework(places: Iterable[Place]) -> dict[str, list[int]]:
    sizes: dict[str, list[int]] = {}
    for framework, batch_size in places:
        sizes.setdefault(framework, []).append(batch_size)
    return sizes


def _changes(comparison: Comparison, verdict: Verdict) -> list[tuple[Cell, ...]]:
    """List for each pair the cells that ended differently, then the values, the largest change first."""
    rows: list[tuple[Cell, ...]] = []
    for pair in comparison.pairs:
        for ending in (ending for ending in pair.endings if ending.verdict is verdict):
            status = Cell("status", notes=(ending.reason,) if ending.reason else ())
            rows.append((*_place(ending), status, *map(Cell, (ending.ended_a, ending.ended_b, ABSENT, ABSENT))))
        changed = [cell for cell in pair.cells if cell.verdict is verdict]
        for cell in sorted(changed, key=lambda cell: -abs(cell.loss_percent)):
            quantity, p = cell.quantity, cell.p_worse if verdict is Verdict.WORSE else cell.p_better
            medians = (_median(cell, median) for median in (cell.median_a, cell.median_b))
            effect = Cell(in_words(cell), cell.effect[0], cell.notes, cell.trials)
            name = Cell(f"{quantity.name}, {quantity.unit}")
            rows.append((*_place(cell), name, *medians, effect, Cell(f"{p:.2g}", p)))
    return rows


def _place(of: CellTest | Ending) -> tuple[Cell, Cell]:
    return Cell(display_name(of.framework)), Cell(str(of.batch_size), of.batch_size)


def _median(cell: CellTest, median: float) -> Cell:
    decimals = cell.quantity.decimals
    return Cell(f"{median:z.{significant(median) if decimals is None else decimals}f}", median)


def _means(compared: Compared, suffix: str) -> Table:
    """Build a table with a row for each framework and quantity that the gate decides on."""
    rows = []
    for mean in compared.means:
        left = (f"not tested at batch size {', '.join(map(str, mean.untested))}",) if mean.untested else ()
        rows.append(
            (
                Cell(display_name(mean.framework)),
                Cell(mean.quantity.name),
                Cell(str(len(mean.batch_sizes)), len(mean.batch_sizes)),
                Cell(in_words(mean) + _changed(mean, ", "), mean.effect[0], left),
                _percent(mean, mean.at_most_percent),
                _percent(mean, mean.smallest_percent),
            )
        )
    at_most = f"Loss at most ({100 - 100 * ERROR:g} %)"
    return Table(
        f"compare-frameworks{suffix}",
        "Each framework, mean over its batch sizes",
        ("Framework", "Quantity", "Batch sizes", compared.against, at_most, "Smallest loss found"),
        tuple(rows),
        above=(compared.pair.title,),
    )


def _percent(mean: MeanTest, percent: float) -> Cell:
    if not mean.is_judged:
        return Cell(ABSENT, None, (WORDS[mean.verdict],))
    return Cell(f"{percent:z.1f} {mean.unit}", percent)


def _quantity(compared: Compared, name: str, suffix: str) -> Table:
    cells = {(cell.framework, cell.batch_size): cell for cell in compared.cells if cell.quantity.name == name}
    first, sizes = next(iter(cells.values())), sorted({batch_size for _, batch_size in cells})
    rows = [
        (Cell(display_name(framework)), *(_cell(cells.get((framework, size))) for size in sizes))
        for framework in ordered(framework for framework, _ in cells)
    ]
    how = "difference in percentage points" if first.in_points else effect_words.TIMES[name].times
    label = effect_words.label(compared, first.quantity)
    return Table(
        f"compare-{name}{suffix}",
        f"{label}, {compared.against}: {how} ({effect_words.BETTER[first.quantity.better]})",
        ("Framework / batch size", *map(str, sizes)),
        tuple(rows),
        above=(compared.pair.title,),
    )


def _cell(cell: CellTest | None) -> Cell:
    if cell is None:
        return Cell("not in both")
    if math.isnan(cell.shift):
        return Cell(ABSENT, None, cell.notes or ("no value on one side",), cell.trials)
    return Cell(_effect(cell) + _changed(cell, " "), cell.effect[0], cell.notes, cell.trials)


def _changed(test: AnyTest, before: str) -> str:
    """Return " worse" or " better", after `before`; "" without either."""
    return f"{before}{test.verdict.value}" if test.verdict in CHANGED else ""


def in_words(test: AnyTest) -> str:
    """Format "0.921 [0.905, 0.937] times as fast", "-0.28 [-0.90, +0.34] points"."""
    return f"{_effect(test)} {'points' if test.in_points else effect_words.TIMES[test.quantity.name].times}"


def _effect(test: AnyTest) -> str:
    """Format a ratio, "0.921 [0.905, 0.937]", or points, "-0.28 [-0.90, +0.34]"; the interval only if there is one."""
    value, low, high = test.effect
    if not test.in_points:
        return effect_words.ratio(value, low, high)
    return f"{value:+z.2f} [{low:+z.2f}, {high:+z.2f}]" if test.estimate else f"{value:+z.2f}"


def _test_row(test: AnyTest) -> dict[str, object]:
    """Return the columns that cells and means share."""
    value, low, high = test.effect
    return {
        "framework": test.framework,
        "quantity": test.quantity.name,
        "effect": "difference_points" if test.in_points else "ratio",
        "value": value,
        "low": low,
        "high": high,
        "p_worse_adjusted": test.p_worse,
        "p_better_adjusted": test.p_better,
        "verdict": WORDS[test.verdict],
    }


def _cell_row(cell: CellTest) -> dict[str, object]:
    columns = ("batch_size", "n_a", "n_b", "median_a", "median_b")
    fields = {name: getattr(cell, name) for name in columns}
    return _test_row(cell) | fields | {"unit": cell.quantity.unit, "notes": _joined(cell.notes)}


def _mean_row(mean: MeanTest) -> dict[str, object]:
    return _test_row(mean) | {
        "batch_sizes": " ".join(map(str, mean.batch_sizes)),
        "untested_batch_sizes": " ".join(map(str, mean.untested)),
        "loss_percent": mean.loss_percent,
        "loss_at_most_percent": mean.at_most_percent,
        "smallest_loss_found_percent": mean.smallest_percent,
    }


def _ending_row(ending: Ending) -> dict[str, object]:
    return {
        "framework": ending.framework,
        "batch_size": ending.batch_size,
        "quantity": "status",
        "verdict": WORDS[ending.verdict],
        "notes": _joined(
            [*map(": ".join, zip(ending.names, (ending.ended_a, ending.ended_b), strict=True)), ending.reason]
        ),
    }


def _joined(notes: Iterable[str]) -> str:
    return JOINED.join(note for note in notes if note)
