"""Run inside a framework's environment: python left_as_found.py ADAPTER_MODULE OUT_FILE [SIZE ...|DONE ...]

Trains as a worker does, with the worker's other actions between steps. Writes JSON. Per action it has the number of
threads, how often a training step is interrupted, and how much of a freed block the heap gives back. With sizes: the
same per batch size. With names of actions: after these only.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
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
from adapters.worker.middle_probe import MiddleProbe  # noqa: E402
from adapters.worker.prepare import Prepared  # noqa: E402
from adapters.worker.trainer import Trainer  # noqa: E402
from workloads.catalogue import OSU_CNN  # noqa: E402
from workloads.datasets import Split  # noqa: E402
from workloads.heap import LARGEST_RAISING_BYTES, settle_heap  # noqa: E402
from workloads.layers import Dense  # noqa: E402
from workloads.records.end_evidence import MIDDLE_FILE  # noqa: E402
from workloads.records.job import ON_DEMAND, Cell, Draw, Installation, Passes, Placement, Task, TrialSpec  # noqa: E402
from workloads.spec import OptimizerSpec, Workload  # noqa: E402
from workloads.weights import draw  # noqa: E402

COUNT, EVALUATED, BATCH = 512, 128, 8  # images; 128 have 393,216 elements: from 200,000 on MXNet copies in another way
ROUNDS, SETTLING, STEPS = 3, 4, 7
FILLERS = 4  # free gaps as large as a block that a heap is assumed to have
UNITS = 256  # a kernel of 262,144 weights in front of as many units
MOMENTUM = OptimizerSpec.named("momentum")
SPEC = TrialSpec(
    Cell("tried", BATCH, ON_DEMAND), Task(OSU_CNN.name, "drawn", MOMENTUM, "default", "host"), Passes(2, "keep"),
    Placement("cpu", settings.THREADS, {}), Installation("here", "-"), Draw(0, 0), {}, 1.0, 60.0, "test",
)  # fmt: skip

Counts = dict[str, float]


def threads() -> int:
    """Return the number of this process's threads."""
    return len(list((host.PROC / "task").iterdir()))


def build(adapter: Adapter, workload: Workload) -> None:
    """Build the network with freshly drawn weights."""
    adapter.build(workload, MOMENTUM, draw(workload, 0), 0)


def count(adapter: Adapter, size: int) -> Counts:
    """Return the least of some rounds' medians per step.

    A heap that still grows spoils a round, and another process some steps; the cost of a step itself is in every round.
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
    counts = {"threads": threads(), "page_faults": faults, "context_switches": switches}
    return counts | {"given_back_mib": given_back_mib()}


def given_back_mib() -> float:
    """Return how much of a freed block the kernel gets back; the block is as large as a settled heap keeps.

    Blocks before it fill the free memory below the heap's top, so that it lies at the top: memory freed elsewhere
    always stays. This reads memory rather than page faults: with huge pages the next block would have few of them.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    *fillers, block = [libc.malloc(LARGEST_RAISING_BYTES) for _ in range(1 + FILLERS)]
    ctypes.memset(block, 1, LARGEST_RAISING_BYTES)
    before = host.resident_bytes()
    libc.free(block)
    after = host.resident_bytes()
    for filler in reversed(fillers):
        libc.free(filler)
    assert before is not None and after is not None
    return (before - after) / 2**20


def count_memory(adapter: Adapter) -> None:
    """Count memory as a worker does after a trial."""
    adapter.memory()
    host.reset_peak()
    host.counts()
    host.proportional_bytes()


def replace_network(adapter: Adapter) -> None:
    """Build a network with large arrays, whose weights are copied; then the first one again."""
    layers = (replace(each, units=UNITS) if isinstance(each, Dense) else each for each in OSU_CNN.layers[:-1])
    build(adapter, replace(OSU_CNN, layers=(*layers, OSU_CNN.layers[-1])))
    end_probe.outstanding(adapter)
    build(adapter, OSU_CNN)


def ask_in_the_middle(adapter: Adapter, split: Split) -> None:
    """Ask the middle probe as in a trial, between two evaluations."""
    rows = np.arange(8 * BATCH, dtype=np.int32).reshape(-1, BATCH)
    prepared = Prepared(split, split.images, rows, (OSU_CNN, MOMENTUM, {}, 0))
    with tempfile.TemporaryDirectory() as folder:
        MiddleProbe(SPEC, OSU_CNN, prepared, Path(folder)).ask(Trainer(adapter), 1, rows)
        with np.load(Path(folder) / MIDDLE_FILE) as saved:
            assert "reason" not in saved.files, str(saved["reason"])


def main(adapter: Adapter, sizes: list[int], names: list[str]) -> dict[str, Counts]:
    """Return what was counted, by the action before."""
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (COUNT, *OSU_CNN.input_shape), dtype=np.uint8)
    labels = chance.integers(0, OSU_CNN.classes, COUNT, dtype=np.int32)
    settle_heap()
    adapter.open("cpu", settings.THREADS, "default", "float32", "host", "on-demand")
    found: dict[str, Counts] = {"open": {"threads": threads()}}
    adapter.load(images, labels)
    build(adapter, OSU_CNN)
    if sizes:
        return {str(size): count(adapter, size) for size in sizes}
    done: dict[str, Callable[[], object]] = {
        "training": lambda: count(adapter, BATCH),
        "memory": lambda: count_memory(adapter),
        "copies": lambda: end_probe.outstanding(adapter),
        "evaluation": lambda: trial.compute_logits(adapter, images, EVALUATED),
        "probe": lambda: adapter.probe(images[:EVALUATED], labels[:EVALUATED]),
        "network": lambda: replace_network(adapter),
        "load": lambda: adapter.load(images, labels),
        "middle": lambda: ask_in_the_middle(adapter, Split(images, labels)),
    }
    for name in names or done:
        done[name]()
        found[name] = count(adapter, BATCH)
    return found


if __name__ == "__main__":
    chosen = sys.argv[3:]
    told = main(
        import_module(sys.argv[1]).Adapter(),
        [int(word) for word in chosen if word.isdigit()],
        [word for word in chosen if not word.isdigit()],
    )
    Path(sys.argv[2]).write_text(json.dumps(told))
