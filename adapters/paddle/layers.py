"""Every layer by `paddle.nn.functional`, channels first; dense kernels are (in, out)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import paddle
from paddle.nn import functional

from workloads import layers
from workloads.spec import Workload

LARGEST_EPSILON = 0.001  # that Paddle takes
AXES = [1, -1, 1, 1]  # of one number per channel, for images


@dataclass
class Network:
    """What the layers share: {"layer/role": tensor}, the windows' steps and margins, and the mode."""

    workload: Workload
    weights: dict[str, Any]
    training: bool = False
    windows: dict[str, dict[str, Any]] = field(default_factory=dict)
    outputs: dict[str, Any] | None = None  # {layer: its output}, if they are asked for

    def __post_init__(self) -> None:
        for layer, shape in self.workload.walk():
            if hasattr(layer, "margins"):
                (top, bottom), (left, right) = layer.margins(shape)
                stride = layer.step if isinstance(layer, layers.Pool2D) else getattr(layer, "stride", 1)
                self.windows[layer.name] = {"stride": stride, "padding": [top, bottom, left, right]}

    def run(self, chain: tuple[layers.Layer, ...], x: Any) -> Any:
        """Apply the layers one after another."""
        for layer in chain:
            x = FORWARD[type(layer)](layer, x, self)
            if self.outputs is not None:
                self.outputs[layer.name] = x
        return x

    def of(self, layer: layers.Layer, *roles: str) -> list[Any]:
        return [self.weights.get(f"{layer.name}/{role}") for role in roles]


def convolution(layer: Any, x: Any, net: Network) -> Any:
    """A depthwise convolution has as many groups as channels."""
    depthwise = isinstance(layer, layers.DepthwiseConv2D)
    more = {"groups": x.shape[1]} if depthwise else {"groups": layer.groups, "dilation": layer.dilation}
    return functional.conv2d(x, *net.of(layer, "kernel", "bias"), **net.windows[layer.name], **more)


def batch_norm(layer: Any, x: Any, net: Network) -> Any:
    """Paddle's; it would pass one value per channel on unchanged, of which the contract makes beta."""
    mean, variance, gamma, beta = net.of(layer, "running_mean", "running_variance", "gamma", "beta")
    if not net.training or x.size > x.shape[1]:
        return functional.batch_norm(x, mean, variance, gamma, beta, net.training, layer.momentum, layer.epsilon)
    with paddle.no_grad():
        mean.set_value(layer.momentum * mean + (1 - layer.momentum) * x.flatten())
        variance.set_value(layer.momentum * variance)
    return (x.flatten(1) * 0 * gamma + beta).reshape(x.shape)


def layer_norm(layer: Any, x: Any, net: Network) -> Any:
    """Over each pixel's channels, or each token's features; an epsilon above 0.001, which Paddle refuses, is scaled."""
    if x.ndim == 4:
        return layer_norm(layer, x.transpose([0, 2, 3, 1]).flatten(1, 2), net).transpose([0, 2, 1]).reshape(x.shape)
    epsilon = layer.epsilon
    while epsilon > LARGEST_EPSILON:
        x, epsilon = x / 2, epsilon / 4
    return functional.layer_norm(x, x.shape[-1], *net.of(layer, "gamma", "beta"), epsilon)


def normalise(layer: Any, x: Any, net: Network) -> Any:
    mean, std = (paddle.to_tensor(each, "float32").reshape(AXES) for each in (layer.mean, layer.std))
    return (x - mean) / std


def attention(layer: Any, x: Any, net: Network) -> Any:
    """Step by step as paddle.nn.MultiHeadAttention: (n, t, d) -> (n, t, d)."""
    count, tokens, width = x.shape
    split = [count, tokens, layer.heads, width // layer.heads]
    query, key, value = (
        functional.linear(x, *net.of(layer, f"{part}_kernel", f"{part}_bias")).reshape(split).transpose([0, 2, 1, 3])
        for part in ("query", "key", "value")
    )
    scores = paddle.matmul(query * split[3] ** -0.5, key, transpose_y=True)
    mixed = paddle.matmul(functional.softmax(scores), value).transpose([0, 2, 1, 3]).reshape(x.shape)
    return functional.linear(mixed, *net.of(layer, "output_kernel", "output_bias"))


def multiply(ys: list[Any]) -> Any:
    """A vector (n, c) applies to every pixel of (n, c, h, w)."""
    most = max(y.ndim for y in ys)
    return reduce(paddle.multiply, [y.unsqueeze([2, 3]) if y.ndim < most else y for y in ys])


def masked(axis: int | None) -> Callable[[Any, Any, Network], Any]:
    """Masks of single values, or of all along the axis."""
    return lambda layer, x, net: functional.dropout(x, layer.rate, axis, net.training) if layer.rate else x


def joined(join: Callable[[list[Any]], Any]) -> Callable[[Any, Any, Network], Any]:
    return lambda layer, x, net: join([net.run(branch, x) for branch in layer.branches])


FORWARD: dict[type[layers.Layer], Callable[[Any, Any, Network], Any]] = {
    layers.Conv2D: convolution,
    layers.DepthwiseConv2D: convolution,
    layers.MaxPool2D: lambda layer, x, net: functional.max_pool2d(x, layer.size, **net.windows[layer.name]),
    layers.AveragePool2D: lambda layer, x, net: functional.avg_pool2d(x, layer.size, **net.windows[layer.name]),
    layers.GlobalAveragePool2D: lambda layer, x, net: x.mean([2, 3]),
    layers.Resize: lambda layer, x, net: functional.interpolate(x, [layer.height, layer.width], mode="bilinear"),
    layers.BatchNorm: batch_norm,
    layers.LayerNorm: layer_norm,
    layers.ChannelScale: lambda layer, x, net: x * net.of(layer, "scale")[0].reshape(AXES if x.ndim == 4 else [-1]),
    layers.Normalise: normalise,
    layers.Dropout: masked(None),
    layers.StochasticDepth: masked(0),
    layers.Relu: lambda layer, x, net: functional.relu(x),
    layers.Relu6: lambda layer, x, net: functional.relu6(x),
    layers.HardSigmoid: lambda layer, x, net: functional.hardsigmoid(x, 1 / 6),
    layers.HardSwish: lambda layer, x, net: functional.hardswish(x),
    layers.Gelu: lambda layer, x, net: functional.gelu(x),
    layers.Silu: lambda layer, x, net: functional.silu(x),
    layers.Sigmoid: lambda layer, x, net: functional.sigmoid(x),
    layers.Tanh: lambda layer, x, net: functional.tanh(x),
    layers.Softmax: lambda layer, x, net: functional.softmax(x, 1 if x.ndim == 4 else -1),
    layers.Flatten: lambda layer, x, net: x.flatten(1),
    layers.Dense: lambda layer, x, net: functional.linear(x, *net.of(layer, "kernel", "bias")),
    layers.Tokens: lambda layer, x, net: x.flatten(2).transpose([0, 2, 1]),
    layers.ClassToken: lambda layer, x, net: paddle.concat(
        [net.of(layer, "token")[0].expand([x.shape[0], 1, -1]), x], 1
    ),
    layers.FirstToken: lambda layer, x, net: x[:, 0],
    layers.TokenMean: lambda layer, x, net: x.mean(1),
    layers.PositionEmbedding: lambda layer, x, net: x + net.of(layer, "embedding")[0],
    layers.MultiHeadAttention: attention,
    layers.Add: joined(lambda ys: reduce(paddle.add, ys)),
    layers.Multiply: joined(multiply),
    layers.Concatenate: joined(lambda ys: paddle.concat(ys, 1 if ys[0].ndim == 4 else -1)),
}
