"""Show the one setting known to give a published row, and the earlier runs that found it."""

from __future__ import annotations

import pandas as pd

from ..conditions import Section
from ..frameworks import display_name
from ..sentences import say
from ..table import Cell, Table, Theme
from .publication import Calibration, Publication
from .reproduced import Reproduced

WORDING = "published"
TIDY = ["row", "batch_size", "run"]


def of_setting(section: Section, publication: Publication) -> Calibration | None:
    """Return the publication's calibration if the section has its setting, otherwise None."""
    calibration, condition = publication.calibration, section.condition
    same = (condition.task.workload, condition.task.dataset, condition.passes.epochs) == (
        publication.workload, publication.dataset, publication.epochs
    )  # fmt: skip
    if not calibration or not same:
        return None
    setting = calibration.optimizer, calibration.learning_rate, calibration.momentum
    every = [result.spec.task.optimizer for result in section.results]
    if condition.task.augment != "none" or any(each.changes_rate or each.weight_decay for each in every):
        return None
    return calibration if all((each.name, each.learning_rate, each.momentum) == setting for each in every) else None


def table(calibration: Calibration, ours: Reproduced) -> Table:
    """Build a table of the published row above those of the calibration; our values are only in the sentences."""
    metric = calibration.metric
    published = {size: value for (_, size), value in metric.published.items()}
    head = f"Published ({metric.series[0]}), {display_name(metric.framework)}"
    rows = [(Cell(head), *(Cell(f"{value:.{metric.decimals}f}", value) for value in published.values()))]
    tidy = [("published", size, 1, value) for size, value in published.items()]
    for row in calibration.rows:
        runs = _runs(calibration, row["optimizer"], row["learning_rate"])
        rows.append((Cell(f"Calibration, {row['label']}"), *(_cell(runs.get(size, [])) for size in published)))
        tidy += [(row["label"], size, run, value) for size in runs for run, value in enumerate(runs[size], start=1)]
    return Table(
        name="calibration",
        title=calibration.title,
        head=(f"{metric.label}, {metric.quantity.unit} / batch size", *map(str, published)),
        rows=tuple(rows),
        tidy=pd.DataFrame(tidy, columns=[*TIDY, metric.name]),
        above=(calibration.how,),
        below=(*calibration.conclusions, *_measured(ours)),
        theme=Theme.PUBLISHED,
        by_size=True,
    )


def _runs(calibration: Calibration, optimizer: str, learning_rate: float) -> dict[int, list[float]]:
    """Collect {batch size: one value per seed}."""
    runs = calibration.runs
    runs = runs[(runs["optimizer"] == optimizer) & (runs["learning_rate"] == learning_rate)]
    return {int(str(size)): rows[calibration.metric.name].to_list() for size, rows in runs.groupby("batch_size")}


def _cell(runs: list[float]) -> Cell:
    if not runs:
        return Cell("\N{EN DASH}", notes=("not tried",))
    return Cell(" / ".join(f"{value:.1f}" for value in runs), runs[0] if len(runs) == 1 else None)


def _measured(ours: Reproduced) -> list[str]:
    """Describe what this section measured, separately from the calibration."""
    metric, first = ours.metric, ours.metric.from_size
    distances = [(name, away, sizes) for name, (away, sizes) in ours.distances().items()]
    repeats = max((point.n for point in ours.points.values()), default=0)
    facts = {"distances": distances, "unit": metric.unit, "repeats": repeats}
    sentences = [say(WORDING, "calibrated", quantity=metric.quantity.name, from_size=first, **facts)]
    for size in sorted({size for _, size in metric.published if size < first}) if distances else ():
        values = [
            (name, f"{point.value:.{metric.decimals}f} {metric.quantity.unit}")
            for (name, its_size), point in sorted(ours.points.items())
            if its_size == size
        ]
        published = f"{metric.published[metric.framework, size]:.{metric.decimals}f} {metric.quantity.unit}"
        if values:
            sentences.append(say(WORDING, "below", size=size, values=values, published=published))
    return sentences
