"""Measure how much a network amplifies rounding: repeat the same training from slightly different weights.

This is done only for a flagged trial, since it takes as long as what it repeats; the answer is kept below the results
folder. The tolerances of a flagged trial are then wider if its network amplifies rounding (docs/tolerances.md).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path

from runner.ask import answered
from runner.gate.sizes import relative
from runner.input_files import write
from runner.launch import Launcher, LaunchFailed, Unavailable
from runner.results.assemble import first_losses_of, read_epochs
from workloads import weights
from workloads.records.events import Event, Events
from workloads.records.job import Installation, Job, Kind, TrialSpec
from workloads.records.result import Epoch, TrialResult

# Frameworks that can be asked, as they are installed now. A trial of another installation is not repeated.
Launchers = Mapping[tuple[str, Installation], Launcher]


def who_can_be_asked(specs: Sequence[TrialSpec], launchers: Mapping[str, Launcher | Unavailable]) -> Launchers:
    """Return the frameworks of a plan's trials, except those that cannot be started."""
    return {
        (spec.cell.framework, spec.installation): launcher
        for spec in specs
        if not isinstance(launcher := launchers[spec.cell.framework], Unavailable)
    }


@dataclass(frozen=True)
class Training:
    """One training from disturbed weights, up to the requested length."""

    first_losses: Sequence[float | None]
    epochs: Sequence[Epoch]


def with_disturbed_weights(spec: TrialSpec, results: Path, number: int) -> TrialSpec:
    """Return the same trial with disturbed weights as its input. Raises LaunchFailed if there are none."""
    archive = io.BytesIO()
    try:
        weights.save(archive, weights.disturbed(weights.load(results / spec.inputs["weights"].path), number))
        stem = f"{spec.task.workload}-seed{spec.draw.seed}-disturbed{number}"
        return replace(spec, inputs={**spec.inputs, "weights": write(results, stem, ".npz", archive.getbuffer())})
    except (OSError, KeyError, ValueError) as error:
        raise LaunchFailed(f"no weights to disturb: {error}") from error


class Disturbed:
    """Asks a framework for its trainings from disturbed weights, once per trial; earlier answers are read."""

    def __init__(self, results: Path, launchers: Launchers) -> None:
        self.results = results
        self.launchers = launchers
        self.known: dict[str, list[Training]] = {}

    def launcher(self, spec: TrialSpec) -> Launcher | None:
        """Return the launcher; None if the framework, as the trial had it, cannot be asked."""
        return self.launchers.get((spec.cell.framework, spec.installation))

    def trainings(self, trial: TrialResult, epochs: int) -> list[Training]:
        """Return trainings of this many epochs; 0 gives only the first steps. Empty if the framework gives none."""
        spec = replace(trial.spec, passes=replace(trial.spec.passes, epochs=epochs))
        job = Job(Kind.DISTURBED, spec)
        if job.id not in self.known:
            self.known[job.id] = []
            with suppress(LaunchFailed):  # its log is in the folder; the verdict stays as it would be without
                self.known[job.id] = _trainings(answered(job, job.folder(self.results), self.launcher(spec)))
        return self.known[job.id]


def _trainings(events: Events) -> list[Training]:
    starts = [place for place, event in enumerate(events) if event["event"] == Event.BUILT]
    trainings = []
    for start, end in pairwise([*starts, len(events)]):
        part = events[start:end]
        losses = first_losses_of(part)
        trainings.append(Training(losses[-1] if losses else [], read_epochs(part)))
    return trainings


def losses_moved(trial: TrialResult, trainings: Sequence[Training]) -> list[float]:
    """Return how much a disturbance moved the loss of each first step, relatively: the most over all trainings up to
    the next step. A value on a kink that one training meets at some step may be met a step earlier with rounding.
    """
    by_training = [map(relative, training.first_losses, trial.first_losses) for training in trainings]
    most = list(accumulate((max(step) for step in zip(*by_training, strict=False)), max))
    return [*most[1:], *most[-1:]]
