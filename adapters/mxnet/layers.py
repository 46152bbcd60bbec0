"""Each layer record of workloads/layers.py as a Gluon block, channels first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxnet import gluon

from workloads import layers


class Convolution(gluon.nn.Conv2D):
    """Gluon pads both sides alike; uneven margins are padded apart."""

    def __init__(self, layer: layers.Conv2D | layers.DepthwiseConv2D, shape: layers.Shape) -> None:
        filters, groups = (layer.filters, 1) if isinstance(layer, layers.Conv2D) else (shape[2], shape[2])
        (above, below), (left, right) = layer.margins(shape)
        even = (above, left) == (below, right)
        padding = (above, left) if even else (0, 0)
        others = {"groups": groups, "use_bias": layer.bias, "in_channels": shape[2]}
        super().__init__(filters, layer.kernel, layer.stride, padding, **others)
        self.uneven = None if even else (0, 0, 0, 0, above, below, left, right)

    def hybrid_forward(self, F: Any, x: Any, **parameters: Any) -> Any:
        """(n, c, h, w) -> (n, filters, rows, columns)."""
        if self.uneven:
            x = F.pad(x, mode="constant", constant_value=0, pad_width=self.uneven)
        return super().hybrid_forward(F, x, **parameters)


class ResidualBranch(gluon.nn.HybridSequential):
    """x + branch(x)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """(n, c, h, w), as `x` is."""
        return x + super().hybrid_forward(F, x)


class SqueezeExciteBranch(gluon.nn.HybridSequential):
    """x * branch(x), whose (n, c) counts for every pixel."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """(n, c, h, w), as `x` is."""
        factor = F.expand_dims(F.expand_dims(super().hybrid_forward(F, x), 2), 3)
        return F.broadcast_mul(x, factor)


def relu6(F: Any, x: Any) -> Any:
    """`clip` alone passes the gradient at 0 itself."""
    return F.clip(F.relu(x), 0, 6)


def hard_sigmoid(F: Any, x: Any) -> Any:
    """clip(x + 3, 0, 6) / 6, by MXNet's own operator."""
    return F.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


LAYERS: dict[type[layers.Layer], Callable[[Any, layers.Shape], gluon.HybridBlock]] = {
    layers.Conv2D: Convolution,
    layers.DepthwiseConv2D: Convolution,
    layers.MaxPool2D: lambda layer, shape: gluon.nn.MaxPool2D(layer.size),
    layers.AveragePool2D: lambda layer, shape: gluon.nn.AvgPool2D(layer.size),
    layers.GlobalAveragePool2D: lambda layer, shape: gluon.nn.HybridLambda(lambda F, x: F.mean(x, axis=(2, 3))),
    layers.BatchNorm: lambda layer, shape: gluon.nn.BatchNorm(
        momentum=layer.momentum, epsilon=layer.epsilon, in_channels=shape[-1]
    ),
    layers.Dropout: lambda layer, shape: gluon.nn.Dropout(layer.rate),
    layers.Relu: lambda layer, shape: gluon.nn.Activation("relu"),
    layers.Relu6: lambda layer, shape: gluon.nn.HybridLambda(relu6),
    layers.HardSigmoid: lambda layer, shape: gluon.nn.HybridLambda(hard_sigmoid),
    layers.HardSwish: lambda layer, shape: gluon.nn.HybridLambda(lambda F, x: x * hard_sigmoid(F, x)),
    layers.Flatten: lambda layer, shape: gluon.nn.Flatten(),
    layers.Dense: lambda layer, shape: gluon.nn.Dense(layer.units, in_units=shape[0], flatten=False),
    layers.Residual: lambda layer, shape: ResidualBranch(),
    layers.SqueezeExcite: lambda layer, shape: SqueezeExciteBranch(),
}
ROLES = {"kernel": "weight", "running_variance": "running_var"}  # those that are called otherwise
