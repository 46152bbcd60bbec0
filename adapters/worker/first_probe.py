"""The gate's evidence from an adapter that is open and has its data loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from adapters.base import Adapter, Order, take_snapshot
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
from workloads.spec import Workload


@dataclass(frozen=True)
class ProbeUpdates:
    """The updates of a probe: `part` is PROBE_BATCH if the trial's have parts, `imported` is True for a network that is
    compared with its source.
    """

    part: int | None = None
    imported: bool = False

    @property
    def sizes(self) -> Sequence[int]:
        """Images of each update."""
        return BATCHES if self.part is None else ACCUMULATED

    def list_calls(self, workload: Workload) -> Sequence[int]:
        """Return the updates of each call of `train`; fewer if the workload is large."""
        calls, least = (SOURCE_CALLS, SOURCE_STEPS) if self.imported else (CALLS, EVALUATED_STEPS)
        return calls[:least] if workload.multiply_adds > LARGE else calls


def run(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """Run the kind `probe`: nothing is measured. With the source's code, its own module is probed instead."""
    prepared = prepare(adapter, job, folder, events)
    part = PROBE_BATCH if job.trial.task.accumulate > 1 else None
    asked = ProbeUpdates(part, SOURCE in job.trial.inputs)
    images, labels, order = prepared.images(0), prepared.train.labels, prepared.order[0]
    task, fields = prepared.task, dict[str, Any]()
    answering = adapter
    if prepared.own is not None:
        voter, task = source_voter.open_voter(adapter, job, folder)
        answering = voter
        fields["source"] = voter.facts(task, images[order[:PROBE_BATCH]]).to_json()  # before `build` stops its masks
    fields["evidence"] = gather(answering, task, images, labels, order, asked).to_json()
    events.write(Event.PROBED, **fields)
    events.write(Event.FINISHED)


def gather(
    adapter: Adapter,
    task: BuildArguments,
    images: Images,
    labels: Labels,
    order: Order,
    asked: ProbeUpdates = ProbeUpdates(),
) -> Evidence:
    """Return the evidence. `images`, `labels` are the training split that was loaded, `order` (n,) an epoch's
    permutation of it.

    If the workload draws masks, everything that must agree in training comes from a twin without dropout.
    """
    workload, optimizer, weights, seed = task
    orders = np.resize(order, (LARGE_PROBES if workload.multiply_adds > LARGE else PROBES, sum(asked.sizes)))
    adapter.build(*task)
    restore = take_snapshot(adapter)  # before anything is computed
    untrained = [fingerprint(adapter.predict(images[each[:PROBE_BATCH]])) for each in orders]
    twin = workload.without_dropout() if workload.draws else workload
    if workload.draws:
        adapter.build(twin, optimizer, weights, seed)
        restore = take_snapshot(adapter)
    found: list[Evidence] = []
    for each, evaluated in zip(orders, untrained, strict=True):
        if found and restore is not None:
            restore()
        elif found:
            adapter.build(twin, optimizer, weights, seed)
        answer = _evidence(adapter, task, images, labels, each, asked)
        found.append(replace(answer, untrained_evaluation=evaluated))
    return replace(found[0], again=found[1:])


def _evidence(
    adapter: Adapter, task: BuildArguments, images: Images, labels: Labels, order: Order, asked: ProbeUpdates
) -> Evidence:
    """Return evidence of a model that was just built, from the images that `order` (sum of `asked.sizes`,) names.

    It lacks what the trial's own model, with its masks, computes before any step.
    """
    workload, _, weights, _ = task
    batch = order[:PROBE_BATCH]
    probe = adapter.probe(images[batch], labels[batch])
    losses, updates, evaluation = _trained(adapter, task, images[batch], order, asked)
    in_order = [key for key in workload.parameter_shapes() if key in probe.gradients]
    gradients = {key: fingerprint(probe.gradients[key]) for key in in_order}
    return Evidence(
        loss=probe.loss,
        gradient_norm=math.sqrt(sum(norm**2 for norm, *_ in gradients.values())),
        outputs={name: fingerprint(output) for name, output in probe.outputs.items()},
        gradients=gradients,
        losses=losses,
        evaluation=evaluation,
        untrained_evaluation=(),
        updates=updates,
        sizes={key: fingerprint(array)[0] for key, array in weights.items()},
    )


def _trained(
    adapter: Adapter, task: BuildArguments, evaluated: Images, order: Order, asked: ProbeUpdates
) -> tuple[list[float], dict[str, dict[str, Fingerprint]], Fingerprint]:
    """Return `losses`, `updates` and `evaluation` of the evidence; the last steps are rows of one call."""
    workload, optimizer, weights, _ = task
    train, batches = train_of(adapter, asked.part), np.split(order, np.cumsum(asked.sizes)[:-1])
    losses: list[float] = []
    updates: dict[str, dict[str, Fingerprint]] = {}
    evaluation: Fingerprint = ()
    for rows in asked.list_calls(workload):
        done = len(losses)
        handle = train(np.stack(batches[done : done + rows]), probe_rates(optimizer, done + 1, rows))
        losses.extend(float(loss) for loss in adapter.read(handle))
        after = adapter.weights()
        updates[str(done + rows)] = {key: fingerprint(after[key] - weights[key]) for key in weights if key in after}
        if done + rows == EVALUATED_STEPS:
            evaluation = fingerprint(adapter.predict(evaluated))
    return losses, updates, evaluation
