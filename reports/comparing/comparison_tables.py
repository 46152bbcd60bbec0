"""Build tables and charts of a comparison: differences, regressions, improvements, frameworks, quantities by cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from workloads.statistics import CONFIDENCE_PERCENT, ERROR, LEAST_SPREAD, POWER, Verdict

from ..charts import Chart, ChartSeries, Panel, SeriesKind
from ..condition_text import ABSENT
from ..drawing.chart_series import BATCH_AXIS, choose_scale
from ..frameworks import order_frameworks
from ..quantities import ACCURACY, Quantity
from ..sentences import note_corrected, say
from ..table import EMPTY, Table, TableCell, Theme
from ..tables import Place, count_decimals
from . import effect_words, headline
from .cell_tests import WORDS, AnyTest, CellTest, MeanTest, QuantityTest
from .comparison import Comparison, Ending, PairComparison

HOW = (
    f"B against A: the ratio B/A of geometric means and its {CONFIDENCE_PERCENT} % interval (Welch's t on "
    "logarithms; for two columns of one folder Student's, paired by repeat). 2.00 times as fast is twice as fast, 0.50 "
    "half as fast. For accuracy it is the difference B - A in percentage points (paired by repeat if the inputs are "
    "the same). The spread of a cell is taken to be that of all batch sizes of its framework and side, or its own if "
    f"that is larger. Repeats may agree better than {100 * LEAST_SPREAD:g} %, accuracies better than one test image. "
    "They are then taken to spread by that much. A framework's mean over its batch sizes has the cells' own spreads, "
    "and so has the mean over all frameworks. If such an interval contains 1, there is no significant difference.",
    "Better or worse: one-sided tests, corrected after Holm for the cells and means of the same quantity, separately "
    f"for each quantity and direction. At most {100 * ERROR:g} % of comparisons call anything of a quantity worse "
    f"that is not. The smallest loss found is the one that {100 * POWER:g} % of such comparisons would call worse.",
    "Two runs of the same code can differ by more than their repeats do, at another hour or next to other processes. "
    "Speed and energy are therefore tested between runs: each side needs several, and a value is a run's mean. All "
    "cells of a run may be correlated, so a framework's mean is taken within each run. With one run on a side, speed "
    "and energy are not judged.",
)
CHANGES = (
    (Verdict.WORSE, "regressions", "Regressions: worse in {}"),
    (Verdict.BETTER, "improvements", "Improvements: better in {}"),
)
CHANGED = (Verdict.WORSE, Verdict.BETTER)
CHART_HOW = (
    f"A point is the ratio B/A of one batch size, the bar its {CONFIDENCE_PERCENT} % interval; the line is at 1. A "
    "point without a bar has one repeat on a side."
)


def build_tables(comparison: Comparison) -> list[Table]:
    """Build all tables of a comparison; regressions and improvements come directly after the differences."""
    pairs = _numbered(comparison)
    tables = [table for pair, suffix in pairs for table in _means(pair, suffix)]
    tables += [_differences(pair, suffix) for pair, suffix in pairs]
    for verdict, name, title in CHANGES:
        if rows := _changes(comparison, verdict):
            first = comparison.pairs[0]
            of_section = ("Section",) if len(pairs) > 1 else ()
            head = (*of_section, "Framework", "Batch size", "Quantity", *first.names, first.against, "Adjusted p")
            title = title.format(first.names[1])
            tables.append(Table(name, title, head, tuple(rows), words=True, theme=Theme.CHANGES))
    for pair, suffix in pairs:
        tables += [_quantity(pair, name, suffix) for name in dict.fromkeys(cell.quantity.name for cell in pair.cells)]
    return tables


def _numbered(comparison: Comparison) -> list[tuple[PairComparison, str]]:
    """List each pair with the ending of its tables' and charts' names, "" for a single one."""
    several = len(comparison.pairs) > 1
    return [(pair, f"-{number}" if several else "") for number, pair in enumerate(comparison.pairs, start=1)]


def charts_of(comparison: Comparison) -> list[Chart]:
    """Build a chart of the ratios of each quantity that has a better direction."""
    return [
        _chart(pair, mean, suffix)
        for pair, suffix in _numbered(comparison)
        for mean in headline.compute_means(pair)
        if not mean.framework
    ]


def _chart(compared: PairComparison, mean: headline.GeometricMean, suffix: str) -> Chart:
    quantity = mean.quantity
    known = [cell for cell in compared.cells if cell.quantity is quantity and not math.isnan(cell.shift)]
    names = order_frameworks(cell.framework for cell in known)
    series = tuple(_series(name, [cell for cell in known if cell.framework == name]) for name in names)
    label = f"{effect_words.name_quantity(compared, quantity)}, {compared.against}"
    return Chart(
        name=f"compare-{quantity.name}{suffix}",
        title=_title(compared, quantity),
        x_name=BATCH_AXIS,
        y_label=_ratio_words(quantity),
        panels=(Panel("", series),),
        alt=f"{label}: a point for each framework and batch size. {mean.sentence}.",
        caption=CHART_HOW,
        provenance=compared.pair.title,
        x_scale=choose_scale(series),
        from_zero=False,
        line_at=1.0,
        theme=quantity.theme,
    )


def _series(framework: str, cells: Sequence[CellTest]) -> ChartSeries:
    by_size = sorted(cells, key=lambda cell: cell.batch_size)
    value, low, high = (
        tuple(None if math.isnan(number) else number for number in numbers)
        for numbers in zip(*(cell.effect for cell in by_size), strict=True)
    )
    sizes = tuple(float(cell.batch_size) for cell in by_size)
    barred = any(end is not None for end in low)
    return ChartSeries(
        cells[0].label,
        framework,
        SeriesKind.MEASURED,
        sizes,
        value,
        low if barred else (),
        high if barred else (),
    )


def _differences(compared: PairComparison, suffix: str) -> Table:
    pair, every = compared.pair, len(compared.pair.b.results)
    below = []
    if same := pair.same_trials:
        below.append(say("compare.same_trials", names=compared.names, every=every, same=same))
    if not pair.differences:
        below.append(say("compare.nothing_differs", names=compared.names))
    below += compared.uncompared
    for side, places in zip(compared.names, (compared.only_a, compared.only_b), strict=True):
        below += [say("compare.only_in", pair.named, side=side, places=list_sizes(places))] if places else []
    return Table(
        f"compare-conditions{suffix}",
        "What differs",
        ("What", *compared.names),
        tuple(tuple(map(TableCell, row)) for row in pair.differences),
        above=(pair.title,),
        below=tuple(below),
        words=True,
    )


def list_sizes(places: Iterable[Place]) -> dict[str, list[int]]:
    """List the batch sizes of each framework."""
    sizes: dict[str, list[int]] = {}
    for framework, batch_size in places:
        sizes.setdefault(framework, []).append(batch_size)
    return sizes


def _changes(comparison: Comparison, verdict: Verdict) -> list[tuple[TableCell, ...]]:
    """List for each pair the cells that ended differently, then the values, the largest change first."""
    rows: list[tuple[TableCell, ...]] = []
    for pair in comparison.pairs:
        for ending in (ending for ending in pair.endings if ending.verdict is verdict):
            status = TableCell("status", notes=(ending.reason,) if ending.reason else ())
            rows.append((*_place(ending), status, *map(TableCell, (ending.ended_a, ending.ended_b, ABSENT, ABSENT))))
        changed = [cell for cell in pair.cells if cell.verdict is verdict]
        for cell in sorted(changed, key=lambda cell: -abs(cell.loss_percent)):
            quantity, p = cell.quantity, cell.p_worse if verdict is Verdict.WORSE else cell.p_better
            medians = (_median(cell, median) for median in (cell.median_a, cell.median_b))
            effect = TableCell(describe_test(cell), cell.effect[0], cell.notes, cell.trials)
            name = TableCell(f"{quantity.name}, {quantity.unit}")
            rows.append((*_place(cell), name, *medians, effect, TableCell(f"{p:.2g}", p)))
    return rows


def _place(of: CellTest | Ending) -> tuple[TableCell, ...]:
    section = (TableCell(of.section),) if of.section else ()
    return *section, TableCell(of.label), TableCell(str(of.batch_size), of.batch_size)


def _median(cell: CellTest, median: float) -> TableCell:
    decimals = cell.quantity.decimals
    return TableCell(f"{median:z.{count_decimals(median) if decimals is None else decimals}f}", median)


def _means(compared: PairComparison, suffix: str) -> list[Table]:
    """Build a table with a row for each quantity of all frameworks together and of each; none without a mean."""
    tested = {(mean.framework, mean.quantity.name) for mean in compared.means}
    means = headline.compute_means(compared)
    alone = len({mean.framework for mean in (*means, *compared.means)} - {""}) == 1  # all are the same as this one
    rows = [
        _mean(mean, mean.cells, describe_test(mean), mean.doubt, EMPTY, EMPTY)
        for mean in means
        if (mean.framework, mean.quantity.name) not in tested and not (alone and not mean.framework)
    ]
    for each in compared.means:
        left = f"not tested at batch size {', '.join(map(str, each.untested))}" if each.untested else ""
        bounds = (_percent(each, percent) for percent in (each.at_most_percent, each.smallest_percent))
        words = describe_test(each) + _changed(each, ", ")
        rows.append(_mean(each, len(each.batch_sizes), words, left, *bounds))
    at_most = f"Loss at most ({100 - 100 * ERROR:g} %)"
    table = Table(
        f"compare-frameworks{suffix}",
        "Mean over the batch sizes",
        ("Framework", "Quantity", "Cells", compared.against, at_most, "Smallest loss found"),
        tuple(rows),
        above=(compared.pair.title, *_note_corrected(compared.means)),
        theme=Theme.CHANGES,
    )
    return [table] if rows else []


def _mean(mean: QuantityTest, cells: int, words: str, note: str, *bounds: TableCell) -> tuple[TableCell, ...]:
    effect = TableCell(words, mean.effect[0], (note,) if note else ())
    return TableCell(mean.label), TableCell(mean.quantity.name), TableCell(str(cells), cells), effect, *bounds


def _percent(mean: MeanTest, percent: float) -> TableCell:
    if not mean.is_judged:
        return TableCell(ABSENT, None, (WORDS[mean.verdict],))
    return TableCell(f"{percent:z.1f} {mean.unit}", percent)


def _quantity(compared: PairComparison, name: str, suffix: str) -> Table:
    cells = {(cell.framework, cell.batch_size): cell for cell in compared.cells if cell.quantity.name == name}
    first, sizes = next(iter(cells.values())), sorted({batch_size for _, batch_size in cells})
    rows = [
        (TableCell(compared.pair.named(framework)), *(_cell(cells.get((framework, size))) for size in sizes))
        for framework in order_frameworks(framework for framework, _ in cells)
    ]
    return Table(
        f"compare-{name}{suffix}",
        _title(compared, first.quantity),
        ("Framework / batch size", *map(str, sizes)),
        tuple(rows),
        above=(compared.pair.title, *_note_corrected(cells.values())),
        theme=first.quantity.theme,
    )


def _note_corrected(tests: Iterable[AnyTest]) -> tuple[str, ...]:
    overruled = [test for test in tests if test.overruled]
    excluded = dict.fromkeys("0" if test.in_points else "1" for test in overruled)
    return note_corrected([test.tests for test in overruled], " or ".join(excluded))


def _title(compared: PairComparison, quantity: Quantity) -> str:
    return f"{effect_words.name_quantity(compared, quantity)}, {compared.against}: {_ratio_words(quantity)}"


def _ratio_words(quantity: Quantity) -> str:
    how = "difference in percentage points" if quantity is ACCURACY else effect_words.TIMES[quantity.name]
    return f"{how} ({effect_words.BETTER[quantity.better]})"


def _cell(cell: CellTest | None) -> TableCell:
    if cell is None:
        return TableCell("not in both")
    if math.isnan(cell.shift):
        return TableCell(ABSENT, None, cell.notes or ("no value on one side",), cell.trials)
    return TableCell(effect_words.effect(cell) + _changed(cell, " "), cell.effect[0], cell.notes, cell.trials)


def _changed(test: AnyTest, before: str) -> str:
    """Return " worse" or " better", after `before`; "" without either."""
    return f"{before}{test.verdict.value}" if test.verdict in CHANGED else ""


def describe_test(test: QuantityTest) -> str:
    """Format "0.921 [0.905, 0.937] times as fast", "-0.28 [-0.90, +0.34] points"."""
    return f"{effect_words.effect(test)} {effect_words.TIMES[test.quantity.name]}"
