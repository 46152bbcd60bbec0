"""Compare cells with a baseline along one axis, in pairs of repeats; in a section: batch sizes, a framework's modes.

Batch sizes: the baseline is the one asked for. Without one, the table appears if a section has neighbours. Neighbours
are batch sizes that differ by less than NEIGHBOURS_PERCENT, as 127, 128 and 129. Each is compared with the power of two
among them, otherwise with the smallest. Modes: each column in another profile or precision is compared with the same
build's default in float32. Axes between sections: `section_axes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from workloads.conditions import read_mode
from workloads.records.build import Mode, column_of
from workloads.records.result import TrialResult
from workloads.statistics import (
    CONFIDENCE_PERCENT,
    ERROR,
    LEAST_SPREAD,
    Verdict,
    accuracy_step,
    cut_interval,
    estimate_mean,
    holm,
    is_overruled,
    judge,
    mean_interval,
    ratio_interval,
)

from . import tables
from .comparing import effect_words
from .condition_text import ABSENT
from .conditions import Condition, Section
from .frameworks import FrameworkNames, order_frameworks
from .load import ReportError
from .neighbours import FASTER
from .order import IN_THIS_RUN
from .quantities import ACCURACY, MEMORY, SPEED, Quantity
from .sentences import listed, note_corrected
from .table import Table, TableCell, Theme

NEIGHBOURS_PERCENT = 10
ONCE = f"One repeat: the ratios were seen {IN_THIS_RUN}, and show no difference between batch sizes."
NO_PAIR = "no repeat has a speed at both batch sizes"

Trials = Sequence[TrialResult]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis along which cells are compared. `pair_by` returns what the two trials of a pair have in common.

    `columns` are those of its CSV, of which `value` is the ratio or difference.
    """

    name: str
    title: str
    quantities: tuple[Quantity, ...]
    pair_by: Callable[[TrialResult], object]
    how: str
    value: str = "ratio"
    columns: tuple[str, ...] = ()

    def tidy(self, found: Sequence[CellContrast], more: Sequence[Mapping[str, object]] = ()) -> pd.DataFrame:
        """Build the data frame of the CSV, with a row per contrast; `more` are columns that only this axis has."""
        rows = [each.row | {self.value: each.value} for each in found]
        frame = pd.DataFrame([{**row, **others} for row, others in zip(rows, more or [{}] * len(rows), strict=True)])
        return frame[list(self.columns)]


@dataclass(frozen=True)
class CellContrast:
    """A cell compared with its baseline in one quantity, from `n` pairs.

    `value` is the ratio of geometric means, for accuracy the mean difference in points; NaN without a pair. The
    interval and the two-sided p are NaN below two pairs. `trials` are those of each pair, the cell's first.
    """

    framework: str
    quantity: Quantity
    batch_size: int
    n: int
    value: float
    low: float
    high: float
    p: float
    trials: tuple[str, ...]
    tests: int = 1  # that p is corrected for

    @property
    def verdict(self) -> Verdict:
        """Verdict by p; BETTER is above the baseline."""
        above = self.value if self.quantity is ACCURACY else self.value - 1
        return judge((above, math.nan, math.nan), self.p)

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Value with the ends of its interval."""
        return self.value, self.low, self.high

    @property
    def row(self) -> dict[str, object]:
        """Columns that an axis may show."""
        return {
            "framework": self.framework,
            "batch_size": self.batch_size,
            "quantity": self.quantity.name,
            "unit": _unit(self.quantity),
            "n": self.n,
            "low": self.low,
            "high": self.high,
            "p_corrected": self.p,
            "verdict": FASTER.get(self.verdict),
            "trials": tables.JOINED.join(self.trials),
        }


def pair_by_repeat(result: TrialResult) -> object:
    """Pair trials of the same repeat."""
    return result.spec.draw.repeat


def pair_by_inputs(result: TrialResult) -> object:
    """Pair trials with the same seeds that read the same bytes."""
    return result.spec.draw, *sorted((name, file.sha256) for name, file in result.spec.inputs.items())


def compute_contrast(
    own: Trials, baseline: Trials, axis: Axis, quantity: Quantity, condition: Condition, ideal: float = 1.0
) -> CellContrast:
    """Compare the trials of one cell with those of its baseline, whose values are first multiplied by `ideal`."""
    sides = [_values(side, axis, quantity, condition) for side in (own, baseline)]
    pairs = [(each, sides[1][key]) for key, each in sides[0].items() if key in sides[1]]
    if quantity is ACCURACY:
        task = condition.task
        values, least = [a - b for (_, a), (_, b) in pairs], accuracy_step(task.dataset, task.source)
        effect = cut_interval(mean_interval(values, least), quantity.figures[0].difference_bounds)
    else:
        values, least = [math.log(a / (ideal * b)) for (_, a), (_, b) in pairs], LEAST_SPREAD
        effect = ratio_interval(values, least)
    p = estimate_mean(values, least).p_apart if len(values) > 1 else math.nan
    cell = own[0].spec.cell
    trials = tuple(trial for pair in pairs for trial, _ in pair)
    return CellContrast(cell.framework, quantity, cell.batch_size, len(pairs), *effect, p, trials)


def _values(side: Trials, axis: Axis, quantity: Quantity, condition: Condition) -> dict[object, tuple[str, float]]:
    """Map what makes a pair to (trial, its value in the quantity's unit); a ratio needs a value above 0."""
    spec = quantity.figure(condition)
    values: dict[object, tuple[str, float]] = {}
    for result in side:
        value = tables.find_figure(result, spec.name).value if spec and tables.is_shown(result, spec) else None
        if spec and value is not None and (quantity is ACCURACY or value > 0):
            values[axis.pair_by(result)] = result.spec.id, value * spec.factor
    return values


MODES = Axis(
    name="modes",
    title="Effect of tuning and precision: each column relative to the same framework's default in float32",
    quantities=(SPEED, MEMORY, ACCURACY),
    pair_by=pair_by_inputs,
    how="Speed and memory are multiples of the default's: 2.00 is twice. Accuracy is the difference in percentage "
    "points. Repeats with the same inputs are paired; with two or more the "
    f"{CONFIDENCE_PERCENT} % interval of their mean (of speed and memory, of the logarithms) is in brackets.",
    value="mean",
    columns=("framework", "batch_size", "quantity", "unit", "n", "mean", "low", "high", "trials"),
)


def build_mode_table(section: Section) -> Table | None:
    """Build the table of modes; None if all columns train in one."""
    places, condition, found = tables.group_by_place(section), section.condition, list[CellContrast]()
    for (framework, size), results in places.items():
        usual = places.get((column_of(framework).installed, size))
        if read_mode(results[0]) != Mode() and usual:
            found += [compute_contrast(results, usual, MODES, quantity, condition) for quantity in MODES.quantities]
    cells = {(each.framework, each.quantity, each.batch_size): each for each in found if each.n}
    if not cells:
        return None
    sizes = sorted({size for *_, size in cells})
    rows = []
    for name in order_frameworks(framework for framework, *_ in cells):
        for quantity in MODES.quantities:
            row = [cells.get((name, quantity, size)) for size in sizes]
            if (spec := quantity.figure(condition)) and any(row):
                label = TableCell(f"{spec.label}, {_unit(quantity)}")
                rows.append(
                    (
                        TableCell(section.named(name)),
                        label,
                        *(_mode(each) if each else TableCell(ABSENT) for each in row),
                    )
                )
    head = ("Framework", "", *map(str, sizes))
    tidy, below = MODES.tidy([*cells.values()]), (MODES.how,)
    return Table(MODES.name, MODES.title, head, tuple(rows), tidy, (), below, theme=Theme.MODES, keys=2, by_size=True)


def _unit(quantity: Quantity) -> str:
    return "points" if quantity is ACCURACY else "times the default"


def _mode(of: CellContrast) -> TableCell:
    sign = "+" if of.quantity is ACCURACY else ""
    interval = "" if math.isnan(of.low) else f" [{of.low:{sign}.2f}, {of.high:{sign}.2f}]"
    return TableCell(f"{of.value:{sign}.2f}{interval}", of.value, trials=of.trials)


BATCH_SIZES = Axis(
    name="batch-contrasts",
    title="Training speed relative to the baseline batch size (more is better)",
    quantities=(SPEED,),
    pair_by=pair_by_repeat,
    how="The speed of each repeat divided by the speed of the same repeat at the baseline: their geometric mean with "
    f"its {CONFIDENCE_PERCENT} % interval (Student's t on logarithms). p is two-sided, corrected after Holm within a "
    f"framework; the verdict is faster or slower if p is at most {ERROR:g}.",
    value="speed_ratio",
    columns=("framework", "batch_size", "baseline_batch_size", "n", "speed_ratio", "low", "high", "p_corrected",
             "verdict", "trials"),
)  # fmt: skip


def check_baseline(sections: Sequence[Section], baseline: int | None) -> None:
    """Check the baseline. Raises ReportError if no trial has that batch size."""
    sizes = sorted({result.spec.cell.batch_size for section in sections for result in section.results})
    if baseline is not None and baseline not in sizes:
        raise ReportError(f"--baseline-batch {baseline}: no trial has that batch size; there are {listed(sizes)}")


def map_neighbours(sizes: Iterable[int]) -> dict[int, int]:
    """Map {batch size: the baseline that it is compared with}."""
    groups: list[list[int]] = []
    for size in sorted(sizes):
        near = groups and 100 * (size - groups[-1][-1]) < NEIGHBOURS_PERCENT * groups[-1][-1]
        if near:
            groups[-1].append(size)
        else:
            groups.append([size])
    baselines: dict[int, int] = {}
    for group in groups:
        first = next((size for size in group if size.bit_count() == 1), group[0])
        baselines |= {size: first for size in group if size != first}
    return baselines


def build_batch_size_tables(section: Section, baseline: int | None) -> list[Table]:
    """Build the table; none if no baseline is given and no sizes are neighbours, or the baseline is not in this
    section.
    """
    places = tables.group_by_place(section)
    sizes = sorted({batch_size for _, batch_size in places})
    baselines = map_neighbours(sizes) if baseline is None else {size: baseline for size in sizes if size != baseline}
    found: list[CellContrast] = []
    if baseline is None or baseline in sizes:
        for name in order_frameworks(framework for framework, _ in places):
            tried = [(places[name, size], places.get((name, base), [])) for size, base in baselines.items()
                     if (name, size) in places]  # fmt: skip
            found += correct([compute_contrast(*sides, BATCH_SIZES, SPEED, section.condition) for sides in tried])
    return [_batch_table(found, baselines, section.named)] if found else []


def correct(family: Sequence[CellContrast]) -> list[CellContrast]:
    """Correct the p values of a family after Holm."""
    tests = sum(not math.isnan(each.p) for each in family)
    return [replace(each, p=p, tests=tests) for each, p in zip(family, holm([each.p for each in family]), strict=True)]


def _batch_table(found: Sequence[CellContrast], baselines: Mapping[int, int], named: FrameworkNames) -> Table:
    rows = []
    for each in found:
        base, shown = baselines[each.batch_size], TableCell(ABSENT, None, (NO_PAIR,))
        if each.n:
            text = " ".join(filter(None, (effect_words.format_ratio(*each.ratio), FASTER.get(each.verdict))))
            shown = TableCell(text, each.value, trials=each.trials)
        sizes = (TableCell(str(each.batch_size), each.batch_size), TableCell(str(base), base))
        p = TableCell(ABSENT if math.isnan(each.p) else f"{each.p:.2g}", each.p)
        rows.append((TableCell(named(each.framework)), *sizes, shown, TableCell(str(each.n), each.n), p))
    head = ("Framework", "Batch size", "Baseline", "Times as fast", "Repeats", "Corrected p")
    below = BATCH_SIZES.how if any(each.n > 1 for each in found) else ONCE
    tidy = BATCH_SIZES.tidy(found, [{"baseline_batch_size": baselines[each.batch_size]} for each in found])
    overruled = [each.tests for each in found if is_overruled(each.low - 1, each.high - 1, each.p)]
    above = note_corrected(overruled, "1")
    return Table(BATCH_SIZES.name, BATCH_SIZES.title, head, tuple(rows), tidy, above, (below,), theme=Theme.SPEED)
