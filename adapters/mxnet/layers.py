"""Each layer record of workloads/layers as a Gluon block, channels first; and the loss after them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from adapters.mxnet import features
from workloads import layers
from workloads.spec import Workload

LOWEST = float(np.finfo(np.float32).min)
PadWidth = tuple[int, int, int, int, int, int, int, int]


def split_margins(margins: layers.Margins, most: float = math.inf) -> tuple[tuple[int, int], PadWidth | None]:
    """Return (margins that Gluon adds itself, margins padded separately, None for none).

    Gluon's own are equal on both sides; those of a pool are at most half of its size, which is `most`.
    """
    (top, bottom), (left, right) = margins
    own = (top, left) == (bottom, right) and max(top, left) <= most
    return ((top, left), None) if own else ((0, 0), (0, 0, 0, 0, top, bottom, left, right))


def padded(F: Any, x: Any, margins: PadWidth, value: float = 0) -> Any:
    """Return (n, c, h, w) with margins of that value."""
    return F.pad(x, mode="constant", constant_value=value, pad_width=margins)


class Convolution(gluon.nn.Conv2D):
    """Gluon's convolution, also with uneven margins."""

    def __init__(self, layer: layers.Conv2D | layers.DepthwiseConv2D, shape: layers.Shape) -> None:
        filters, groups, dilation = shape[2], shape[2], 1
        if isinstance(layer, layers.Conv2D):
            filters, groups, dilation = layer.filters, layer.groups, layer.dilation
        even, self.uneven = split_margins(layer.margins(shape))
        others = {"groups": groups, "use_bias": layer.bias, "in_channels": shape[2]}
        super().__init__(filters, layer.kernel, layer.stride, even, dilation, **others)

    def hybrid_forward(self, F: Any, x: Any, **parameters: Any) -> Any:
        """(n, c, h, w) -> (n, filters, rows, columns)."""
        return super().hybrid_forward(F, padded(F, x, self.uneven) if self.uneven else x, **parameters)


class MaxPool(gluon.nn.MaxPool2D):
    """Gluon's max pooling, also with uneven margins."""

    def __init__(self, layer: layers.MaxPool2D, shape: layers.Shape) -> None:
        even, self.uneven = split_margins(layer.margins(shape), layer.size // 2)
        super().__init__(layer.size, layer.stride, even)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """(n, c, h, w) -> (n, c, rows, columns)."""
        return super().hybrid_forward(F, padded(F, x, self.uneven, LOWEST) if self.uneven else x)


class UnevenAveragePool(gluon.HybridBlock):
    """The mean of a window's pixels: its sum over the number of pixels that are not margin."""

    def __init__(self, layer: layers.AveragePool2D, shape: layers.Shape, margins: PadWidth) -> None:
        super().__init__()
        self.margins, self.window, self.stride = margins, layer.window, (layer.step, layer.step)
        with self.name_scope():
            self.pixels = self.params.get_constant("pixels", self.sums(mx.nd, mx.nd.ones((1, 1, *shape[:2]))))

    def sums(self, F: Any, x: Any) -> Any:
        """(n, c, h, w) -> (n, c, rows, columns)."""
        x = padded(F, x, self.margins)
        return F.Pooling(x, kernel=self.window, stride=self.stride, pool_type="sum")

    def hybrid_forward(self, F: Any, x: Any, pixels: Any) -> Any:
        """(n, c, h, w) -> (n, c, rows, columns)."""
        return F.broadcast_div(self.sums(F, x), pixels)


def average_pool(layer: layers.AveragePool2D, shape: layers.Shape) -> gluon.HybridBlock:
    """(n, c, h, w) -> (n, c, rows, columns)."""
    even, uneven = split_margins(layer.margins(shape), layer.size // 2)
    if uneven:
        return UnevenAveragePool(layer, shape, uneven)
    return gluon.nn.AvgPool2D(layer.size, layer.stride, even, count_include_pad=False)


class Join(gluon.nn.HybridSequential):
    """Joins branches. The caller that makes it adds the branches as blocks; an empty branch returns its input."""

    def __init__(self, join: Callable[..., Any], layer: layers.Join, shape: layers.Shape) -> None:
        super().__init__()
        self.join, self.shapes = join, layer.branch_shapes(shape)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the branches' outputs for `x`, joined."""
        return self.join(F, [branch(x) for branch in self._children.values()], self.shapes)


def add(F: Any, ys: list[Any], shapes: list[layers.Shape]) -> Any:
    """Return the sum, in the shape of every branch."""
    return reduce(operator.add, ys)


def concatenate(F: Any, ys: list[Any], shapes: list[layers.Shape]) -> Any:
    """(n, c, h, w) of each branch -> (n, sum of all c, h, w); (n, t, d) and (n, d) along the last axis."""
    return F.concat(*ys, dim=features.channel_axis(shapes[0]))


def multiply(F: Any, ys: list[Any], shapes: list[layers.Shape]) -> Any:
    """Return the product: (n, c) combined with (n, c, h, w) is one factor per channel."""
    axes = max(map(len, shapes))
    factors = (
        y if len(shape) == axes else F.expand_dims(F.expand_dims(y, 2), 3) for y, shape in zip(ys, shapes, strict=True)
    )
    return reduce(F.broadcast_mul, factors)


def resize(layer: layers.Resize, shape: layers.Shape) -> gluon.HybridBlock:
    """Return the layer (n, c, h, w) -> (n, c, height, width), bilinear, with half-pixel centres."""
    return gluon.nn.HybridLambda(
        lambda F, x: F.contrib.BilinearResize2D(x, height=layer.height, width=layer.width, align_corners=False)
    )


def losses_of(workload: Workload) -> Callable[[mx.nd.NDArray, mx.nd.NDArray], mx.nd.NDArray]:
    """Return the loss of each image: Trainer.step divides the gradient of their sum by the batch size."""
    if workload.loss == "binary-cross-entropy":
        binary = gluon.loss.SigmoidBinaryCrossEntropyLoss()
        return lambda logits, labels: binary(logits, labels.astype("float32"))
    return gluon.loss.SoftmaxCrossEntropyLoss()


def float32(F: Any, values: Any) -> Any:
    """Return the same numbers in float32, from a precision that numpy lacks."""
    return F.amp_cast(values, dtype="float32")


class Losses(gluon.HybridBlock):
    """(images, labels) -> the loss of each image: network and loss as one graph."""

    def __init__(self, net: gluon.HybridBlock, loss: Callable[[Any, Any], Any]) -> None:
        super().__init__(prefix="")
        with self.name_scope():
            self.net = net
        self.loss = loss

    def hybrid_forward(self, F: Any, images: Any, labels: Any) -> Any:
        """Compute the losses; Gluon calls this."""
        return self.loss(self.net(images), labels)


LAYERS: dict[type[layers.Layer], Callable[[Any, layers.Shape], gluon.HybridBlock]] = {
    layers.Conv2D: Convolution,
    layers.DepthwiseConv2D: Convolution,
    layers.MaxPool2D: MaxPool,
    layers.AveragePool2D: average_pool,
    layers.GlobalAveragePool2D: lambda layer, shape: gluon.nn.HybridLambda(lambda F, x: F.mean(x, axis=(2, 3))),
    layers.Resize: resize,
    layers.BatchNorm: lambda layer, shape: gluon.nn.BatchNorm(
        momentum=layer.momentum, epsilon=layer.epsilon, center=layer.center, scale=layer.scale, in_channels=shape[-1]
    ),
    layers.LayerNorm: features.layer_norm,
    layers.ChannelScale: lambda layer, shape: features.ChannelScale(shape),
    layers.Normalise: features.Normalise,
    layers.Dropout: lambda layer, shape: gluon.nn.Dropout(layer.rate),
    layers.StochasticDepth: features.stochastic_depth,
    layers.Relu: lambda layer, shape: gluon.nn.Activation("relu"),
    layers.Relu6: lambda layer, shape: gluon.nn.HybridLambda(features.relu6),
    layers.HardSigmoid: lambda layer, shape: gluon.nn.HybridLambda(features.hard_sigmoid),
    layers.HardSwish: lambda layer, shape: gluon.nn.HybridLambda(lambda F, x: x * features.hard_sigmoid(F, x)),
    layers.Gelu: features.gelu,
    layers.Silu: lambda layer, shape: gluon.nn.Swish(),
    layers.Sigmoid: lambda layer, shape: gluon.nn.Activation("sigmoid"),
    layers.Tanh: lambda layer, shape: gluon.nn.Activation("tanh"),
    layers.Softmax: lambda layer, shape: features.softmax(shape),
    layers.Flatten: lambda layer, shape: gluon.nn.Flatten(),
    layers.Dense: lambda layer, shape: gluon.nn.Dense(
        layer.units, use_bias=layer.bias, in_units=shape[-1], flatten=False
    ),
    layers.Tokens: lambda layer, shape: gluon.nn.HybridLambda(
        lambda F, x: F.transpose(F.reshape(x, (0, 0, -1)), (0, 2, 1))
    ),
    layers.PositionEmbedding: lambda layer, shape: features.PositionEmbedding(shape),
    layers.ClassToken: lambda layer, shape: features.ClassToken(shape),
    layers.FirstToken: lambda layer, shape: gluon.nn.HybridLambda(features.first_token),
    layers.MultiHeadAttention: features.MultiHeadAttention,
    layers.TokenMean: lambda layer, shape: gluon.nn.HybridLambda(lambda F, x: F.mean(x, axis=1)),
    layers.Add: partial(Join, add),
    layers.Concatenate: partial(Join, concatenate),
    layers.Multiply: partial(Join, multiply),
}
ROLES = {
    "kernel": "weight",
    "running_variance": "running_var",
    **{f"{part}_kernel": f"{part}.weight" for part in layers.ATTENTION_PARTS},
    **{f"{part}_bias": f"{part}.bias" for part in layers.ATTENTION_PARTS},
}  # those that are called otherwise


def turned(images: np.ndarray) -> np.ndarray:
    """Return (n, h, w, c) as (n, c, h, w), contiguous: numpy takes a tenth of the time that the network would."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
