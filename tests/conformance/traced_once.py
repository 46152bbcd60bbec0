"""TensorFlow's adapter when it is to build what it has just built: its variables as they were then replace new ones.

A step of new variables is traced anew, which takes seconds; the suite builds each case again for every probe of the
gate. The result is the same to the bit: `test_traced_once.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

Task = tuple[Workload, OptimizerSpec, int]


def trace_once(adapter: Any) -> None:
    """Change an opened adapter: `build` of the same task and weights as before restores all that was there when that
    build ended. A workload that draws masks is always built, for its generators' sake."""
    build: Callable[..., None] = adapter.build
    built: tuple[Task, Weights, list[tuple[Any, np.ndarray]]] | None = None

    def build_or_restore(workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int) -> None:
        nonlocal built
        task = (workload, optimizer, seed)
        if built and built[0] == task and same(built[1], weights):
            for variable, value in built[2]:
                variable.assign(value)
            return
        built = None  # before its contents are built anew
        build(workload, optimizer, weights, seed)
        if not workload.draws:
            built = (task, weights, [(each, np.array(each.numpy())) for each in variables(adapter)])

    adapter.build = build_or_restore


def same(one: Weights, other: Weights) -> bool:
    """True if both are equal to the bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def variables(adapter: Any) -> list[Any]:
    """List the model's variables, the optimizer's and the loss scaler's."""
    return [*adapter.model.variables, *adapter.optimizer.variables, *adapter.inner.variables]
