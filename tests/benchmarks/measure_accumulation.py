"""Run inside a framework's environment, with OMP_NUM_THREADS=1: python measure_accumulation.py FRAMEWORK [K]

Measures an update of `osu-cnn` by 1,024 images of digits on one thread, in K parts. Without K: the processor time of
each split, in turn, as a share of that in one batch. With K: the highest resident size of a process that made four of
them.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from adapters.base import Adapter
from adapters.worker import host
from workloads import datasets, weights
from workloads.networks import WORKLOADS
from workloads.spec import OptimizerSpec

IMAGES, SPLITS = 1024, (1, 2, 4, 8, 16, 32, 64)
ROUNDS, WARM_UP = 6, 2


def update(adapter: Adapter, number: int) -> None:
    order = np.random.default_rng(number).permutation(1437)[None, :IMAGES].astype(np.int32)
    adapter.read(adapter.train(order, None, None if number == 1 else IMAGES // number))
    adapter.synchronize()


def costs(adapter: Adapter) -> None:
    """Print the cost of each split. Each round goes in the other direction: drift affects all alike."""
    seconds: dict[int, list[float]] = {number: [] for number in SPLITS}
    for turn in range(ROUNDS):
        for number in SPLITS if turn % 2 else SPLITS[::-1]:
            began_s = time.process_time()
            update(adapter, number)
            seconds[number].append(time.process_time() - began_s)
    whole = np.array(seconds[1][WARM_UP:])
    for number, each in seconds.items():
        parts = np.array(each[WARM_UP:]) / whole
        told = f"{np.median(each[WARM_UP:]):.3f} s, {np.median(parts):.2f} ({parts.min():.2f} to {parts.max():.2f})"
        print(f"{number} x {IMAGES // number}: {told} of 1 x {IMAGES}")


if __name__ == "__main__":
    adapter: Adapter = import_module(f"adapters.{sys.argv[1]}.adapter").Adapter()
    adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
    workload = WORKLOADS["osu-cnn"]
    train, _ = datasets.load(datasets.DATASETS["digits"], Path(), workload.input_shape)
    adapter.load(train.images, train.labels)
    adapter.build(workload, OptimizerSpec.named("momentum"), weights.draw(workload, 0), 0)
    if len(sys.argv) == 2:
        costs(adapter)
    else:
        for _turn in range(4):
            update(adapter, int(sys.argv[2]))
        print(f"{sys.argv[2]} x {IMAGES // int(sys.argv[2])}: {(host.peak_resident_bytes() or 0) / 2**20:.0f} MiB")
