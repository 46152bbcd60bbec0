"""Each framework's mean over its batch sizes, as a table and a file; and how a change is written."""

from __future__ import annotations

import math

import pandas as pd

from ..frameworks import display_name
from ..order import ERROR
from ..table import Cell, Table
from ..tables import significant
from . import gate
from .comparison import Comparison, Contrasted
from .contrast import Verdict
from .judging import Compared, Mean

WORDS = {Verdict.REGRESSION: " worse", Verdict.IMPROVEMENT: " better"}
AT_MOST = f"Loss at most ({100 - 100 * ERROR:g} %)"
COLUMNS = (
    "section", "framework", "quantity", "batch_sizes", "untested_batch_sizes", "effect", "value", "low", "high",
    "loss_percent", "loss_at_most_percent", "smallest_loss_found_percent", "p_worse_adjusted", "p_better_adjusted",
    "verdict",
)  # fmt: skip


def table(one: Contrasted, suffix: str) -> Table:
    """A row for each framework and quantity: what the gate asks of."""
    rows = []
    for mean in one.judged.means:
        measure, loss = mean.measure, mean.judgement.estimate.worsening(mean.measure.better)
        word = WORDS.get(mean.verdict, "")
        unit = "points" if measure.in_points else "%"
        left = (f"not tested at batch size {', '.join(map(str, mean.untested))}",) if mean.untested else ()
        at_most, smallest = measure.loss_percent(loss.at_most), gate.smallest_percent(mean)
        rows.append(
            (
                Cell(display_name(mean.framework)),
                Cell(measure.quantity.name),
                Cell(str(len(mean.batch_sizes)), len(mean.batch_sizes)),
                Cell(f"{effect(mean)}{word}", value(mean), left),
                Cell(f"{at_most:z.1f} {unit}", at_most),
                Cell(f"{smallest:.1f} {unit}", smallest),
            )
        )
    return Table(
        f"compare-frameworks{suffix}",
        "Each framework, mean over its batch sizes",
        ("Framework", "Quantity", "Batch sizes", "B against A", AT_MOST, "Smallest loss found"),
        tuple(rows),
        _tidy_of(one),
        above=(one.pair.title,),
    )


def tidy(comparison: Comparison) -> pd.DataFrame:
    """COLUMNS, a row for each framework and quantity of each pair; losses of accuracies in points."""
    return pd.concat([_tidy_of(one) for one in comparison.contrasts], ignore_index=True)


def _tidy_of(one: Contrasted) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    for mean in one.judged.means:
        measure, judgement = mean.measure, mean.judgement
        loss = judgement.estimate.worsening(measure.better)
        low, high = map(measure.shown, judgement.estimate.interval)
        rows.append(
            {
                "section": one.pair.title,
                "framework": mean.framework,
                "quantity": measure.quantity.name,
                "batch_sizes": " ".join(map(str, mean.batch_sizes)),
                "untested_batch_sizes": " ".join(map(str, mean.untested)),
                "effect": "difference_points" if measure.in_points else "ratio",
                "value": value(mean),
                "low": low,
                "high": high,
                "loss_percent": measure.loss_percent(loss.value),
                "loss_at_most_percent": measure.loss_percent(loss.at_most),
                "smallest_loss_found_percent": gate.smallest_percent(mean),
                "p_worse_adjusted": judgement.worse,
                "p_better_adjusted": judgement.better,
                "verdict": str(mean.verdict),
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def value(item: Compared | Mean) -> float:
    """The ratio, or the difference in points; NaN without one."""
    if isinstance(item, Mean):
        return item.measure.shown(item.judgement.estimate.value)
    return item.measure.shown(item.shift.value) if item.shift else math.nan


def loss_percent(item: Compared) -> float:
    """How much worse B is, in percent of A, of accuracy in points; NaN where a side has no value."""
    return item.measure.loss_percent(-item.measure.better * item.shift.value) if item.shift else math.nan


def effect(item: Compared | Mean) -> str:
    """ "0.921 [0.905, 0.937]" of a ratio, "-0.28 [-0.90, 0.34]" of points; without an interval where there is none."""
    number = value(item)
    form = "+z.2f" if item.measure.in_points else f".{max(3, significant(number))}f"
    if item.judgement is None:
        return f"{number:{form}}"
    low, high = map(item.measure.shown, item.judgement.estimate.interval)
    return f"{number:{form}} [{low:{form}}, {high:{form}}]"
