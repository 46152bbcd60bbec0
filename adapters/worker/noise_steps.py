"""The kind `noise`: squared norms of gradients at fixed weights, for the gradient noise scale.

A worker without given weights trains the task first, as a trial does, and saves its weights along the way. One with
given weights does not train. Both measure on the same batches, which are an input, without dropout: its masks are the
framework's own, and their noise is not the data's.

Custom code has weights that only its framework knows. So its worker measures along its own training, where the weights
of each point are. Its masks stay on, because it is unknown which of its layers draw them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from adapters.base import Adapter, Order, parts
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import Prepared, prepare, read_input
from adapters.worker.trainer import Trainer, epoch_batches
from adapters.worker.trial import load_epoch
from workloads import weights as weight_files
from workloads.datasets import Images, Labels, file_digest
from workloads.noise_scale import BATCHES, HELD, PROGRESS, WINDOW, WINDOWS, Norms, updates_before
from workloads.records.events import Event
from workloads.records.job import Job
from workloads.weights import Weights


def run(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """Run the job. Raises what the adapter raises."""
    prepared = prepare(adapter, job, folder, events)
    root, inputs = (folder / job.results).resolve(), job.trial.inputs
    batches = np.load(read_input(root, inputs[BATCHES]))
    if prepared.own is not None:
        for number in NoiseTraining(adapter, job, prepared, events).points():
            measure(adapter, prepared, batches[number], number, events)
        events.write(Event.FINISHED)
        return
    if HELD[0] in inputs:
        held = [read_input(root, inputs[name]) for name in HELD]
    else:
        training = NoiseTraining(adapter, job, prepared, events)
        held = [training.save(number, folder) for number in training.points()]
    workload, optimizer, _, seed = prepared.task
    for number, path in enumerate(held):
        adapter.build(workload.without_dropout(), optimizer, weight_files.load(path), seed)
        measure(adapter, prepared, batches[number], number, events)
    events.write(Event.FINISHED)


def measure(adapter: Adapter, prepared: Prepared, steps: Order, number: int, events: EventLog) -> None:
    """Write the norms of `steps` (steps, parts, batch) at the present weights, which are those of this point."""
    images, labels, own = prepared.images(-1), prepared.train.labels, prepared.own is not None
    norms = []
    for step in steps:
        norms.append(norms_of(adapter, images, labels, step, own))
        events.beat(time.monotonic())
    events.write(
        Event.NOISE_MEASURED,
        progress=PROGRESS[number],
        small_batch=steps.shape[-1],
        large_batch=math.prod(steps.shape[-2:]),
        small=[each.small for each in norms],
        large=[each.large for each in norms],
    )


def norms_of(
    adapter: Adapter, images: Images, labels: Labels, batches: Sequence[Order] | Order, own: bool = False
) -> Norms:
    """Return the norms of one step's batches, which are equally large: indices into the split.

    `own` means that the model is custom code.
    """
    norms = Norms()
    for batch in batches:
        asked = images[batch], labels[batch]
        norms.add(adapter.parameter_gradients(*asked) if own else adapter.probe(*asked).gradients)
    return norms


class NoiseTraining:
    """A trial's epochs without their evaluations, one step per call. Between the steps the caller saves or measures.
    At first the finder's gradients are taken. If the model draws masks, these draws shift the others.
    """

    def __init__(self, adapter: Adapter, job: Job, prepared: Prepared, events: EventLog) -> None:
        self.adapter, self.prepared, self.events = adapter, prepared, events
        update, passes = job.trial.global_batch, job.trial.passes
        self.update, self.part = update, job.trial.part
        self.epochs = [
            [batch for block in epoch_batches(order, update, passes.last_batch) for batch in block]
            for order in prepared.order[: passes.epochs]
        ]
        sizes = [len(batch) for epoch in self.epochs for batch in epoch]
        self.held_after = updates_before(len(sizes))
        self.looks = min(WINDOWS, sizes.count(update) // WINDOW) * WINDOW
        self.trainer = Trainer(adapter, events, prepared.rates, prepared.ahead, job.trial.part)
        self.norms = Norms()

    def points(self) -> Iterator[int]:
        """Train, and yield the index of each point of PROGRESS while the model has the weights of that point."""
        self.prepared.build(self.adapter)
        self.events.write(Event.BUILT)
        yield from self._points_after(0)
        full = update = 0
        for epoch, batches in enumerate(self.epochs):
            if epoch:
                load_epoch(self.adapter, self.prepared, epoch)
            images = self.prepared.images(epoch)
            for batch in batches:
                if len(batch) == self.update:
                    self.look(images, batch, full)
                    full += 1
                self.trainer.run(iter([batch[None]]))
                update += 1
                yield from self._points_after(update)

    def _points_after(self, update: int) -> Iterator[int]:
        return (number for number, after in enumerate(self.held_after) if after == update)

    def save(self, number: int, folder: Path) -> Path:
        """Save the weights of this point into the folder, and return their file."""
        path, weights = folder / f"{HELD[number]}.npz", self.adapter.weights()
        weight_files.save(path, weights)
        self.events.write(
            Event.WEIGHTS_HELD,
            progress=PROGRESS[number],
            update=self.held_after[number],
            file=path.name,
            sha256=file_digest(path, "sha256"),
            train_loss=self._loss(),
            finite=finite(weights),
        )
        return path

    def _loss(self) -> float | None:
        """Return the mean loss of the last updates; None before the first."""
        return float(np.mean(self.trainer.losses[-WINDOW:])) if self.trainer.losses else None

    def look(self, images: Images, batch: Order, full: int) -> None:
        """Take the gradient of a full batch before its update, if fewer than `looks` full batches came before."""
        if full >= self.looks:
            return
        own = self.prepared.own is not None
        pieces = norms_of(self.adapter, images, self.prepared.train.labels, parts(batch, self.part), own)
        self.norms.add(pieces.mean)
        if len(self.norms.small) == WINDOW:
            self.events.write(
                Event.FINDER_LOOKED, update=len(self.trainer.losses), small=self.norms.small, large=self.norms.large
            )
            self.norms = Norms()


def finite(weights: Weights) -> bool:
    """True if every value is a finite number."""
    return all(bool(np.isfinite(array).all()) for array in weights.values())
