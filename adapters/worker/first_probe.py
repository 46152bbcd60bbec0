"""The gate's evidence from an adapter that is open and has its data loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from adapters.base import Adapter, Order
from adapters.worker import source_voter
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
    SOURCE_CALLS,
    SOURCE_STEPS,
    Evidence,
    Fingerprint,
    fingerprint,
    probe_rates,
)
from workloads.records.job import Job
from workloads.records.source_map import SOURCE


def run(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """Run the kind `probe`: nothing is measured. With own code, that is asked in place of the framework's version."""
    prepared = prepare(adapter, job, folder, events)
    voter = None
    if prepared.own is not None:
        voter, prepared.task = source_voter.open_voter(adapter, job, folder)
    part = PROBE_BATCH if job.trial.task.accumulate > 1 else None
    images, labels, order = prepared.images(0), prepared.train.labels, prepared.order[0]
    evidence = gather(voter or adapter, prepared.task, images, labels, order, part, SOURCE in job.trial.inputs)
    facts = {} if voter is None else {"source": voter.facts(images[order[:PROBE_BATCH]]).to_json()}
    events.write(Event.PROBED, evidence=evidence.to_json(), **facts)
    events.write(Event.FINISHED)


def gather(
    adapter: Adapter,
    task: BuildArguments,
    images: Images,
    labels: Labels,
    order: Order,
    part: int | None = None,
    imported: bool = False,
) -> Evidence:
    """Return the evidence. `images`, `labels` are the training split that was loaded, `order` (n,) an epoch's
    permutation of it; `part` is PROBE_BATCH if the trial's updates have parts. An `imported` network makes at least
    SOURCE_STEPS updates.

    If the workload draws masks, everything that must agree in training comes from a twin without dropout.
    """
    large = task[0].multiply_adds > LARGE
    calls = SOURCE_CALLS if imported else CALLS
    calls = calls[: SOURCE_STEPS if imported else EVALUATED_STEPS] if large else calls
    needed = sum(BATCHES if part is None else ACCUMULATED)
    first, *others = (
        _evidence(adapter, task, images, labels, each, part, calls)
        for each in np.resize(order, (LARGE_PROBES if large else PROBES, needed))
    )
    return replace(first, again=others)


def _evidence(
    adapter: Adapter,
    task: BuildArguments,
    images: Images,
    labels: Labels,
    order: Order,
    part: int | None,
    calls: Sequence[int],
) -> Evidence:
    """Return evidence from the images that `order` (sum of BATCHES or ACCUMULATED,) names; `task` is for `build`, and
    `calls` are the steps of each call of `train`.
    """
    workload, optimizer, weights, seed = task
    batch = order[:PROBE_BATCH]
    adapter.build(workload, optimizer, weights, seed)
    untrained_evaluation = fingerprint(adapter.predict(images[batch]))
    if workload.draws:
        adapter.build(workload.without_dropout(), optimizer, weights, seed)
    probe = adapter.probe(images[batch], labels[batch])
    losses, updates, evaluation = _trained(adapter, task, images[batch], order, part, calls)
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
    adapter: Adapter, task: BuildArguments, evaluated: Images, order: Order, part: int | None, calls: Sequence[int]
) -> tuple[list[float], dict[str, dict[str, Fingerprint]], Fingerprint]:
    """Return `losses`, `updates` and `evaluation` of the evidence; the last steps are rows of one call."""
    _, optimizer, weights, _ = task
    sizes, train = BATCHES if part is None else ACCUMULATED, train_of(adapter, part)
    batches = np.split(order, np.cumsum(sizes)[:-1])
    losses: list[float] = []
    updates: dict[str, dict[str, Fingerprint]] = {}
    evaluation: Fingerprint = ()
    for rows in calls:
        done = len(losses)
        handle = train(np.stack(batches[done : done + rows]), probe_rates(optimizer, done + 1, rows))
        losses.extend(float(loss) for loss in adapter.read(handle))
        after = adapter.weights()
        updates[str(done + rows)] = {key: fingerprint(after[key] - weights[key]) for key in weights if key in after}
        if done + rows == EVALUATED_STEPS:
            evaluation = fingerprint(adapter.predict(evaluated))
    return losses, updates, evaluation
