"""Measure the gradient noise scale of each framework, at weights that the first of them has trained.

The interval is a bootstrap over steps of |G|^2 / S, the inverse of the noise scale: S is never near 0, |G|^2 may be.
Its limits are inverted. Where |G|^2 / S may be 0 or less, there is only a lower bound instead of a number: the inverse
of the upper limit. For simulated gradients, the interval or the lower bound was correct 93 to 97 % of the time
(docs/reference/noise-scale.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.ask import answer_once
from runner.input_files import write_array
from runner.launch import Launcher, LaunchFailed, Unavailable
from workloads.datasets import file_digest
from workloads.noise_scale import (
    BATCHES,
    HELD,
    PARTS,
    PROGRESS,
    STEPS,
    WINDOW,
    WINDOWS,
    draw,
    estimates,
    running_averages,
)
from workloads.records import network
from workloads.records.batch_answers import Caution, Noise, NoisePoint
from workloads.records.build import REDUCED, column_of
from workloads.records.events import Event, Events
from workloads.records.files import EVENTS_FILE
from workloads.records.job import ON_DEMAND, InputFile, Job, Kind, TrialSpec
from workloads.records.stored_events import read_events
from workloads.spec import Workload
from workloads.statistics import bootstrap_interval

SAME, SAME_MEAN = 1e-5, 1e-3  # most that rounding changes, relative: a squared norm, and with a few kinks their mean
PROBES = len(PROGRESS) * STEPS * PARTS + WINDOWS * WINDOW
PROBE_LIMIT_S = 1.0  # on average
SEED = 1812  # the same norms give the same interval in every framework and run

Floats = NDArray[np.float64]


def measure_noise(
    specs: Sequence[TrialSpec], launchers: Mapping[str, Launcher | Unavailable], results: Path
) -> dict[str, Noise]:
    """Return each framework's noise scale, or the reason why it has none, for trials that differ only in their
    framework.

    The first framework that can does the training. One that trained in an earlier run of this goes first. Earlier
    answers are read from the disk. Custom code is trained and measured by each framework alone.
    """
    asking = Asking(results, launchers)
    answers = {spec.cell.framework: asking.measure(spec) for spec in sorted(specs, key=asking.has_not_trained)}
    return {spec.cell.framework: answers[spec.cell.framework] for spec in specs}


def read_version(results: Path, answer: Noise) -> str | None:
    """Return the version of the framework that measured this noise, as its worker reported it; None if none did."""
    events = read_events(results / answer.folder / EVENTS_FILE) if answer.folder else []
    facts: dict[str, str] = next((event["facts"] for event in events if event["event"] == Event.OPENED), {})
    return facts.get("framework_version")


class Asking:
    """Questions to all frameworks. `held` are the weights, once a framework has trained."""

    def __init__(self, results: Path, launchers: Mapping[str, Launcher | Unavailable]) -> None:
        self.results, self.launchers = results, launchers
        self.held: dict[str, InputFile] = {}
        self.trained_by: str | None = None
        self.first: list[Measured] = []

    def job(self, spec: TrialSpec) -> Job:
        """Return the job with the images of every batch, and the weights if there are any."""
        spec = on_one_device(replace(spec, cell=replace(spec.cell, allocator=ON_DEMAND)))
        images, seed = np.load(self.results / spec.inputs["order"].path, mmap_mode="r").shape[1], spec.draw.seed
        batches = write_array(self.results, f"{spec.task.dataset}-noise-seed{seed}", draw(images, seed))
        inputs = {**spec.inputs, BATCHES: batches, **self.held}
        return Job(Kind.NOISE, replace(spec, inputs=inputs, timeout_s=spec.timeout_s + PROBES * PROBE_LIMIT_S))

    def has_not_trained(self, spec: TrialSpec) -> bool:
        """True if no earlier run stored weights that it trained."""
        return not (self.job(spec).folder(self.results) / f"{HELD[-1]}.npz").is_file()

    def measure(self, spec: TrialSpec) -> Noise:
        """Return one framework's answer."""
        framework, own = spec.cell.framework, spec.task.own_code is not None
        job, launcher = self.job(spec), self.launchers[framework]
        folder = job.folder(self.results)
        try:
            events = answer_once(job, folder, None if isinstance(launcher, Unavailable) else launcher)
            if own:
                self.trained_by = framework
            elif not self.held:
                self.held = hand_on_weights(events, folder, self.results)
                self.trained_by = framework
            answer = self._read(events, framework, spec.global_batch)
        except LaunchFailed as error:
            return Noise(reason=launcher.reason if isinstance(launcher, Unavailable) else str(error))
        except (ValueError, IndexError) as error:  # its events are not of one training
            return Noise(reason=f"{folder}: {EVENTS_FILE}: {error}")
        return replace(
            answer,
            cautions=list_cautions(None if own else network.read(self.results / spec.inputs["network"].path)),
            trained_by=self.trained_by,
            folder=str(folder.relative_to(self.results.resolve())),
        )

    def _read(self, events: Events, framework: str, batch_size: int) -> Noise:
        """Return the noise scale from these events. Raises ValueError, IndexError if they are not of one training."""
        measured = [read_norms(event) for event in events if event["event"] == Event.NOISE_MEASURED]
        if not measured:
            raise ValueError("no gradients in it")
        if trains := framework == self.trained_by:
            self.first = measured
        if lost := [each.progress for each in measured if not each.finite]:
            known = pooled([each for each in measured if each.finite]).points if len(lost) < len(measured) else ()
            return Noise(known, reason=f"training diverged: gradients are not numbers at {lost[0]:.0%} of the updates")
        answer = pooled(measured)
        if trains:
            return add_finder(answer, events, batch_size)
        if not all(each.finite for each in self.first):
            return answer  # there is nothing to compare it with
        if any(column_of(each).mode.precision in REDUCED for each in (framework, self.trained_by or framework)):
            return answer  # they round differently
        typical, mean = apart(measured, self.first)
        return replace(answer, apart=typical, apart_mean=mean, agrees=typical <= SAME and mean <= SAME_MEAN)


def hand_on_weights(events: Events, folder: Path, results: Path) -> dict[str, InputFile]:
    """Return the weights that a worker trained, as inputs of the others.

    Raises LaunchFailed where a file is missing or changed, ValueError where an event is missing.
    """
    inputs = {}
    kept = [event for event in events if event["event"] == Event.WEIGHTS_HELD]
    for name, event in zip(HELD, kept, strict=True):
        path = folder / event["file"]
        if not path.is_file() or file_digest(path, "sha256") != event["sha256"]:
            raise LaunchFailed(f"{path}: not the trained weights; remove its folder and run again")
        inputs[name] = InputFile(str(path.relative_to(results.resolve())), event["sha256"])
    return inputs


def read_norms(event: dict[str, Any]) -> Measured:
    """Return the norms of an event NOISE_MEASURED."""
    small, large = (np.array(event[name], np.float64) for name in ("small", "large"))
    return Measured(event["progress"], small, large, event["small_batch"], event["large_batch"])


def add_finder(answer: Noise, events: Events, batch_size: int) -> Noise:
    """Return the answer with the published method's figures of the training, if that has a window."""
    looks = [event for event in events if event["event"] == Event.FINDER_LOOKED]
    if not looks:
        return answer
    small, large = (np.array([look[name] for look in looks], np.float64) for name in ("small", "large"))
    figure, negative = finder(small, large, batch_size)
    return replace(answer, finder=figure, finder_negative=negative, finder_windows=len(looks))


def on_one_device(spec: TrialSpec) -> TrialSpec:
    """Return the trial on its first device, where the shares of the others are parts of the same update.

    Which device computes a gradient does not change it.
    """
    task = replace(spec.task, accumulate=spec.task.accumulate * spec.placement.devices)
    return replace(spec, task=task, placement=spec.placement.first)


def list_cautions(workload: Workload | None) -> tuple[Caution, ...]:
    """Return what disturbs the estimate; `workload` is None for custom code, whose layers are unknown."""
    if workload is None:
        return (Caution.OWN_CODE,)
    return (Caution.BATCH_NORM,) * bool(workload.statistic_shapes()) + (Caution.DROPOUT,) * workload.draws


@dataclass(frozen=True)
class Measured:
    """Squared norms of the gradients at one point of a training; a value that is not a number is NaN."""

    progress: float
    small: Floats  # (steps, parts)
    large: Floats  # (steps,)
    small_batch: int
    large_batch: int

    @property
    def finite(self) -> bool:
        """True if all are numbers."""
        return bool(np.isfinite(self.small).all() and np.isfinite(self.large).all())


def point(measured: Measured) -> NoisePoint:
    """Return the noise scale at one point; the norms must be finite."""
    small, large = measured.small.mean(axis=1), measured.large
    sizes = measured.small_batch, measured.large_batch
    squared_gradient, trace = (float(each) for each in estimates(small.mean(), large.mean(), *sizes))
    known = NoisePoint(measured.progress, squared_gradient, trace, None, None, None, None, len(large), *sizes)
    if trace <= 0:  # every gradient is the same
        return replace(known, noise_scale=0.0) if squared_gradient > 0 else known
    low, high = _inverse_interval(small, large, *sizes)
    if not (math.isfinite(low) and math.isfinite(high)):
        return known
    if squared_gradient <= 0 or low <= 0:
        return replace(known, at_least=1 / high if high > 0 else float(measured.large_batch))
    return replace(known, noise_scale=trace / squared_gradient, low=1 / high, high=1 / low)


def _inverse_interval(small: Floats, large: Floats, small_batch: int, large_batch: int) -> tuple[float, float]:
    """Return the interval of |G|^2 / S; NaN where steps do not differ."""
    if np.ptp(small) == np.ptp(large) == 0:
        return math.nan, math.nan

    def inverse(small: Any, large: Any, axis: int) -> Any:
        squared_gradient, trace = estimates(small.mean(axis=axis), large.mean(axis=axis), small_batch, large_batch)
        return squared_gradient / trace

    return bootstrap_interval((small, large), inverse, SEED)


def pooled(measured: Sequence[Measured]) -> Noise:
    """Return each point, and the noise scale of |G|^2 and S averaged over all points; all norms must be finite."""
    small, large = (np.mean([getattr(each, name) for each in measured], axis=0) for name in ("small", "large"))
    whole = point(replace(measured[0], small=small, large=large))
    return Noise(tuple(map(point, measured)), whole.noise_scale, whole.low, whole.high, whole.at_least)


def apart(measured: Sequence[Measured], others: Sequence[Measured]) -> tuple[float, float]:
    """Return how far squared norms are from the others' with the same weights and batches.

    The result is (of a typical small or large batch, of the mean), both relative to the mean, at the point where it is
    largest. Typical means the median. A value on a kink of the network (ReLU, max pooling) may fall to the other side
    of it in another framework. That changes the few affected batches by much. The difference is relative to the mean
    because an almost vanished gradient has a larger relative rounding error.
    """
    pairs = [
        (getattr(each, name), getattr(other, name))
        for each, other in zip(measured, others, strict=True)
        for name in ("small", "large")
    ]
    means = [float(np.mean(other)) or 1.0 for _, other in pairs]  # without any gradient, the difference stays absolute
    typical = [float(np.median(np.abs(each - other))) / mean for (each, other), mean in zip(pairs, means, strict=True)]
    whole = [abs(float(np.mean(each - other))) / mean for (each, other), mean in zip(pairs, means, strict=True)]
    return max(typical), max(whole)


def finder(small: Floats, large: Floats, batch_size: int) -> tuple[float | None, int]:
    """Return the noise scale as fastai_bs_finder computes it, from arrays (windows, WINDOW) and (windows,).

    The result is (mean noise scale, number of windows with a negative |G|^2). The mean is over the noise scales after
    each window, each from averages of all windows up to it. It is None where an average of |G|^2 is not positive, as a
    ratio to it means nothing. It is None where the mean itself is not positive, too. Only the last small batch of each
    window is used.
    """
    squared_gradients, traces = estimates(small[:, -1], large, batch_size, batch_size * WINDOW)
    averages = running_averages(squared_gradients)
    figure = float((running_averages(traces) / averages).mean()) if (averages > 0).all() else 0.0
    return figure if figure > 0 else None, int((squared_gradients < 0).sum())
