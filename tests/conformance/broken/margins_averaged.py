"""PyTorch: an average pool counts the margins of "same" padding as pixels of value 0."""

from typing import Any

from torch import nn

from adapters.pytorch import layers
from adapters.pytorch.adapter import Adapter as Right
from workloads.layers import AveragePool2D, Shape

FRAMEWORK, CASES, CAUGHT_BY = "pytorch", ("pooling",), {"forward", "outputs", "gradients", "losses"}


def average_pool(layer: AveragePool2D, shape: Shape) -> nn.Module:
    (above, below), (left, right) = layer.margins(shape)
    return nn.Sequential(nn.ZeroPad2d((left, right, above, below)), nn.AvgPool2d(layer.size, layer.stride))


class Adapter(Right):
    def build(self, *arguments: Any, **named: Any) -> None:
        layers.LAYERS[AveragePool2D] = average_pool
        super().build(*arguments, **named)
