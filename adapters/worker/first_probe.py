"""The gate's evidence from an adapter that is open and has its data loaded."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from adapters.base import Adapter, Order
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import BuildArguments, prepare
from adapters.worker.trainer import train_of
from workloads.datasets import Images, Labels
from workloads.records.events import Event
from workloads.records.evidence import (
    ACCUMULATED,
    BATCHES,
    CALLS,
    EVALUATED_STEPS,
    LARGE,
    LARGE_PROBES,
    PROBE_BATCH,
    PROBES,
    Evidence,
    Fingerprint,
    fingerprint,
    probe_rates,
)
from workloads.records.job import Job


def run(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """Run the kind `probe`: nothing is measured."""
    prepared = prepare(adapter, job, folder, events)
    part = PROBE_BATCH if job.trial.task.accumulate > 1 else None
    evidence = gather(adapter, prepared.task, prepared.images(0), prepared.train.labels, prepared.order[0], part)
    events.write(Event.PROBED, evidence=evidence.to_json())
    events.write(Event.FINISHED)


def gather(
    adapter: Adapter, task: BuildArguments, images: Images, labels: Labels, order: Order, part: int | None = None
) -> Evidence:
    """Return the evidence. `images`, `labels` are the training split that was loaded, `order` (n,) an epoch's
    permutation of it; `part` is PROBE_BATCH if the trial's updates have parts.

    If the workload draws masks, everything that must agree in training comes from a twin without dropout.
    """
    probes = LARGE_PROBES if task[0].multiply_adds > LARGE else PROBES
    needed = sum(BATCHES if part is None else ACCUMULATED)
    first, *others = (
        _evidence(adapter, task, images, labels, each, part) for each in np.resize(order, (probes, needed))
    )
    return replace(first, again=others)


def _evidence(
    adapter: Adapter, task: BuildArguments, images: Images, labels: Labels, order: Order, part: int | None
) -> Evidence:
    """Return evidence from the images that `order` (sum of BATCHES or ACCUMULATED,) names; `task` is for `build`."""
    workload, optimizer, weights, seed = task
    batch = order[:PROBE_BATCH]
    adapter.build(workload, optimizer, weights, seed)
    untrained_evaluation = fingerprint(adapter.predict(images[batch]))
    if workload.draws:
        adapter.build(workload.without_dropout(), optimizer, weights, seed)
    probe = adapter.probe(images[batch], labels[batch])
    losses, updates, evaluation = _trained(adapter, task, images[batch], order, part)
    in_order = [key for key in workload.parameter_shapes() if key in probe.gradients]
    gradients = {key: fingerprint(probe.gradients[key]) for key in in_order}
    return Evidence(
        loss=probe.loss,
        gradient_norm=math.sqrt(sum(norm**2 for norm, *_ in gradients.values())),
        outputs={name: fingerprint(output) for name, output in probe.outputs.items()},
        gradients=gradients,
        losses=losses,
        evaluation=evaluation,
        untrained_evaluation=untrained_evaluation,
        updates=updates,
        sizes={key: fingerprint(array)[0] for key, array in weights.items()},
    )


def _trained(
    adapter: Adapter, task: BuildArguments, evaluated: Images, order: Order, part: int | None
) -> tuple[list[float], dict[str, dict[str, Fingerprint]], Fingerprint]:
    """Return `losses`, `updates` and `evaluation` of the evidence; the last steps are rows of one call."""
    workload, optimizer, weights, _ = task
    sizes, train = BATCHES if part is None else ACCUMULATED, train_of(adapter, part)
    batches = np.split(order, np.cumsum(sizes)[:-1])
    losses: list[float] = []
    updates: dict[str, dict[str, Fingerprint]] = {}
    evaluation: Fingerprint = ()
    for rows in CALLS[:EVALUATED_STEPS] if workload.multiply_adds > LARGE else CALLS:
        done = len(losses)
        handle = train(np.stack(batches[done : done + rows]), probe_rates(optimizer, done + 1, rows))
        losses.extend(float(loss) for loss in adapter.read(handle))
        after = adapter.weights()
        updates[str(done + rows)] = {key: fingerprint(after[key] - weights[key]) for key in weights if key in after}
        if done + rows == EVALUATED_STEPS:
            evaluation = fingerprint(adapter.predict(evaluated))
    return losses, updates, evaluation
