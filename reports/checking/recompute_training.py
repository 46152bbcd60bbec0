"""Recompute epochs, losses and counts of a stored trial from its events, and compare them with its result.

Written independently of the runner, as `recompute` is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from workloads.records import figures as registry
from workloads.records.events import Event, Events
from workloads.records.files import EVENTS_FILE
from workloads.records.result import Epoch, TrialResult
from workloads.spec import Workload
from workloads.statistics import count_images

from .recompute import RELATIVE, Segment, Values

# A wrong answer gives its label a probability of at most one half, so its loss is at least ln 2. If every answer is
# right, each label has the largest probability of all classes. Rounding of logits changes both by less than this.
WRONG_LOSS, LOSS_SLACK = math.log(2), 0.02
CALLS_SLACK = 0.02  # in 770 published windows the calls took 0.99 to 1.00 of the window
FASTER_IN_EPOCHS = 1.5  # times the window's mean speed: a segment of an epoch had at most 1.1 times it in 62 windows
WHOLE = 1e-3  # images: tolerance for a share of the test split to be a whole number of images


def evaluated_of(events: Events) -> Events:
    """Return the evaluations of which test loss and accuracy are known."""
    return [event for event in events
            if event["event"] == Event.EPOCH_EVALUATED and event.get("test_accuracy") is not None]  # fmt: skip


def list_epochs(events: Events) -> list[Epoch]:
    """List every evaluated epoch. The first one's training begins when the model is built."""
    built = [event["t_ns"] for event in events if event["event"] == Event.BUILT]
    trained = [event for event in events if event["event"] == Event.EPOCH_TRAINED]
    evaluated = evaluated_of(events)
    if not built:
        return []
    starts = [built[-1], *(event["t_ns"] for event in evaluated)]
    return [
        Epoch(
            (train["t_ns"] - start) / 1e9 - train.get("copied_s", 0.0),
            train["steps"],
            train["images"],
            train["train_loss"],
            (test["t_ns"] - train["t_ns"]) / 1e9,
            test["test_loss"],
            test["test_accuracy"],
        )
        for start, train, test in zip(starts, trained, evaluated, strict=False)
    ]


def recompute_figures(
    result: TrialResult, events: Events, window: Sequence[Segment], workload: Workload | None
) -> Values:
    """Compute the figures of epochs, of the window's calls and of the layers' work."""
    values: Values = {}
    later = list_epochs(events)[1:]
    if later:
        values[registry.EPOCH_TIME.name] = sum(epoch.train_s for epoch in later) / len(later)
        images = count_images(result.spec.task.dataset, result.spec.task.source, "test")
        if images and (seconds := sum(epoch.evaluate_s for epoch in later)) > 0:
            values[registry.EVALUATION_SPEED.name] = images * len(later) / seconds
    if window:
        ended = next(event for event in reversed(events) if event["event"] == Event.WINDOW_ENDED)
        if calls := ended.get("calls_s"):
            times = np.quantile(calls, [0.5, 0.95, 0.99, 1.0])
            values |= {spec.name: float(time) for spec, time in zip(registry.CALL_TIMES, times, strict=True)}
        if workload is not None and not result.spec.task.own_code:
            window_s = sum(end - start for start, end in window) / 1e9
            values[registry.WORK.name] = ended["images"] / window_s * workload.step_flop
    return values


def find_differences(
    result: TrialResult, events: Events, window: Sequence[Segment], workload: Workload | None
) -> Iterator[str]:
    """Yield a line for each epoch, loss or count that differs from the events, or is impossible."""
    if result.figures:
        yield from _epochs(result, list_epochs(events))
        told = [event["first_losses"] for event in events
                if event["event"] == Event.EPOCH_TRAINED and "first_losses" in event]  # fmt: skip
        if told and told[-1] != result.first_losses:
            yield f"first_losses: stored: {result.first_losses}; in {EVENTS_FILE}: {told[-1]}"
    if window:
        yield from _window(result, events, window)
    yield from _possible(result, workload)


def _epochs(result: TrialResult, recomputed: list[Epoch]) -> Iterator[str]:
    if len(result.epochs) != len(recomputed):
        yield f"epochs: stored: {len(result.epochs)}; recomputed: {len(recomputed)}"
    for number, (stored, again) in enumerate(zip(result.epochs, recomputed, strict=False)):
        values = asdict(again)
        for name, value in asdict(stored).items():
            if not _equal(value, values[name]):
                yield f"epoch {number}: {name}: stored: {_number(value)}; recomputed: {_number(values[name])}"


def _window(result: TrialResult, events: Events, window: Sequence[Segment]) -> Iterator[str]:
    ended = next(event for event in reversed(events) if event["event"] == Event.WINDOW_ENDED)
    expected = ended["steps"] * result.spec.global_batch
    if ended["images"] != expected:
        yield (
            f"the window has {ended['images']} images in {ended['steps']} steps of {result.spec.global_batch}: "
            f"{expected} are expected"
        )
    if (calls := len(ended.get("calls_s", ()))) and ended["steps"] % calls:
        yield f"the window has {ended['steps']} steps in {calls} calls: each call makes the same number of steps"
    yield from find_too_many_steps(events, ended)
    calls_s, window_s = sum(ended.get("calls_s", ())), sum(end - start for start, end in window) / 1e9
    if calls_s > window_s * (1 + CALLS_SLACK):
        yield f"the calls of the window took {calls_s:.3f} s, the window {window_s:.3f} s"


def find_too_many_steps(events: Events, ended: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line if the segments that were cut from epochs, one from each, have more steps than these.

    What the epochs lacked was trained after them. The steps are divided by time, as if all segments were as fast.
    """
    started = next((event["t_ns"] for event in reversed(events) if event["event"] == Event.WINDOW_STARTED), math.inf)
    epochs = [event for event in events
              if event["event"] == Event.EPOCH_TRAINED and started < event["t_ns"] < ended["t_ns"]]  # fmt: skip
    if not epochs:
        return
    lengths = [(end - start, end <= epochs[-1]["t_ns"]) for start, end in ended["segments"]]
    cut = [length for length, in_epoch in lengths if in_epoch]
    steps = ended["steps"] * sum(cut) / max(1, sum(length for length, _ in lengths))
    most = len(cut) * max(event["steps"] for event in epochs)
    if steps > most * (1 if len(cut) == len(lengths) else FASTER_IN_EPOCHS):
        yield f"the window has {steps:.0f} steps in {len(cut)} segments of epochs: {most} at most"


def _possible(result: TrialResult, workload: Workload | None) -> Iterator[str]:
    """Yield a line for each accuracy that is impossible given its test loss or the number of test images."""
    if result.spec.task.own_code:
        return  # its loss and its test images are unknown
    images = count_images(result.spec.task.dataset, result.spec.task.source, "test")
    for number, epoch in enumerate(result.epochs):
        loss, accuracy = epoch.test_loss, epoch.test_accuracy
        if images and abs(accuracy * images - round(accuracy * images)) > WHOLE:
            yield f"epoch {number}: test_accuracy {accuracy:.9g} is not a whole number of the {images} test images"
        if loss is None or not math.isfinite(loss):
            continue
        if (least := (1 - accuracy) * WRONG_LOSS) * (1 - LOSS_SLACK) > loss:
            yield (
                f"epoch {number}: test_accuracy {accuracy:.4g} cannot come with a test loss of {loss:.4g}: "
                f"that many wrong answers give at least {least:.4g}"
            )
        elif accuracy == 1 and workload and loss > math.log(workload.classes) * (1 + LOSS_SLACK):
            yield f"epoch {number}: every answer is correct, but the test loss is {loss:.4g}: chance gives less"


def compare_trials(trials: Iterable[tuple[TrialResult, Path]]) -> list[str]:
    """List trials of one order whose epochs hold other numbers of images than the other trials; all read
    the same file.
    """
    by_order: dict[str, list[tuple[TrialResult, Path]]] = defaultdict(list)
    for result, folder in trials:
        if result.epochs and "order" in result.spec.inputs and not result.spec.task.own_code:
            by_order[result.spec.inputs["order"].sha256].append((result, folder))
    return [line for each in by_order.values() for line in _of_order(each)]


def _of_order(trials: Sequence[tuple[TrialResult, Path]]) -> Iterator[str]:
    counts = [epoch.images for result, _ in trials if result.spec.passes.last_batch == "keep"
              for epoch in result.epochs]  # fmt: skip
    if not counts:
        return  # the number of images in the order is unknown
    whole = max(sorted(set(counts)), key=counts.count)
    for result, folder in trials:
        update = result.spec.global_batch
        keeps = result.spec.passes.last_batch == "keep" or update > whole
        expected = whole if keeps else whole // update * update
        if wrong := sorted({epoch.images for epoch in result.epochs} - {expected}):
            yield (
                f"{folder}: epochs of {', '.join(map(str, wrong))} images: its order has {whole} in the other trials, "
                f"so {expected} are expected"
            )


def _equal(stored: float | None, recomputed: float | None) -> bool:
    if stored is None or recomputed is None:
        return stored is recomputed
    return abs(stored - recomputed) <= RELATIVE * abs(recomputed)


def _number(value: float | None) -> str:
    return "null" if value is None else f"{value:.9g}"
