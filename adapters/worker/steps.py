"""The kind `steps`: a steady window at one batch size and one batch of evaluation; no epochs, no accuracy.

It tests whether they fit into memory, and how fast they are. The split's size is no limit: batches cycle through it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adapters.base import Adapter
from adapters.worker import host
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import prepare
from adapters.worker.steady import WindowTrainer
from adapters.worker.trainer import Trainer
from adapters.worker.trial import WARM_UP_STEPS, warm_up
from workloads.records.events import Event
from workloads.records.job import Job

FEWEST_CALLS = 2  # both are in flight at once: the most that a training holds


def run(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """Run the job. Raises what the adapter raises before `finished`."""
    prepared = prepare(adapter, job, folder, events)
    prepared.build(adapter)
    del prepared.task  # the given weights, or they would count as the framework's memory
    adapter.synchronize()
    events.write(Event.BUILT)
    order, images, update = prepared.order[-1], prepared.test.images, job.trial.global_batch
    trainer = Trainer(adapter, prepared.rates, prepared.ahead, job.trial.part)
    warm_up(trainer, [np.resize(order, (1 + WARM_UP_STEPS, update))], events)
    window = WindowTrainer(trainer, events, job.trial.window_s)
    window.train_on(order, update, FEWEST_CALLS)
    window.end()
    adapter.predict(np.array(images[np.arange(job.trial.cell.batch_size) % len(images)]))  # like an epoch's evaluation
    adapter.synchronize()
    events.write(Event.FINISHED)
    events.write_answer(Event.HOST_COUNTED, lambda: {"proportional_bytes": host.proportional_bytes()} | host.counts())
    events.write_answer(Event.ALLOCATOR_COUNTED, lambda: {"counts": adapter.memory()})
