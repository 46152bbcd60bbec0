"""Run inside a framework's environment: python accumulated.py OUT_FILE ADAPTER_MODULE RULE...

Takes the adapter through updates of UPDATE images in parts of PART, and a last one of LAST; writes losses and weights.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]

import settings  # noqa: E402
from settings import BATCH_NORM, OPTIMIZERS, PLAIN, Arrays  # noqa: E402

from adapters.base import Adapter  # noqa: E402
from workloads import weights  # noqa: E402
from workloads.spec import OptimizerSpec, Workload  # noqa: E402

IMAGES, STEPS, UPDATE, PART, LAST = 96, 10, 64, 24, 37  # the last part of each update is smaller
NORMALISED, CHANGING = "batchnorm", "momentum-changing"
RULES = {**OPTIMIZERS, CHANGING: settings.changing("momentum"), NORMALISED: OPTIMIZERS["momentum"]}


def trained(adapter: Adapter, workload: Workload, rule: OptimizerSpec, part: int | None) -> Arrays:
    """{"losses": (STEPS + 1,), and each weight's name: its final value}."""
    generator = np.random.default_rng(7)
    images = generator.integers(0, 256, (IMAGES, *workload.input_shape), np.uint8)
    labels = generator.integers(0, workload.classes, IMAGES, np.int32)
    order = np.stack([generator.permutation(IMAGES)[:UPDATE] for _ in range(STEPS + 1)]).astype(np.int32)
    rates = (rule.learning_rate * np.resize(settings.PARTS, STEPS + 1)).astype(np.float32)
    first, last = (rates[:-1], rates[-1:]) if rule.changes_rate else (None, None)
    adapter.load(images, labels)
    adapter.build(workload, rule, weights.draw(workload, 3), 5)
    losses = [
        adapter.read(adapter.train(order[:-1], first, part)),
        adapter.read(adapter.train(order[-1:, :LAST], last, part)),
    ]
    return {"losses": np.concatenate(losses), **adapter.weights()}


def every(adapter: Adapter, part: int | None, names: Iterable[str] = RULES) -> Arrays:
    """{"RULE/name in `trained`": its array}."""
    return {
        f"{name}/{key}": array
        for name in names
        for key, array in trained(adapter, BATCH_NORM if name == NORMALISED else PLAIN, RULES[name], part).items()
    }


if __name__ == "__main__":
    adapter = import_module(sys.argv[2]).Adapter()
    adapter.open("cpu", settings.AT_ONCE, "default", "float32", "host", "on-demand")
    np.savez(sys.argv[1], **every(adapter, PART, sys.argv[3:]))  # type: ignore[arg-type]  # numpy's allow_pickle is no key of these
