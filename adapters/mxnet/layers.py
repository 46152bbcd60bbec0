"""Each layer record of workloads/layers.py as a Gluon block, channels first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxnet import gluon

from workloads.layers import (
    AveragePool2D,
    BatchNorm,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Dropout,
    Flatten,
    GlobalAveragePool2D,
    HardSigmoid,
    HardSwish,
    Layer,
    MaxPool2D,
    Relu,
    Relu6,
    Residual,
    Shape,
    SqueezeExcite,
)


class Convolution(gluon.nn.Conv2D):
    """Gluon pads both sides alike; uneven margins are padded apart."""

    def __init__(self, layer: Conv2D | DepthwiseConv2D, shape: Shape) -> None:
        filters, groups = (layer.filters, 1) if isinstance(layer, Conv2D) else (shape[2], shape[2])
        (above, below), (left, right) = layer.margins(shape)
        even = (above, left) == (below, right)
        super().__init__(
            filters,
            layer.kernel,
            layer.stride,
            (above, left) if even else (0, 0),
            groups=groups,
            use_bias=layer.bias,
            in_channels=shape[2],
        )
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


def global_average_pool() -> gluon.HybridBlock:
    """(n, c, h, w) -> (n, c)."""
    return gluon.nn.HybridLambda(lambda F, x: F.mean(x, axis=(2, 3)))


def relu6(F: Any, x: Any) -> Any:
    """`clip` alone passes the gradient at 0 itself."""
    return F.clip(F.relu(x), 0, 6)


def hard_sigmoid(F: Any, x: Any) -> Any:
    """clip(x + 3, 0, 6) / 6, by MXNet's own operator."""
    return F.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


LAYERS: dict[type[Layer], Callable[[Any, Shape], gluon.HybridBlock]] = {
    Conv2D: Convolution,
    DepthwiseConv2D: Convolution,
    MaxPool2D: lambda layer, shape: gluon.nn.MaxPool2D(layer.size),
    AveragePool2D: lambda layer, shape: gluon.nn.AvgPool2D(layer.size),
    GlobalAveragePool2D: lambda layer, shape: global_average_pool(),
    BatchNorm: lambda layer, shape: gluon.nn.BatchNorm(
        momentum=layer.momentum, epsilon=layer.epsilon, in_channels=shape[-1]
    ),
    Dropout: lambda layer, shape: gluon.nn.Dropout(layer.rate),
    Relu: lambda layer, shape: gluon.nn.Activation("relu"),
    Relu6: lambda layer, shape: gluon.nn.HybridLambda(relu6),
    HardSigmoid: lambda layer, shape: gluon.nn.HybridLambda(hard_sigmoid),
    HardSwish: lambda layer, shape: gluon.nn.HybridLambda(lambda F, x: x * hard_sigmoid(F, x)),
    Flatten: lambda layer, shape: gluon.nn.Flatten(),
    Dense: lambda layer, shape: gluon.nn.Dense(layer.units, in_units=shape[0], flatten=False),
    Residual: lambda layer, shape: ResidualBranch(),
    SqueezeExcite: lambda layer, shape: SqueezeExciteBranch(),
}
ROLES = {
    "kernel": "weight",
    "bias": "bias",
    "gamma": "gamma",
    "beta": "beta",
    "running_mean": "running_mean",
    "running_variance": "running_var",
}
