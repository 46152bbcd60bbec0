"""The referee's evidence of a small workload, as the gate finds it in a probe's events, and ways to disturb it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from adapters.numpy.adapter import Adapter
from adapters.worker import first_probe
from runner.gate.tolerances import Truth
from workloads import weights
from workloads.layers import BatchNorm, Conv2D, Dense, Dropout, Flatten, MaxPool2D, Relu
from workloads.records.evidence import Evidence
from workloads.records.files import without_nan
from workloads.spec import OptimizerSpec, Workload

SEED = 5
OPTIMIZER = OptimizerSpec("momentum", 0.01)
PLAIN = Workload(
    "plain",
    "",
    (11, 7, 3),
    (
        Conv2D("conv1", 4, (3, 3)),
        BatchNorm("norm"),
        Relu("relu1"),
        MaxPool2D("pool", 2),
        Conv2D("conv2", 6, (2, 2)),
        Relu("relu2"),
        Flatten("flatten"),
        Dense("dense1", 8),
        Relu("relu3"),
        Dense("dense2", 4),
    ),
)
DROPPING = replace(PLAIN, name="dropping", layers=(*PLAIN.layers[:-1], Dropout("dropout", 0.5), PLAIN.layers[-1]))

_generator = np.random.Generator(np.random.PCG64(1))
IMAGES = _generator.integers(0, 256, (30, *PLAIN.input_shape), np.uint8)
LABELS = _generator.integers(0, PLAIN.classes, len(IMAGES)).astype(np.int32)
ORDER = _generator.permutation(len(IMAGES)).astype(np.int32)


def opened(adapter: Any = None, precision: str = "float32") -> Any:
    """Open the referee, or the adapter that is given, ready for a `build`."""
    adapter = adapter or Adapter()
    adapter.open("cpu", 1, "default", precision, "host", "on-demand")
    adapter.load(IMAGES, LABELS)
    return adapter


def gathered(
    adapter: Adapter, workload: Workload = PLAIN, optimizer: OptimizerSpec = OPTIMIZER, order: Any = ORDER
) -> Evidence:
    """Gather evidence from an opened adapter."""
    task = (workload, optimizer, weights.draw(workload, SEED), SEED)
    return first_probe.gather(adapter, task, IMAGES, LABELS, order)


@cache
def truth(workload: Workload = PLAIN, optimizer: OptimizerSpec = OPTIMIZER) -> Truth:
    exact, rounded = (gathered(opened(precision=each), workload, optimizer) for each in ("float64", "float32"))
    return Truth(through_json(exact), through_json(rounded))


def through_json(evidence: Evidence) -> Evidence:
    """Convert evidence as the runner reads it: lists for tuples, None for what is not a number."""
    return Evidence.from_json(json.loads(json.dumps(without_nan(evidence.to_json()), allow_nan=False)))


def moved(evidence: Evidence, where: str, key: str | int | None, by: float) -> Evidence:
    """Move one value of the field `where` by that part of its size, in every probe. In a fingerprint the projections
    move, in a list of losses the one at index `key`, in updates those of `key` after the first step."""
    return everywhere(evidence, lambda probe: _moved(probe, where, key, by))


def _moved(evidence: Evidence, where: str, key: Any, by: float) -> Evidence:
    value = getattr(evidence, where)
    if where == "updates":
        return replace(evidence, updates={**value, "1": {**value["1"], key: pushed(value["1"][key], by)}})
    if isinstance(value, dict):
        changed: dict[str, Any] = {where: {**value, key: pushed(value[key], by)}}
        return replace(evidence, **changed)
    if where == "losses":
        return replace(evidence, losses=[loss * (1 + by * (i == key)) for i, loss in enumerate(value)])
    if isinstance(value, list):
        return replace(evidence, **{where: pushed(value, by)})
    return replace(evidence, **{where: value * (1 + by)})


def everywhere(evidence: Evidence, change: Callable[[Evidence], Evidence]) -> Evidence:
    """Apply the change to every probe."""
    return replace(change(evidence), again=[change(other) for other in evidence.again])


def pushed(fingerprint: Any, by: float) -> Any:
    """Move every projection of a fingerprint by that part of its norm."""
    norm, *projections = fingerprint
    return [norm, *(projection + by * norm for projection in projections)]
