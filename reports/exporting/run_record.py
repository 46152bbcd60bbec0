"""Say what an MLflow run of a trial holds: parameters, tags, metrics. Needs no MLflow."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from workloads.records.check_name import CheckName
from workloads.records.figures import FIGURES
from workloads.records.result import Key, TrialResult

from .. import tables
from ..condition_text import describe_condition
from ..conditions import group_into_sections, read_condition
from ..quantities import QUANTITIES
from ..trial_rows import COLUMNS, TrialRow
from .moments import find_life, read_columns, read_moments

PREFIX = "batchwise."
KEY, CONTENT, UNKNOWN = f"{PREFIX}key", f"{PREFIX}content", f"{PREFIX}unknown."
# Columns of trials.csv that say what became of a trial: tags. Those of figures are metrics, all others parameters.
OUTCOME = ("trial", "attempt", "attempts", "status", "reason", "started_at", "wall_s", "verified")
LEFT_OUT = ("shown", "folder")
WITHHELD = "other processes may have changed it"
REFUSED = re.compile(r"[^\w\-. :/]")  # by MLflow, in names
# Columns of the samples that MLflow's own monitor has, too: (its name, its unit over the column's).
AS_MLFLOW = {
    "gpu_percent": ("gpu_{}_utilization_percentage", 1.0),
    "device_memory_bytes": ("gpu_{}_memory_usage_megabytes", 1e-6),
    "power_mw": ("gpu_{}_power_usage_watts", 1e-3),
}


@dataclass(frozen=True, order=True)
class MetricPoint:
    """One value of a metric, at `ms` since 1970."""

    name: str
    value: float
    ms: int
    step: int = 0


@dataclass(frozen=True)
class RunRecord:
    """A run: what it holds of its trial alone. `key` finds it again."""

    key: str
    name: str
    experiment: str
    start_ms: int
    end_ms: int
    measured: bool
    params: dict[str, str]
    tags: dict[str, str]
    points: tuple[MetricPoint, ...]

    @cached_property
    def digest(self) -> str:
        """Digest of everything in it: a run with another one was written of another result."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


def build_record(row: TrialRow) -> RunRecord:
    """Build the record of a trial that has a result, from the result and the files in its folder."""
    result = row.result
    assert result is not None  # whoever calls it has left the others out
    values = {column.name: column.value(row) for column in COLUMNS if column.name not in LEFT_OUT}
    known = {name: value for name, value in values.items() if value is not None}
    described = {f"condition/{name}": words for name, words in describe_condition(read_condition(result)).items()}
    tags = {f"{PREFIX}{name}": str(known.get(name, "unknown")) for name in OUTCOME if name != "reason"}
    tags |= {f"{PREFIX}{name}": known[name] for name in ("reason",) if name in known}
    tags |= {f"{PREFIX}gate": check.detail for check in result.checks if check.name == CheckName.GATE}
    start_ms, end_ms = find_life(result)
    points = [MetricPoint(name, float(known[name]), end_ms) for name in FIGURES if name in known]
    for name, figure in result.figures.items():
        if name not in known:
            tags[UNKNOWN + name] = figure.reason or WITHHELD
    points += _list_curves(row, end_ms, tags)
    points += _list_samples(row, tags)
    node = result.machine.get("node")  # of a cluster, whose machines may run one trial at the same second
    return RunRecord(
        f"{result.spec.id} {result.started_at}{f' {node}' if node else ''}",
        result.spec.id,
        f"batchwise/{result.spec.study}",
        start_ms,
        end_ms,
        result.status in tables.MEASURED,
        {
            REFUSED.sub("", name): str(value)
            for name, value in (known | described).items()
            if name not in FIGURES and name not in OUTCOME
        },
        tags,
        tuple(points),
    )


def _list_curves(row: TrialRow, end_ms: int, tags: dict[str, str]) -> Iterator[MetricPoint]:
    """Yield the records of the epochs, step = epoch from 1; without their moments all at the trial's end."""
    assert row.result is not None
    try:
        moments = [each.evaluated for each in read_moments(row.folder).epochs]
    except ValueError as error:
        moments = []
        tags |= {f"{UNKNOWN}epoch_times": str(error)} if row.result.epochs else {}
    for number, epoch in enumerate(row.result.epochs, start=1):
        at = moments[number - 1] if number <= len(moments) else end_ms
        for name, value in vars(epoch).items():
            if value is None:
                tags[f"{UNKNOWN}epoch/{name}"] = f"no finite number in epoch {number}"
            else:
                yield MetricPoint(f"epoch/{name}", float(value), at, number)


def _list_samples(row: TrialRow, tags: dict[str, str]) -> Iterator[MetricPoint]:
    """Yield the raw samples, step = row of the file; by MLflow's own names where it has the quantity."""
    assert row.result is not None
    try:
        for column in read_columns(row.folder, len(row.result.spec.placement.others)):
            other = f"gpu_{column.gpu}_{column.name}" if column.gpu else column.name
            name, factor = AS_MLFLOW.get(column.name, (other, 1.0))
            for number, at, value in column.readings:
                yield MetricPoint(f"system/{name.format(column.gpu)}", value * factor, at, number)
    except ValueError as error:
        tags[f"{UNKNOWN}system"] = str(error)


def list_cells(results: Iterable[TrialResult]) -> dict[Key, list[MetricPoint]]:
    """Map each trial to the means of its cell with their 95 % intervals, in the figures' stored units.

    Of a cell with one value there is no interval. They are dated by the cell's last trial.
    """
    found: dict[Key, list[MetricPoint]] = {}
    for section in group_into_sections(results)[0]:
        for place, trials in tables.group_by_place(section).items():
            at = max(find_life(trial)[1] for trial in trials)
            points = []
            for quantity in QUANTITIES:
                spec = tables.find_measured_figure(section, quantity)
                cell = tables.compute_cells(section, quantity)[place] if spec else None
                if spec is None or cell is None or not cell.n:
                    continue
                ends = {"": cell.mean, "_low": cell.low, "_high": cell.high}
                points += [
                    MetricPoint(f"cell/{spec.name}{end}", value / spec.factor, at)
                    for end, value in ends.items()
                    if not math.isnan(value)
                ]
            found |= {trial.key: points for trial in trials}
    return found
