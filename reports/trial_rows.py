"""List every trial, and every attempt at it, as one row of plain columns: for pandas, R or a spreadsheet.

`python -m reports.trial_rows` prints docs/reference/columns.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workloads.conditions import BY_FRAMEWORK, SETTINGS
from workloads.records.check_name import CheckName
from workloads.records.disturbance import is_withheld
from workloads.records.figures import FIGURES, TARGET_TIME, FigureSpec
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status

from .attempts import NO_RESULT, UNREADABLE, strip_results_folder, trial_id
from .frameworks import FrameworkNames
from .load import Stored
from .table import make_frame

NAME = "trials"
SHOWN = {setting.field: setting for setting in SETTINGS if setting.column}


@dataclass(frozen=True)
class TrialRow:
    """One attempt. `shown`: the tables have its figures. `named` are the names of frameworks in the results."""

    trial: str
    attempt: int
    attempts: int
    shown: bool
    folder: Path
    status: str
    reason: str
    result: TrialResult | None
    named: FrameworkNames


@dataclass(frozen=True)
class TrialColumn:
    """A column; `value` computes a row's value, None if it has none."""

    name: str
    meaning: str
    value: Callable[[TrialRow], Any]


def _of_spec(name: str, meaning: str, value: Callable[[TrialSpec], Any]) -> TrialColumn:
    return TrialColumn(name, meaning, lambda row: value(row.result.spec) if row.result else None)


def _of_result(name: str, meaning: str, value: Callable[[TrialResult], Any]) -> TrialColumn:
    return TrialColumn(name, meaning, lambda row: value(row.result) if row.result else None)


def _of_setting(field: str) -> TrialColumn:
    return _of_spec(field, SHOWN[field].column, SHOWN[field].value)


def _of_figure(spec: FigureSpec) -> TrialColumn:
    def value(row: TrialRow) -> int | float | None:
        figure = row.result.figures.get(spec.name) if row.result else None
        return figure.value if figure and not (row.result and is_withheld(row.result, spec)) else None

    shown = f" (tables show {spec.unit})" if spec.factor != 1 else ""
    return TrialColumn(spec.name, f"{spec.label}{shown}", value)


def _gate(result: TrialResult) -> bool | None:
    """True if it computes what the others compute; None if that was not checked."""
    return next((check.passed for check in result.checks if check.name == CheckName.GATE), None)


_LISTED = (
    TrialColumn("trial", "id of the trial; with the attempt's number it names the row", lambda row: row.trial),
    TrialColumn("attempt", "number of the attempt, from 1", lambda row: row.attempt),
    TrialColumn("attempts", "number of attempts at this trial", lambda row: row.attempts),
    TrialColumn("shown", "whether tables and charts have this attempt's figures", lambda row: row.shown),
    TrialColumn("status", f"how it ended: {', '.join(Status)}; {NO_RESULT}; {UNREADABLE}", lambda row: row.status),
    TrialColumn("reason", "why it is not ok", lambda row: row.reason or None),
    TrialColumn("folder", "its folder, below the results folder", lambda row: strip_results_folder(row.folder)),
    _of_result("started_at", "ISO 8601, UTC", lambda result: result.started_at),
    _of_result("wall_s", "total time of the trial", lambda result: result.wall_s),
    _of_result("verified", "whether the gate found it equal to the others; empty: unknown", _gate),
    _of_spec("framework", "key of the framework, or of the build of it", lambda spec: spec.cell.framework),
    TrialColumn(
        "framework_label", "its name in tables", lambda row: row.result and row.named(row.result.spec.cell.framework)
    ),
    _of_result("framework_version", "reported version", lambda result: result.facts.get("framework_version")),
    *(_of_result(each.name, each.column, each.read) for each in BY_FRAMEWORK),
    _of_spec("batch_size", "images that go through the network at once", lambda spec: spec.cell.batch_size),
    _of_spec("global_batch_size", "images per update", lambda spec: spec.global_batch),
    _of_spec("allocator", "policy of the device's allocator", lambda spec: spec.cell.allocator),
    _of_setting("workload"),
    _of_setting("dataset"),
    _of_spec("optimizer", "the update rule", lambda spec: spec.task.optimizer.name),
    _of_spec("learning_rate", "at this batch size; the highest of a schedule", lambda spec: spec.rule.learning_rate),
    _of_spec("schedule", "schedule of the learning rate", lambda spec: spec.task.optimizer.schedule),
    _of_setting("augment"),
    _of_setting("profile"),
    _of_spec("precision", "precision of the layers", lambda spec: spec.task.precision),
    _of_setting("feed"),
    _of_spec("own_code", "whether the model is custom code", lambda spec: spec.task.own_code is not None),
    _of_setting("epochs"),
    _of_setting("device"),
    _of_setting("devices"),
    _of_setting("threads"),
    _of_spec("memory_limit_bytes", "memory limit of the worker", lambda spec: spec.placement.memory_limit_bytes),
    _of_spec("isolation", "venv, docker, here, or the caller's interpreter", lambda spec: spec.installation.isolation),
    _of_spec("repeat", "number of the repeat, from 0", lambda spec: spec.draw.repeat),
    _of_spec("seed", "seed of weights, order and masks", lambda spec: spec.draw.seed),
    _of_spec("study", "name of the study", lambda spec: spec.study),
    _of_result("cpu_model", "the processor", lambda result: result.machine.get("cpu_model")),
    _of_result("cores", "cores of the machine", lambda result: result.machine.get("cores")),
    _of_result("commit", "commit of this suite", lambda result: result.machine.get("commit")),
    *map(_of_setting, SHOWN),  # a setting that is not above has its column here
    *(_of_figure(spec) for spec in FIGURES.values() if spec is not TARGET_TIME),
)
COLUMNS = tuple({column.name: column for column in _LISTED}.values())


def list_rows(stored: Stored) -> Iterator[TrialRow]:
    """Yield a row for everything stored, including what cannot be read and what never ended."""
    told: set[Path] = set()
    for each in stored.attempts.values():
        for number, attempt in enumerate(each.every, start=1):
            status = str(attempt.result.status) if attempt.result else attempt.ended
            shown = number - 1 == each.shown
            told.add(attempt.folder)
            known = attempt.folder, status, attempt.reason, attempt.result
            yield TrialRow(each.trial, number, len(each.every), shown, *known, stored.named)
    for result, folder in zip(stored.results, stored.folders, strict=True):
        if folder not in told:
            reason = result.reason or ""
            yield TrialRow(trial_id(folder), 1, 1, True, folder, str(result.status), reason, result, stored.named)
    for item in stored.unreadable:
        if (folder := item.path.parent) not in told:
            yield TrialRow(trial_id(folder), 1, 1, False, folder, UNREADABLE, item.reason, None, stored.named)
    for folder in stored.unfinished:
        if folder not in told:
            why = "interrupted, or still running"
            yield TrialRow(trial_id(folder), 1, 1, False, folder, NO_RESULT, why, None, stored.named)


def build_frame(stored: Stored) -> pd.DataFrame:
    """Build a data frame with COLUMNS, in the order of trial and attempt."""
    every = sorted(list_rows(stored), key=lambda row: (row.trial, row.attempt, str(row.folder)))
    records = [{column.name: column.value(row) for column in COLUMNS} for row in every]
    return make_frame(records, [column.name for column in COLUMNS])


def write_documentation() -> str:
    """Write the text of docs/reference/columns.md."""
    lines = [f"| `{column.name}` | {column.meaning} |" for column in COLUMNS]
    return "\n".join(
        [
            "# Columns of `trials.csv` and `trials.parquet`",
            "",
            "Every report has both files, with a row for each trial and each attempt at it. From Python:",
            "",
            "    import reports",
            '    trials = reports.trials("results/quick")  # a pandas DataFrame',
            "",
            "Units are in the names; an unknown number is empty. `trial` is the folder's name below",
            "`trials/`, where the raw samples are. Made by `python -m reports.trial_rows`.",
            "",
            "| column | meaning |",
            "|---|---|",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    print(write_documentation(), end="")
