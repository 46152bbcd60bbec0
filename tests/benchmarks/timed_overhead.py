"""Run inside a framework's environment: python timed_overhead.py ROOT FRAMEWORK BATCH_SIZE PAIRS THREADS SAMPLER FOLDER

Prints JSON: for each pair of stretches of the same work {"with", "without"}, each with images_per_s, sampler_cpu_s,
wall_s and foreign_cpu_percent. The sampler, process SAMPLER, is stopped (SIGSTOP) in stretches "without", and no event
is written.

A stretch lasts 0.2 s: neighbouring stretches differ by as much as longer ones do, so many short pairs give more
information. The result is an upper bound: the sampler makes up for samples that it missed, and an event is written
after every call.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np

root, framework, batch_text, pairs_text, threads_text, sampler_text, folder = sys.argv[1:]
sys.path.insert(0, root)

from adapters.worker.event_log import EventLog  # noqa: E402
from adapters.worker.steps import CORES  # noqa: E402
from adapters.worker.trainer import Trainer, epoch_batches  # noqa: E402
from adapters.worker.trial import warm_up  # noqa: E402
from workloads.catalogue import OSU_CNN  # noqa: E402
from workloads.processor_time import read_busy_s  # noqa: E402
from workloads.records.columns import PERIOD_S  # noqa: E402
from workloads.records.events import Event  # noqa: E402
from workloads.records.files import EVENTS_FILE  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402
from workloads.weights import draw  # noqa: E402

TRAIN = 1437  # images, as many as the built-in digits
STRETCH_S = 2 * PERIOD_S
FEWEST_CALLS = 2
SWITCH_S = 5.0  # a process stops when it next returns from the kernel; a driver may hold it for a while

size, sampler = int(batch_text), int(sampler_text)
chance = np.random.default_rng(0)
images = chance.integers(0, 256, (TRAIN, *OSU_CNN.input_shape), dtype=np.uint8)
order = chance.permutation(TRAIN).astype(np.int32)
adapter = import_module(f"adapters.{framework}.adapter").Adapter()
adapter.open("cpu", int(threads_text), "default", "float32", "host", "on-demand")
adapter.load(images, chance.integers(0, OSU_CNN.classes, TRAIN, dtype=np.int32))
adapter.build(OSU_CNN, OptimizerSpec.named("momentum"), draw(OSU_CNN, 0), 0)
events, trainer = EventLog(Path(folder) / EVENTS_FILE), Trainer(adapter)

clock = ctypes.c_int()
if error := ctypes.CDLL(None).clock_getcpuclockid(sampler, ctypes.byref(clock)):
    raise OSError(error, os.strerror(error))


def stands_still() -> bool:
    """True if the sampler is stopped. Reads one letter of /proc/PID/stat, see proc(5); the name before it may hold
    blanks and brackets."""
    return Path(f"/proc/{sampler}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def switch(running: bool) -> None:
    """Wait until the sampler runs or is stopped; raises RuntimeError where it does not."""
    os.kill(sampler, signal.SIGCONT if running else signal.SIGSTOP)
    until = time.monotonic() + SWITCH_S
    while stands_still() == running and time.monotonic() < until:
        time.sleep(0.001)
    if stands_still() == running:
        raise RuntimeError(f"the sampler was told to {'run' if running else 'stand still'}, and does not")


def same_work() -> list[np.ndarray]:
    """Return calls of full batches, round and round one permutation, for a stretch."""
    steps = trainer.steps_a_call()
    calls = max(FEWEST_CALLS, math.ceil(STRETCH_S / (steps * trainer.step_s)))
    return list(np.resize(order, calls * steps * size).reshape(calls, steps, size))


def stretch(instruments: bool) -> dict[str, float]:
    """Measure one stretch, with the instruments or without."""
    switch(instruments)
    seen, before = trainer.images, (read_busy_s(CORES), time.process_time(), time.clock_gettime(clock.value))
    started = time.monotonic()
    for number, call in enumerate(calls):
        trainer.run(iter([call]))
        if instruments:
            events.write(Event.EPOCH_TRAINED, epoch=number, steps=len(call), images=call.size, train_loss=0.0)
    wall_s = time.monotonic() - started
    after = read_busy_s(CORES), time.process_time(), time.clock_gettime(clock.value)
    every_s, own_s, sampler_s = (end - start for start, end in zip(before, after, strict=True))
    if stands_still() == instruments:
        raise RuntimeError("the sampler changed its state in a stretch")
    foreign_percent = 100 * (every_s - own_s - sampler_s) / (wall_s * len(CORES))
    speed = (trainer.images - seen) / wall_s
    return {"images_per_s": speed, "sampler_cpu_s": sampler_s, "wall_s": wall_s, "foreign_cpu_percent": foreign_percent}


warm_up(trainer, epoch_batches(order, size, "keep"), events)
for _ in range(2):  # a step is timed over a stretch's length; then calls of that length have been compiled, too
    trainer.run_timed(np.concatenate(same_work()))
calls = same_work()
pairs = []
try:
    for number in range(int(pairs_text)):  # with, without, without: a machine that slows down affects both alike
        kinds = ("with", "without") if number % 2 == 0 else ("without", "with")
        pairs.append({kind: stretch(kind == "with") for kind in kinds})
finally:
    with suppress(ProcessLookupError):
        os.kill(sampler, signal.SIGCONT)
print(json.dumps(pairs))
