"""Prepare all trials of a report for its page: their table, and details of each within a budget of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.records.disturbance import WITHHELD, withheld
from workloads.records.figures import EPOCH_TIME, FIGURES, FigureSpec
from workloads.records.files import LOG_FILE, RESULT_FILE, SAMPLES_FILE
from workloads.records.result import TrialResult

from ..attempts import Attempts, below_results
from ..conditions import Section
from ..quantities import ACCURACY, MEMORY, SPEED, STEP_TIME, USAGE
from ..report import Report
from ..tables import significant
from . import trial_files
from .chart_data import Indices
from .columns import columns, fitting, flat, rounded

IN_TABLE = (SPEED, STEP_TIME, USAGE, MEMORY, ACCURACY)
DIGITS, EPOCHS_DIGITS = 5, 4
MOST_READ = 2000  # trials whose samples and logs are read
# In order of priority: the file with all of it, and the largest share of the remaining space that it gets.
DETAILS = {
    "results": (RESULT_FILE, 0.9),
    "epochs": (RESULT_FILE, 0.5),
    "samples": (SAMPLES_FILE, 0.8),
    "logs": (LOG_FILE, 1),
}


@dataclass(frozen=True)
class Trial:
    """A stored result, its folder, its id, and its section's number from 1 (0: replaced).

    The key is the trial's id. If merged results folders share an id, "~2" and so on distinguish them.
    """

    result: TrialResult
    folder: Path
    id: str
    section: int
    key: str
    attempts: Attempts | None = None  # if there were several


def trials_of(report: Report) -> list[Trial]:
    """List all trials of the report, first repeats before later ones; an id stored twice gets a second key."""
    stored = report.stored
    section_of = {
        id(result): number
        for number, chapter in enumerate(report.chapters, 1)
        for result in (chapter.section.every if chapter.section else ())
    }
    seen: dict[str, int] = {}
    trials = []
    for result, folder in zip(stored.results, stored.folders, strict=True):
        name = result.spec.id  # computed once: it is a digest of the whole spec
        seen[name] = seen.get(name, 0) + 1
        key = name if seen[name] == 1 else f"{name}~{seen[name]}"
        trials.append(Trial(result, folder, name, section_of.get(id(result), 0), key, stored.attempts.get(folder)))
    return sorted(trials, key=lambda trial: trial.result.spec.draw.repeat)


def finder(trials: list[Trial], section: int | None = None) -> Indices:
    """Return a function from ids to indices, in one section if given; unknown ids have no index."""
    places: dict[str, list[int]] = {}
    for place, trial in enumerate(trials):
        if section in (None, trial.section):
            places.setdefault(trial.id, []).append(place)
    return lambda ids: sorted(place for name in dict.fromkeys(ids) for place in places.get(name, []))


def table_data(trials: list[Trial], sections: list[Section]) -> dict[str, Any]:
    """Build the columns of the table of all trials; figures have the units and decimals of the quantities' tables."""
    shown = dict.fromkeys(quantity.figure(section.condition) for quantity in IN_TABLE for section in sections)
    rows = [
        {
            "key": trial.key,
            "framework": trial.result.spec.cell.framework,
            "batch": trial.result.spec.cell.batch_size,
            "repeat": trial.result.spec.draw.repeat,
            "status": str(trial.result.status).replace("_", " "),
            "section": trial.section,
            "attempt": trial.attempts.place if trial.attempts else "",
        }
        for trial in trials
    ]
    return columns(rows) | {
        "figures": [
            {
                "label": spec.label,
                "unit": spec.unit,
                "decimals": spec.decimals,
                "values": [_value(trial.result, spec) for trial in trials],
            }
            for spec in shown
            if spec
        ],
    }


def _value(result: TrialResult, spec: FigureSpec) -> float | None:
    """Round a figure's value as its table does."""
    figure = result.figures.get(spec.name)
    if figure is None or figure.value is None or withheld(result, spec):
        return None
    value = figure.value * spec.factor
    shown: float | None = rounded(
        round(value, significant(value) if spec.decimals is None else spec.decimals) + 0.0, 15
    )
    return shown


def details(trials: list[Trial], room: int) -> tuple[dict[str, str], list[str]]:
    """Pack the details into `room` bytes; returns ({name of DETAILS: packed}, a sentence for everything left out).

    The first trials are kept.
    """
    read = trials[:MOST_READ]
    results = [_result(trial) for trial in trials]
    epochs = [_epochs(trial.result) for trial in trials]
    samples = [trial_files.samples(trial.folder, trial.result.spec.placement.threads) for trial in read]
    logs = [trial_files.log(trial.folder) for trial in read]
    every: dict[str, tuple[list[Any], Callable[[Sequence[Any]], Any]]] = {
        "results": (results, columns),
        "epochs": (epochs, list),
        "samples": (samples, list),
        "logs": (logs, list),
    }
    packed, left_out = {}, []
    for name, (file, share) in DETAILS.items():
        packed[name], count = fitting(*every[name], int(room * share))
        room -= len(packed[name])
        if count < len(trials):
            left_out.append(
                f"The {name} of {len(trials) - count:,} of {len(trials):,} trials, the last repeats, are left out of "
                f"this page for its size; they are in the trials' {file}."
            )
    return packed, left_out


def _result(trial: Trial) -> dict[str, Any]:
    """Flatten a result, so that its columns can be compressed."""
    result = trial.result
    nested = {
        "reason": result.reason,
        "started_at": result.started_at,
        "wall_s": rounded(result.wall_s, DIGITS),
        "folder": below_results(trial.folder),
        "attempts": str(trial.attempts) if trial.attempts else None,
        "spec": result.spec,
        "facts": result.facts,
        "machine": result.machine,
        "figures": {name: _figure(result, FIGURES[name]) for name in result.figures},
        "checks": {check.name: {"passed": check.passed, "detail": check.detail} for check in result.checks},
    }
    return flat(nested)


def _epochs(result: TrialResult) -> list[list[Any]]:
    """List seconds, training loss, test loss and test accuracy in percent, for each epoch."""
    untimed = withheld(result, EPOCH_TIME)
    epochs = [
        (None if untimed else epoch.train_s, epoch.train_loss, epoch.test_loss, 100 * epoch.test_accuracy)
        for epoch in result.epochs
    ]
    return [[rounded(value, EPOCHS_DIGITS) for value in values] for values in epochs]


def _figure(result: TrialResult, spec: FigureSpec) -> dict[str, Any]:
    figure = result.figures[spec.name]
    silent = WITHHELD if withheld(result, spec) else figure.reason
    value = None if figure.value is None or silent else rounded(float(figure.value) * spec.factor, DIGITS)
    known = {"source": figure.source, "samples": figure.samples, "reason": silent}
    return {"label": spec.label, "unit": spec.unit, "value": value} | known
