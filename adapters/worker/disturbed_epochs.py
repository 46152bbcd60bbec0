"""The kind `disturbed`: a trial's epochs once more from slightly different weights, to see the effect of rounding."""

from __future__ import annotations

from pathlib import Path

from adapters.base import Adapter
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import prepare
from adapters.worker.trainer import Trainer, epoch_batches
from adapters.worker.trial import FIRST_LOSSES, evaluate, load_epoch, train_epoch
from workloads.records.events import Event
from workloads.records.job import Job
from workloads.weights import DISTURBANCES, disturbed


def run(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """Repeat the trial up to its last epoch DISTURBANCES times, each after an event `built`; with no epochs, only
    the first steps. Nothing is measured.
    """
    prepared = prepare(adapter, job, folder, events)
    workload, optimizer, weights, seed = prepared.task
    batch_size, update = job.trial.cell.batch_size, job.trial.global_batch
    passes, test = job.trial.passes, prepared.test
    orders = prepared.order[: passes.epochs] if passes.epochs else prepared.order[:1, : FIRST_LOSSES * update]
    for number in range(DISTURBANCES):
        adapter.build(workload, optimizer, disturbed(weights, number), seed)
        events.write(Event.BUILT)
        trainer = Trainer(adapter, events, prepared.rates, prepared.ahead, job.trial.part)
        for epoch, order in enumerate(orders):
            load_epoch(adapter, prepared, epoch)
            train_epoch(trainer, epoch, epoch_batches(order, update, passes.last_batch), events)
            if passes.epochs:
                loss, accuracy = evaluate(adapter, test.images, test.labels, batch_size, events)
                events.write(Event.EPOCH_EVALUATED, epoch=epoch, test_loss=loss, test_accuracy=accuracy)
    events.write(Event.FINISHED)
