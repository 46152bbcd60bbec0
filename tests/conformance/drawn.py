"""Run inside a framework's environment: python drawn.py ADAPTER_MODULE PROFILE THREADS OUT_FILE FIRST LAST NETWORK...

Gathers the gate's evidence for draws number FIRST to LAST - 1 of each network and writes each as a line of JSON. A draw
has the initial weights, images, their order and the optimizer of one trial; its number decides all of it.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]

import settings  # noqa: E402
import traced_once  # noqa: E402

from adapters.worker import first_probe  # noqa: E402
from adapters.worker.prepare import BuildArguments  # noqa: E402
from workloads import datasets, weights  # noqa: E402
from workloads.datasets import Images, Labels  # noqa: E402
from workloads.layers import Shape  # noqa: E402
from workloads.networks import WORKLOADS  # noqa: E402
from workloads.records.evidence import BATCHES, PROBES  # noqa: E402
from workloads.records.files import without_nan  # noqa: E402
from workloads.spec import OPTIMIZER_NAMES, OptimizerSpec  # noqa: E402

SMALL = (
    settings.PLAIN,
    settings.BATCH_NORM,
    settings.STATISTICS,
    settings.PADDING,
    settings.MOBILE,
    settings.BINARY,
    settings.BRANCHES,
    settings.POOLING,
    settings.GROUPED,
    settings.TRANSFORMER,
    settings.SMOOTH,
)
NETWORKS = WORKLOADS | {network.name: network for network in SMALL}
IMAGES = PROBES * sum(BATCHES)


def digits(shape: Shape, generator: np.random.Generator) -> tuple[Images, Labels]:
    """Images of the built-in digits, cut where they are larger than `shape`, with ten labels."""
    height, width, _ = shape
    split, _ = datasets.load(datasets.DATASETS["digits"], Path(), (max(height, 8), max(width, 8), 3))
    chosen = generator.choice(len(split.images), IMAGES, replace=False)
    return split.images[chosen, :height, :width], split.labels[chosen]


def draw(name: str, number: int) -> tuple[BuildArguments, Images, Labels]:
    """(workload, optimizer, weights, seed, images, labels, order), as `gather` takes them.

    Noise alternates with digits, optimizers take turns, and initial biases alternate with biases that do not hide
    mistakes. A sigmoid output always has the latter: MXNet's loss has another gradient where a logit is exactly 0. That
    happens in a network of a few dead units.
    """
    workload = NETWORKS[name]
    generator = np.random.Generator(np.random.PCG64([2020, number]))
    rule = OPTIMIZER_NAMES[number % 4]
    of_the_suite = name not in WORKLOADS and number // 16 % 2
    optimizer = settings.OPTIMIZERS[rule] if of_the_suite else OptimizerSpec.named(rule)
    images: Images
    labels: Any  # int64 where drawn
    if number // 4 % 2:
        images, labels = digits(workload.input_shape, generator)
    else:
        images = generator.integers(0, 256, (IMAGES, *workload.input_shape), np.uint8)
        labels = generator.integers(0, workload.classes, IMAGES)
    initial = weights.draw(workload, seed=number)
    if number // 8 % 2 or workload.loss == "binary-cross-entropy":
        for key, array in initial.items():
            if array.ndim == 1:
                initial[key] = (array + generator.uniform(0, 0.25, array.shape)).astype(np.float32)
    labels = (labels % workload.classes).astype(np.int32)
    return (workload, optimizer, initial, number), images, labels


def main(module: str, precision: str, threads: str, out: str, first: str, last: str, *names: str) -> None:
    adapter = import_module(module).Adapter()
    adapter.open("cpu", int(threads), "default", precision, "host", "on-demand")
    if module == "adapters.tensorflow.adapter":  # the correct one only: mistakes must show unaided
        traced_once.trace_once(adapter)
    with Path(out).open("w", encoding="utf-8") as file:
        for name in names:
            for number in range(int(first), int(last)):
                task, images, labels = draw(name, number)
                adapter.load(images, labels)
                order = np.arange(IMAGES, dtype=np.int32)
                evidence = first_probe.gather(adapter, task, images, labels, order).to_json()
                line = {"network": name, "number": number, "optimizer": task[1].name, "evidence": evidence}
                file.write(json.dumps(without_nan(line), allow_nan=False) + "\n")
                file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
