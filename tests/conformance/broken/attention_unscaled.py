"""Gluon: attention's scores are not divided by the square root of a head's width."""

from typing import Any

from adapters.mxnet import features, layers
from adapters.mxnet.adapter import Adapter as Right
from workloads.layers import MultiHeadAttention, Shape

FRAMEWORK, CASES, CAUGHT_BY = "mxnet", ("transformer",), {"forward", "outputs", "gradients", "losses"}


class Unscaled(features.MultiHeadAttention):
    def __init__(self, layer: MultiHeadAttention, shape: Shape) -> None:
        super().__init__(layer, shape)
        self.scale = 1


class Adapter(Right):
    def build(self, *arguments: Any, **named: Any) -> None:
        layers.LAYERS[MultiHeadAttention] = Unscaled
        super().build(*arguments, **named)
