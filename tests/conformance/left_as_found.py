"""Run inside a framework's environment: python left_as_found.py ADAPTER_MODULE OUT_FILE [SIZE ...]

Trains as a worker does, and does in between what a worker does around its steps. Writes JSON: by what was done, how
many threads the process then has, and how often a training step is interrupted. With sizes: the same by batch size.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

import settings  # noqa: E402

from adapters.base import Adapter  # noqa: E402
from adapters.worker import end_probe, host, trial  # noqa: E402
from adapters.worker.trainer import Trainer  # noqa: E402
from workloads.catalogue.osu_cnn import OSU_CNN  # noqa: E402
from workloads.heap import settle_heap  # noqa: E402
from workloads.layers import Dense  # noqa: E402
from workloads.spec import OptimizerSpec, Workload  # noqa: E402
from workloads.weights import draw  # noqa: E402

COUNT, EVALUATED, BATCH = 512, 128, 8  # images; 128 have 393,216 elements, from 200,000 on MXNet copies otherwise
ROUNDS, SETTLING, STEPS = 3, 4, 7
UNITS = 256  # a kernel of 262,144 weights in front of as many units
MOMENTUM = OptimizerSpec.named("momentum")

Counts = dict[str, float]


def threads() -> int:
    """Of this process, now."""
    return len(list((host.PROC / "task").iterdir()))


def build(adapter: Adapter, workload: Workload) -> None:
    """With weights of its own."""
    adapter.build(workload, MOMENTUM, draw(workload, 0), 0)


def count(adapter: Adapter, size: int) -> Counts:
    """Return the least of some rounds' medians per step.

    A heap that still grows spoils a round, and a neighbour some steps; what a step itself costs is in every round.
    """
    trainer, order = Trainer(adapter), np.arange(size, dtype=np.int32)[None] % COUNT
    rounds: list[NDArray[np.float64]] = []
    for _ in range(ROUNDS):
        steps: list[NDArray[np.int64]] = []
        for _ in range(SETTLING + STEPS):
            before = np.array(host.interruptions())
            trainer.run(iter([order]))
            steps.append(np.array(host.interruptions()) - before)
        rounds.append(np.median(steps[SETTLING:], axis=0))
    faults, switches = np.min(rounds, axis=0).tolist()
    return {"threads": threads(), "page_faults": faults, "context_switches": switches}


def count_memory(adapter: Adapter) -> None:
    """As behind a trial."""
    adapter.memory()
    host.reset_peak()
    host.counts()
    host.proportional_bytes()


def replace_network(adapter: Adapter) -> None:
    """By one with large arrays, whose weights are copied; and back."""
    layers = (replace(each, units=UNITS) if isinstance(each, Dense) else each for each in OSU_CNN.layers[:-1])
    build(adapter, replace(OSU_CNN, layers=(*layers, OSU_CNN.layers[-1])))
    end_probe.outstanding(adapter)
    build(adapter, OSU_CNN)


def main(adapter: Adapter, sizes: list[int]) -> dict[str, Counts]:
    """What is found, by what was done before."""
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (COUNT, *OSU_CNN.input_shape), dtype=np.uint8)
    labels = chance.integers(0, OSU_CNN.classes, COUNT, dtype=np.int32)
    settle_heap()
    adapter.open("cpu", settings.THREADS, "default", "float32", "host", "on-demand")
    adapter.load(images, labels)
    build(adapter, OSU_CNN)
    if sizes:
        return {str(size): count(adapter, size) for size in sizes}
    done: dict[str, Callable[[], object]] = {
        "training": lambda: count(adapter, BATCH),
        "memory": lambda: count_memory(adapter),
        "copies": lambda: end_probe.outstanding(adapter),
        "evaluation": lambda: trial.evaluate(adapter, images, labels, EVALUATED),
        "probe": lambda: adapter.probe(images[:EVALUATED], labels[:EVALUATED]),
        "network": lambda: replace_network(adapter),
    }
    found = {}
    for name, do in done.items():
        do()
        found[name] = count(adapter, BATCH)
    return found


if __name__ == "__main__":
    told = main(import_module(sys.argv[1]).Adapter(), [int(size) for size in sys.argv[3:]])
    Path(sys.argv[2]).write_text(json.dumps(told))
