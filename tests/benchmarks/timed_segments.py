"""Run inside a framework's environment: python timed_segments.py ROOT FRAMEWORK BATCH_SIZE ROUNDS SECONDS THREADS

Prints JSON: for each round images_per_s and peak_bytes of a steady window cut from epochs and of one after epochs, in
turn in one process. There is no round where a trial would cut no window. Epochs have as many images as the built-in
digits, with an evaluation after each.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

root, framework, batch_text, rounds_text, seconds_text, threads_text = sys.argv[1:]
sys.path.insert(0, root)

from adapters.worker.event_log import EventLog  # noqa: E402
from adapters.worker.steady import FIRST_EPOCH, WindowTrainer, are_long_enough  # noqa: E402
from adapters.worker.trainer import Trainer, epoch_batches  # noqa: E402
from adapters.worker.trial import compute_logits, train_epoch  # noqa: E402
from workloads.catalogue import OSU_CNN  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402
from workloads.weights import draw  # noqa: E402

TRAIN, TEST = 1437, 360

size, window_s = int(batch_text), float(seconds_text)
chance = np.random.default_rng(0)
images, tested = (chance.integers(0, 256, (count, *OSU_CNN.input_shape), dtype=np.uint8) for count in (TRAIN, TEST))
labels, wanted = (chance.integers(0, OSU_CNN.classes, count, dtype=np.int32) for count in (TRAIN, TEST))
order = chance.permutation(TRAIN).astype(np.int32)
adapter = import_module(f"adapters.{framework}.adapter").Adapter()
adapter.open("cpu", int(threads_text), "default", "float32", "host", "on-demand")
adapter.load(images, labels)
adapter.build(OSU_CNN, OptimizerSpec.named("momentum"), draw(OSU_CNN, 0), 0)
trainer, events = Trainer(adapter), EventLog(Path(os.devnull))


def epoch(number: int, window: WindowTrainer) -> None:
    """Train an epoch and evaluate it."""
    train_epoch(trainer, number, epoch_batches(order, size, "keep"), events, window)
    compute_logits(adapter, tested, size)


def cut(window: WindowTrainer) -> None:
    """Cut the window from epochs, as in a trial."""
    window.cut = True
    while window.wants(FIRST_EPOCH):
        epoch(FIRST_EPOCH, window)
    if window.missing_s > 0:
        window.train_on(order, size)


def behind(window: WindowTrainer) -> None:
    """Train the window after the epochs."""
    window.train_on(order, size)


for number in range(FIRST_EPOCH):
    epoch(number, WindowTrainer(trainer, events, window_s))
told = []
for number in range(int(rounds_text) if are_long_enough(TRAIN // size, trainer) else 0):
    measured = {}
    for measure in (cut, behind) if number % 2 else (behind, cut):
        window = WindowTrainer(trainer, events, window_s)
        measure(window)
        length_s = sum(end - start for start, end in window.segments) / 1e9
        measured[measure.__name__] = {"images_per_s": window.images / length_s, "peak_bytes": window.peak_bytes}
    told.append(measured)
print(json.dumps(told))
