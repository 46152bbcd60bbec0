"""PyTorch: the class token goes behind the others."""

from typing import Any

import torch

from adapters.pytorch import features, layers
from adapters.pytorch.adapter import Adapter as Right
from workloads.layers import ClassToken

FRAMEWORK, CASES, CAUGHT_BY = "pytorch", ("class-token",), {"forward", "outputs", "gradients", "losses"}


class Last(features.ClassToken):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).roll(-1, 1)


class Adapter(Right):
    def build(self, *arguments: Any, **named: Any) -> None:
        layers.LAYERS[ClassToken] = lambda layer, shape: Last(shape)
        super().build(*arguments, **named)
