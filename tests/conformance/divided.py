"""Run inside a framework's environment: python divided.py OUT_FILE FRAMEWORK DEVICES PROFILE FEED RULE...

Takes the framework's adapter with so many devices through updates of UPDATE images and smaller ones, LASTS. The last of
them leaves a device without any image. Writes losses, logits, weights, and what is said to updates in parts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]

import settings  # noqa: E402
from accumulated import CHANGING, IMAGES, NORMALISED, RULES, STEPS, UPDATE  # noqa: E402
from settings import BATCH_NORM, PLAIN, Arrays  # noqa: E402

from adapters.base import Adapter, Unsupported  # noqa: E402
from adapters.worker.__main__ import adapter_for  # noqa: E402
from workloads import weights  # noqa: E402
from workloads.spec import OptimizerSpec, Workload  # noqa: E402

LASTS = (37, 3)  # BatchNorm of vectors wants two images per device


def trained(adapter: Adapter, workload: Workload, rule: OptimizerSpec) -> Arrays:
    """{"losses": (steps,), "logits", and each weight's name: its final value}."""
    generator = np.random.default_rng(7)
    images = generator.integers(0, 256, (IMAGES, *workload.input_shape), np.uint8)
    labels = generator.integers(0, workload.classes, IMAGES, np.int32)
    order = np.stack([generator.permutation(IMAGES)[:UPDATE] for _ in range(STEPS + 2)]).astype(np.int32)
    rates = (rule.learning_rate * np.resize(settings.PARTS, STEPS + 2)).astype(np.float32)
    adapter.load(images, labels)
    adapter.build(workload, rule, weights.draw(workload, 3), 5)
    lasts = LASTS[:1] if workload.statistic_shapes() else LASTS
    calls = [order[:4], order[4:STEPS], *(order[STEPS + number, None, :size] for number, size in enumerate(lasts))]
    losses, done = [], 0
    for call in calls:
        of_call = rates[done : done + len(call)] if rule.changes_rate else None
        losses.append(adapter.read(adapter.train(call, of_call)))
        done += len(call)
    return {"losses": np.concatenate(losses), "logits": adapter.predict(images[:5]), **adapter.weights()}


def every(adapter: Adapter, names: Iterable[str] = RULES) -> Arrays:
    """{"RULE/name in `trained`": its array}; models are built one after the other."""
    return {
        f"{name}/{key}": array
        for name in names
        for key, array in trained(adapter, BATCH_NORM if name == NORMALISED else PLAIN, RULES[name]).items()
    }


def ask_for_parts(adapter: Adapter) -> str:
    """Return the reason why an update in parts of two images is refused; an empty text if it is not."""
    try:
        adapter.train(np.arange(8, dtype=np.int32)[None], part=2)
    except Unsupported as error:
        return str(error)
    return ""


assert CHANGING in RULES  # velocities are corrected on every device

if __name__ == "__main__":
    adapter = adapter_for(sys.argv[2], int(sys.argv[3]))
    adapter.open("cpu", 1, sys.argv[4], "float32", sys.argv[5], "on-demand")
    arrays = every(adapter, sys.argv[6:]) | {"refused": np.array(ask_for_parts(adapter))}
    np.savez(sys.argv[1], **arrays)  # type: ignore[arg-type]  # numpy's allow_pickle is no key of these
