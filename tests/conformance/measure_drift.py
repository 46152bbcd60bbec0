"""Measure the drift of correct frameworks by rounding, per epoch: python measure_drift.py FRAMEWORK OUT.jsonl SEED...

Run inside a framework's environment, once for each framework into a separate file; one line per run. show_drift.py next
to it prints what the lines of several frameworks say together.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent)]

from adapters.base import Adapter  # noqa: E402
from adapters.worker.trainer import Trainer, epoch_batches  # noqa: E402
from adapters.worker.trial import evaluate  # noqa: E402
from workloads import datasets, weights  # noqa: E402
from workloads.catalogue.osu_cnn import OSU_CNN  # noqa: E402
from workloads.datasets import Split  # noqa: E402
from workloads.layers import BatchNorm, Conv2D  # noqa: E402
from workloads.spec import OPTIMIZER_NAMES, OptimizerSpec, Workload  # noqa: E402

# {batch size: epochs}: up to some 50 updates, after which rounding has grown as far as it may.
EPOCHS = {1024: 10, 512: 10, 256: 8, 128: 4, 64: 2, 32: 1}
NORMALISED_EPOCHS = {512: 5, 128: 2, 32: 1}
MOST = 10


def normalised() -> Workload:
    """osu-cnn with a BatchNorm after every convolution."""
    layers = []
    for layer in OSU_CNN.layers:
        layers += [layer, BatchNorm(f"{layer.name}_norm")] if isinstance(layer, Conv2D) else [layer]
    return replace(OSU_CNN, name="osu-cnn-batchnorm", layers=tuple(layers))


def run(
    adapter: Adapter, case: tuple[Workload, int, int], optimizer: OptimizerSpec, seed: int, train: Split, test: Split
) -> list[tuple[float, float, float]]:
    """Train `case` (workload, batch size, epochs); return [(mean training loss, test loss, test accuracy)] of each
    epoch."""
    workload, batch_size, epochs = case
    order = datasets.batch_order(len(train.images), MOST, seed)
    adapter.build(workload, optimizer, weights.draw(workload, seed), seed)
    trainer, figures = Trainer(adapter), []
    for epoch in range(epochs):
        first = len(trainer.losses)
        for block in epoch_batches(order[epoch], batch_size, "keep"):
            trainer.run(trainer.calls(block))
        loss = float(np.mean(trainer.losses[first:]))
        figures.append((loss, *evaluate(adapter, test.images, test.labels, max(batch_size, 64))))
    return figures


def main(framework: str, out: Path, seeds: Sequence[int]) -> None:
    adapter = import_module(f"adapters.{framework}.adapter").Adapter()
    adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
    train, test = datasets.load(datasets.DATASETS["digits"], Path(), OSU_CNN.input_shape)
    adapter.load(train.images, train.labels)
    cases = [(OSU_CNN, *case) for case in EPOCHS.items()] + [
        (normalised(), *case) for case in NORMALISED_EPOCHS.items()
    ]
    cases.sort(key=lambda case: case[1] * case[2])  # the quick ones first
    for seed in seeds:
        for workload, size, epochs in cases:
            for rule in OPTIMIZER_NAMES:
                optimizer = OptimizerSpec.named(rule)
                figures = run(adapter, (workload, size, epochs), optimizer, seed, train, test)
                line = {"framework": framework, "workload": workload.name, "optimizer": rule, "batch_size": size}
                with out.open("a") as file:
                    print(json.dumps(line | {"seed": seed, "epochs": figures}), file=file)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), [int(seed) for seed in sys.argv[3:]])
