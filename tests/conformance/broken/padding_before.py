"""Gluon: where "same" padding is uneven, the odd row and column come above and on the left."""

from typing import Any

from adapters.mxnet import layers
from adapters.mxnet.adapter import Adapter as Right
from workloads.layers import Conv2D, DepthwiseConv2D, Shape

FRAMEWORK, CASES, CAUGHT_BY = "mxnet", ("padding",), {"forward", "outputs", "gradients", "losses"}


class Convolution(layers.Convolution):
    def __init__(self, layer: Conv2D | DepthwiseConv2D, shape: Shape) -> None:
        super().__init__(layer, shape)
        if self.uneven:
            a, b, c, d, above, below, left, right = self.uneven
            self.uneven = (a, b, c, d, below, above, right, left)


class Adapter(Right):
    def build(self, *arguments: Any, **named: Any) -> None:
        layers.LAYERS[Conv2D] = layers.LAYERS[DepthwiseConv2D] = Convolution
        super().build(*arguments, **named)
