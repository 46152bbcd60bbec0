"""Steps without epochs and without accuracy.

The kind `steps`: a steady window at one batch size and one batch of evaluation. It tests whether they fit into memory,
and how fast they are. The split's size is no limit: batches cycle through it.

The kind `blocks`: cost of one image more or less in a batch, measured in one process. Separate processes differ by
more than that, so one process runs blocks of steps of all batch sizes in turn. In a round every size comes once, in an
order that was drawn beforehand. A block has the same number of steps and calls for each size, so the cost of calls is
shared equally. Rounds of training come first, then rounds of evaluation; as many of each as `window_s` allows, at
least FEWEST_ROUNDS. There is one model: its weights keep changing, which affects no timing. Writes blocks.json after
the last block.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adapters.base import Adapter, Order
from adapters.worker import host
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import Prepared, prepare, read_input
from adapters.worker.steady import WindowTrainer
from adapters.worker.trainer import Trainer
from adapters.worker.trial import WARM_UP_STEPS, warm_up
from workloads.datasets import Images
from workloads.processor_time import compute_foreign_share, find_busy_s
from workloads.records.blocks import BLOCKS_FILE, TURNS, Block, Phase
from workloads.records.events import Event
from workloads.records.files import write_json
from workloads.records.job import Job

FEWEST_CALLS = 2  # both are in flight at once: the most that a training holds

# Least duration for the smallest size; longer if a step takes longer. Short blocks meet the same state of the machine,
# and disturbances of some of many are trimmed: blocks of 0.3 s left an uncertainty of 2 to 3 % in a process of 10 s.
BLOCK_S = 0.1
FEWEST_ROUNDS = 4  # the report's trimmed mean takes two of them

CORES = sorted(os.sched_getaffinity(0))  # before a framework binds its threads to some of them

Work = Callable[[int], int]  # batch size -> steps that were made of it


def run(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """Run the kind `steps`. Raises what the adapter raises before `finished`."""
    prepared = prepare(adapter, job, folder, events)
    prepared.build(adapter)
    del prepared.task  # the given weights, or they would count as the framework's memory
    adapter.synchronize()
    events.write(Event.BUILT)
    order, images, update = prepared.order[-1], prepared.test_images, job.trial.global_batch
    trainer = Trainer(adapter, events, prepared.rates, prepared.ahead, job.trial.part)
    warm_up(trainer, [np.resize(order, (1 + WARM_UP_STEPS, update))], events)
    window = WindowTrainer(trainer, events, job.trial.window_s)
    window.train_on(order, update, FEWEST_CALLS)
    window.end()
    adapter.predict(np.array(images[np.arange(job.trial.cell.batch_size) % len(images)]))  # like an epoch's evaluation
    adapter.synchronize()
    events.write(Event.FINISHED)
    events.write_answer(Event.HOST_COUNTED, lambda: {"proportional_bytes": host.proportional_bytes()} | host.counts())
    events.write_answer(Event.ALLOCATOR_COUNTED, lambda: {"counts": adapter.memory()})


def endless(order: Order, batch_size: int, steps: int) -> Iterator[Order]:
    """Yield (steps, batch_size) arrays, cycling through `order` (n,)."""
    position = 0
    while True:
        indices = np.arange(position, position + steps * batch_size) % len(order)
        yield order[indices].reshape(steps, batch_size)
        position = int(indices[-1]) + 1


class TrainingBlocks:
    """Blocks of updates, by batch size."""

    def __init__(self, adapter: Adapter, prepared: Prepared, sizes: list[int], events: EventLog) -> None:
        """Warm up each size, including its compilation."""
        self.order = prepared.order[0]
        self.trainers = {size: Trainer(adapter, events, prepared.rates, prepared.ahead) for size in sizes}
        for size, trainer in self.trainers.items():
            warm_up(trainer, [np.resize(self.order, (1 + WARM_UP_STEPS, size))], events)
        self.steps = min(trainer.steps_a_call() for trainer in self.trainers.values())
        fastest_s = min(trainer.step_s for trainer in self.trainers.values())
        self.calls = max(1, math.ceil(BLOCK_S / (self.steps * fastest_s)))
        self.batches = {size: endless(self.order, size, self.steps) for size in sizes}
        for size in sizes:  # calls of this length are compiled, too
            self.block(size)

    def block(self, size: int) -> int:
        """Run one block of this size and return its steps. Raises RuntimeError if a step gave no loss."""
        trainer, steps = self.trainers[size], self.steps * self.calls
        before = len(trainer.losses)
        trainer.run(next(self.batches[size]) for _ in range(self.calls))
        if len(trainer.losses) - before != steps:
            raise RuntimeError(f"{steps} steps of {size} images gave {len(trainer.losses) - before} losses")
        return steps

    def check(self) -> None:
        """Raise RuntimeError if a loss is not a number."""
        for size, trainer in self.trainers.items():
            if trainer.diverged_step is not None:
                raise RuntimeError(f"the loss of step {trainer.diverged_step} of {size} images is not a number")


class EvaluationBlocks:
    """Blocks of batches of the test split, by batch size: images go in, logits come out."""

    def __init__(self, adapter: Adapter, images: Images, sizes: list[int], events: EventLog) -> None:
        """Warm up each size."""
        self.adapter, self.events, self.calls = adapter, events, 1
        # Copies: a view of the file is read-only, about which PyTorch warns.
        self.batches = {size: np.array(images[np.arange(size) % len(images)]) for size in sizes}
        seconds = []
        for size in sizes:
            self.block(size)
            began_s = time.monotonic()
            self.block(size)
            seconds.append(time.monotonic() - began_s)
        self.calls = max(1, math.ceil(BLOCK_S / min(seconds)))

    def block(self, size: int) -> int:
        """Evaluate one block of this size and return its calls. Raises RuntimeError if an image has no logits."""
        for _ in range(self.calls):
            logits = self.adapter.predict(self.batches[size])
            if len(logits) != size:
                raise RuntimeError(f"{size} images gave {len(logits)} rows of logits")
        self.events.beat(time.monotonic())
        return self.calls


def measured(adapter: Adapter, phase: Phase, number: int, size: int, work: Work) -> Block:
    """Measure one block; the device is idle at both edges."""
    adapter.synchronize()
    busy_before_s, own_before_s, began_s = find_busy_s(CORES), time.process_time(), time.monotonic()
    steps = work(size)
    adapter.synchronize()
    wall_s = time.monotonic() - began_s
    busy_after_s, own_s = find_busy_s(CORES), time.process_time() - own_before_s
    foreign_percent = compute_foreign_share(busy_before_s, busy_after_s, own_s, wall_s, len(CORES))
    return Block(phase, number, size, steps, wall_s, foreign_percent)


def rounds(adapter: Adapter, phase: Phase, turns: NDArray[np.int32], length_s: float, work: Work) -> list[Block]:
    """Return as many whole rounds as `length_s` allows, so that the measurements do not decide when it ends."""
    blocks: list[Block] = []
    until_s = time.monotonic() + length_s
    for number, sizes in enumerate(turns.tolist()):
        if number >= FEWEST_ROUNDS and time.monotonic() >= until_s:
            break
        blocks += [measured(adapter, phase, number, size, work) for size in sizes]
    return blocks


def run_blocks(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """Run the kind `blocks`. Raises what the adapter raises before `finished`."""
    prepared, length_s = prepare(adapter, job, folder, events), job.trial.window_s
    turns = np.load(read_input((folder / job.results).resolve(), job.trial.inputs[TURNS]))
    prepared.build(adapter)
    del prepared.task  # the weights as they were given
    adapter.synchronize()
    events.write(Event.BUILT)
    sizes = sorted(turns[0].tolist())
    training = TrainingBlocks(adapter, prepared, sizes, events)
    blocks = rounds(adapter, Phase.TRAINING, turns, length_s, training.block)
    training.check()
    evaluation = EvaluationBlocks(adapter, prepared.test_images, sizes, events)
    blocks += rounds(adapter, Phase.EVALUATION, turns, length_s, evaluation.block)
    write_json(folder / BLOCKS_FILE, {"blocks": [asdict(block) for block in blocks]})
    events.write(Event.FINISHED)
