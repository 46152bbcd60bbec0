"""The figures of a trial's speed beyond its window: of whole epochs, and of the work that the layers need."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from runner.results.window import uncounted, unknown
from workloads.records.figures import EPOCH_TIME, EVALUATION_SPEED, SPEED, WORK, Figure
from workloads.records.intervals import tested_images
from workloads.records.job import TrialSpec
from workloads.records.result import Epoch
from workloads.spec import Workload

NO_EPOCH = "there is no epoch after the first, which compiles and warms up"


def pace(
    spec: TrialSpec, workload: Workload | None, epochs: Sequence[Epoch], figures: Mapping[str, Figure]
) -> dict[str, Figure]:
    """EPOCH_TIME, EVALUATION_SPEED, WORK; `figures` has the SPEED of the window."""
    return {
        EPOCH_TIME.name: _epoch_time(epochs[1:]),
        EVALUATION_SPEED.name: _evaluation_speed(epochs[1:], tested_images(spec.task.dataset, spec.task.source)),
        WORK.name: _work(spec, workload, figures[SPEED.name]),
    }


def _epoch_time(epochs: Sequence[Epoch]) -> Figure:
    source = "worker: training of the epochs after the first, without their evaluation"
    if not epochs:
        return unknown(source, NO_EPOCH)
    return Figure(statistics.mean(epoch.train_s for epoch in epochs), source, len(epochs))


def _evaluation_speed(epochs: Sequence[Epoch], images: int | None) -> Figure:
    source = "worker: logits of the test split in batches, and their losses by numpy, after the epochs behind the first"
    if not epochs:
        return unknown(source, NO_EPOCH)
    if images is None:
        return unknown(source, "nobody knows how many test images there are")
    seconds = sum(epoch.evaluate_s for epoch in epochs)
    if seconds <= 0:
        return unknown(source, "the evaluations took no time")
    return Figure(images * len(epochs) / seconds, source, len(epochs))


def _work(spec: TrialSpec, workload: Workload | None, speed: Figure) -> Figure:
    source = "speed of the steady window x multiply-adds of the layers, two operations each, forward and twice backward"
    if workload is None or spec.task.own_code:
        return unknown(source, uncounted(spec))
    if speed.value is None:
        return unknown(source, speed.reason or "there is no speed")
    return Figure(speed.value * workload.step_flop, source)
