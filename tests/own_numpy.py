"""The referee's arithmetic as a framework that trains custom code: `make_model(classes)` returns a Workload.

Unit tests use the class. Pipeline tests copy this file as the adapter.py of a framework outside the project.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adapters.base import Floats
from adapters.numpy import adapter as referee
from workloads import weights
from workloads.datasets import Images, Labels
from workloads.records.network import OwnCode
from workloads.spec import OptimizerSpec, Workload


class Adapter(referee.Adapter):
    def build_model(self, make_model: Callable[[int], Any], own: OwnCode, optimizer: OptimizerSpec, seed: int) -> int:
        """Draw the weights as the runner draws those of a network."""
        workload: Workload = make_model(own.classes)
        self.build(workload, optimizer, weights.draw(workload, seed), seed)
        return sum(4 * math.prod(shape) for shape in workload.statistic_shapes().values())

    def parameter_gradients(self, images: Images, labels: Labels) -> dict[str, Floats]:
        return self.probe(images, labels).gradients
