"""Run inside a framework's environment: python timed_loop.py ROOT FRAMEWORK LOOP PRECISION BATCH_SIZE SECONDS THREADS

Prints JSON: images_per_s of a steady window of so many seconds, the process's page faults per step in it, and `losses`
of the first 20 steps. LOOP is a profile: the adapter in the checkout ROOT through the worker's own Trainer. Or it is a
loop of loops/FRAMEWORK_loops.py with its settings, as "by-hand+fused+channels-last", which gets the same images,
labels, weights and order. ROOT has workloads/heap.py (measurement version 4): a checkout without it cannot be timed.
"""

from __future__ import annotations

import inspect
import json
import resource
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

root, framework, loop, precision, batch_text, seconds_text, threads_text = sys.argv[1:]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [root, str(HERE)]

from adapters.base import Order  # noqa: E402
from adapters.worker.trainer import Rounds, Trainer, endless_batches, power_of_two  # noqa: E402
from workloads.catalogue import OSU_CNN  # noqa: E402
from workloads.heap import settle_heap  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402
from workloads.weights import draw  # noqa: E402

COUNT = 8192  # images, random: their content does not change the time
COMPARED = 20  # steps, whose losses show that two loops compute the same
FED = 2048  # images per call of the guide's own feed: a part of an epoch, so that a run is short
WARM_UP_S = 1.5
CALL_S = 0.1  # between two waits for the device, as the worker's calls

Train = Callable[[Order], list[float]]  # (steps, batch) -> losses, when the device is done
Timed = tuple[list[float], float, float]  # losses of the first steps, images/s, page faults per step


def worker(profile: str, threads: int) -> Trainer:
    """Make the worker's Trainer around the checkout's adapter."""
    settle_heap()
    adapter = import_module(f"adapters.{framework}.adapter").Adapter()
    mode = {"profile": profile, "precision": precision}
    known = inspect.signature(adapter.open).parameters  # that of another checkout may have no precision
    adapter.open("cpu", threads, *(mode[name] for name in mode if name in known), "host", "on-demand")
    adapter.load(images, labels)
    adapter.build(OSU_CNN, OPTIMIZER, weights, 0)
    return Trainer(adapter)


def page_faults() -> int:
    """Return the minor page faults of this process up to now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def of_worker(trainer: Trainer, batch_size: int, seconds: float) -> Timed:
    """Train by the worker's own loop."""
    trainer.run_timed(first)
    losses, rounds = list(trainer.losses), Rounds(order)
    for length_s in (WARM_UP_S, seconds):
        before, faults, started_s = trainer.images, page_faults(), time.monotonic()
        trainer.run(endless_batches(rounds, batch_size, trainer, started_s + length_s))
        seen, took_s = trainer.images - before, time.monotonic() - started_s
    return losses, seen / took_s, (page_faults() - faults) * batch_size / seen


def of_loop(train: Train, batch_size: int, seconds: float, steps: int | None) -> Timed:
    """Train by a loop that gets so many steps per call; None: as many as the worker gives an adapter."""
    losses = train(first)
    started_s = time.monotonic()
    train(first[:5])
    steps = steps or power_of_two(max(1, int(CALL_S * 5 / (time.monotonic() - started_s))))
    position = 0
    for length_s in (WARM_UP_S, seconds):
        seen, faults, started_s = 0, page_faults(), time.monotonic()
        while time.monotonic() < started_s + length_s:
            indices = np.arange(position, position + steps * batch_size) % COUNT
            train(order[indices].reshape(steps, batch_size))
            seen, position = seen + len(indices), int(indices[-1]) + 1
        took_s = time.monotonic() - started_s
    return losses, seen / took_s, (page_faults() - faults) * batch_size / seen


OPTIMIZER = OptimizerSpec.named("momentum")
chance = np.random.default_rng(0)
images = chance.integers(0, 256, (COUNT, *OSU_CNN.input_shape), dtype=np.uint8)
labels = chance.integers(0, OSU_CNN.classes, COUNT, dtype=np.int32)
order: NDArray[np.int32] = chance.permutation(COUNT).astype(np.int32)
weights = draw(OSU_CNN, 0)
size = int(batch_text)
first = np.resize(order, (COMPARED, size))

loops = import_module(f"loops.{framework}_loops")
name, *settings = loop.split("+")
if make := (loops.LOOPS | loops.FEEDS | loops.TRAINERS).get(name):
    # A trainer's work around an epoch is not part of a step.
    epoch = COUNT // size if name in loops.TRAINERS else max(1, FED // size) if name in loops.FEEDS else None
    train = make(images, labels, weights, int(threads_text), set(settings))
    told = of_loop(train, size, float(seconds_text), epoch)
else:
    told = of_worker(worker(loop, int(threads_text)), size, float(seconds_text))
print(json.dumps(dict(zip(("losses", "images_per_s", "page_faults_per_step"), told, strict=True))))
