"""Measure the gradient noise scale of each framework, at weights that the first of them has trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from runner.ask import answered
from runner.batch_size.noise_points import Measured, apart, finder, pooled
from runner.input_files import write_array
from runner.launch import Launcher, LaunchFailed, Unavailable
from workloads.datasets import file_digest
from workloads.noise_scale import BATCHES, HELD, PARTS, PROGRESS, STEPS, WINDOW, WINDOWS, draw
from workloads.records import network
from workloads.records.batch_answers import Caution, Noise
from workloads.records.build import REDUCED, column_of
from workloads.records.events import Event, Events
from workloads.records.files import EVENTS_FILE
from workloads.records.job import ON_DEMAND, InputFile, Job, Kind, TrialSpec
from workloads.spec import Workload

SAME, SAME_MEAN = 1e-5, 1e-3  # most that rounding changes, relative: a squared norm, and with a few kinks their mean
PROBES = len(PROGRESS) * STEPS * PARTS + WINDOWS * WINDOW
PROBE_LIMIT_S = 1.0  # on average


def noise(
    specs: Sequence[TrialSpec], launchers: Mapping[str, Launcher | Unavailable], results: Path
) -> dict[str, Noise]:
    """Return each framework's noise scale, or the reason why it has none, for trials that differ only in their
    framework.

    The first framework that can does the training. One that trained in an earlier run of this goes first. Earlier
    answers are read from the disk.
    """
    asking = Asking(results, launchers)
    answers = {spec.cell.framework: asking.of(spec) for spec in sorted(specs, key=asking.has_not_trained)}
    return {spec.cell.framework: answers[spec.cell.framework] for spec in specs}


class Asking:
    """Questions to all frameworks. `held` are the weights, once a framework has trained."""

    def __init__(self, results: Path, launchers: Mapping[str, Launcher | Unavailable]) -> None:
        self.results, self.launchers = results, launchers
        self.held: dict[str, InputFile] = {}
        self.trained_by: str | None = None
        self.first: list[Measured] = []

    def job(self, spec: TrialSpec) -> Job:
        """Return the job with the images of every batch, and the weights if there are any."""
        spec = replace(spec, cell=replace(spec.cell, allocator=ON_DEMAND))
        images, seed = np.load(self.results / spec.inputs["order"].path, mmap_mode="r").shape[1], spec.draw.seed
        batches = write_array(self.results, f"{spec.task.dataset}-noise-seed{seed}", draw(images, seed))
        inputs = {**spec.inputs, BATCHES: batches, **self.held}
        return Job(Kind.NOISE, replace(spec, inputs=inputs, timeout_s=spec.timeout_s + PROBES * PROBE_LIMIT_S))

    def has_not_trained(self, spec: TrialSpec) -> bool:
        """True if no earlier run stored weights that it trained."""
        return not (self.job(spec).folder(self.results) / f"{HELD[-1]}.npz").is_file()

    def of(self, spec: TrialSpec) -> Noise:
        """Return one framework's answer."""
        framework = spec.cell.framework
        if spec.task.own_code is not None:
            return Noise(reason="own code: nobody knows its gradients")
        job, launcher = self.job(spec), self.launchers[framework]
        folder = job.folder(self.results)
        try:
            events = answered(job, folder, None if isinstance(launcher, Unavailable) else launcher)
            if not self.held:
                self.held = handed_on(events, folder, self.results)
                self.trained_by = framework
            answer = self._read(events, framework, spec.global_batch)
        except LaunchFailed as error:
            return Noise(reason=launcher.reason if isinstance(launcher, Unavailable) else str(error))
        except (ValueError, IndexError) as error:  # its events are not of one training
            return Noise(reason=f"{folder}: {EVENTS_FILE}: {error}")
        workload = network.read(self.results / spec.inputs["network"].path)
        return replace(
            answer,
            cautions=cautions(workload),
            trained_by=self.trained_by,
            folder=str(folder.relative_to(self.results.resolve())),
        )

    def _read(self, events: Events, framework: str, batch_size: int) -> Noise:
        """Return the noise scale from these events. Raises ValueError, IndexError if they are not of one training."""
        measured = [measured_of(event) for event in events if event["event"] == Event.NOISE_MEASURED]
        if not measured:
            raise ValueError("no gradients in it")
        if trains := framework == self.trained_by:
            self.first = measured
        if lost := [each.progress for each in measured if not each.finite]:
            known = pooled([each for each in measured if each.finite]).points if len(lost) < len(measured) else ()
            return Noise(known, reason=f"training diverged: gradients are no numbers at {lost[0]:.0%} of the updates")
        answer = pooled(measured)
        if trains:
            return with_finder(answer, events, batch_size)
        if not all(each.finite for each in self.first):
            return answer  # there is nothing to compare it with
        if any(column_of(each).mode.precision in REDUCED for each in (framework, self.trained_by or framework)):
            return answer  # they round differently
        typical, mean = apart(measured, self.first)
        return replace(answer, apart=typical, apart_mean=mean, agrees=typical <= SAME and mean <= SAME_MEAN)


def handed_on(events: Events, folder: Path, results: Path) -> dict[str, InputFile]:
    """Return the weights that a worker trained, as inputs of the others.

    Raises LaunchFailed where a file is missing or changed, ValueError where an event is missing.
    """
    inputs = {}
    kept = [event for event in events if event["event"] == Event.WEIGHTS_HELD]
    for name, event in zip(HELD, kept, strict=True):
        path = folder / event["file"]
        if not path.is_file() or file_digest(path, "sha256") != event["sha256"]:
            raise LaunchFailed(f"{path}: not what was trained; remove its folder, and it is trained anew")
        inputs[name] = InputFile(str(path.relative_to(results.resolve())), event["sha256"])
    return inputs


def measured_of(event: dict[str, Any]) -> Measured:
    """Return the norms of an event NOISE_MEASURED."""
    small, large = (np.array(event[name], np.float64) for name in ("small", "large"))
    return Measured(event["progress"], small, large, event["small_batch"], event["large_batch"])


def with_finder(answer: Noise, events: Events, batch_size: int) -> Noise:
    """Return the answer with the published method's figures of the training, if that has a window."""
    looks = [event for event in events if event["event"] == Event.FINDER_LOOKED]
    if not looks:
        return answer
    small, large = (np.array([look[name] for look in looks], np.float64) for name in ("small", "large"))
    figure, negative = finder(small, large, batch_size)
    return replace(answer, finder=figure, finder_negative=negative, finder_windows=len(looks))


def cautions(workload: Workload) -> tuple[Caution, ...]:
    """Return what disturbs the estimate."""
    return (Caution.BATCH_NORM,) * bool(workload.statistic_shapes()) + (Caution.DROPOUT,) * workload.draws
