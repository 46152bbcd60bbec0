"""PyTorch: the dense layer after a Flatten keeps the canonical order of its rows, over channels-first features."""

from typing import Any

import numpy as np

from adapters.pytorch import adapter
from workloads.spec import Workload
from workloads.weights import Weights

FRAMEWORK, CASES, CAUGHT_BY = "pytorch", ("plain-sgd",), {"forward", "outputs", "losses", "gradients"}


def to_native(workload: Workload, weights: Weights) -> Weights:
    turn = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}
    return {key: np.ascontiguousarray(array.transpose(turn[array.ndim])) for key, array in weights.items()}


def to_canonical(workload: Workload, weights: Weights) -> Weights:
    turn = {4: (2, 3, 1, 0), 2: (1, 0), 1: (0,)}
    return {key: np.ascontiguousarray(array.transpose(turn[array.ndim])) for key, array in weights.items()}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        in_the_adapter: Any = adapter
        in_the_adapter.channels_first, in_the_adapter.channels_last = to_native, to_canonical
        super().build(*arguments, **named)
