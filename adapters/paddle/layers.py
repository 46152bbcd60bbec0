"""Every layer by `paddle.nn.functional`, channels first; dense kernels are (in, out)."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import paddle
from paddle.nn import functional

from workloads import layers
from workloads.spec import Workload

LARGEST_EPSILON = 0.001  # that Paddle's norms take
AXES = [1, -1, 1, 1]  # of one number per channel, for images


class Network:
    """State that the layers share: {"layer/role": tensor}, each window's stride and margins, and the mode."""

    def __init__(self, workload: Workload, weights: dict[str, Any]) -> None:
        self.workload, self.weights, self.training = workload, weights, False
        self.outputs: dict[str, Any] | None = None  # {layer: its output}, where they are asked for
        self.windows: dict[str, dict[str, Any]] = {}
        for layer, shape in workload.walk():
            if isinstance(layer, layers.Pool2D | layers.Conv2D | layers.DepthwiseConv2D):
                stride = layer.step if isinstance(layer, layers.Pool2D) else layer.stride
                self.windows[layer.name] = {"stride": stride, "padding": [*sum(layer.margins(shape), ())]}
            if isinstance(layer, layers.Conv2D):
                self.windows[layer.name] |= {"groups": layer.groups, "dilation": layer.dilation}
            elif isinstance(layer, layers.DepthwiseConv2D):
                self.windows[layer.name]["groups"] = shape[2]

    def run(self, chain: tuple[layers.Layer, ...], x: Any) -> Any:
        """Apply the layers one after another."""
        for layer in chain:
            x = FORWARD[type(layer)](layer, x, self)
            if self.outputs is not None:
                self.outputs[layer.name] = x
        return x

    def tensors(self, layer: layers.Layer, *roles: str) -> list[Any]:
        """Return the weights with these roles; None for a missing one."""
        return [self.weights.get(f"{layer.name}/{role}") for role in roles]

    def project(self, layer: layers.Layer, x: Any, part: str = "") -> Any:
        """Return x kernel + bias."""
        return functional.linear(x, *self.tensors(layer, f"{part}kernel", f"{part}bias"))


Forward = Callable[[Any, Any, Network], Any]


def convolution(layer: Any, x: Any, net: Network) -> Any:
    """Convolve (n, c, h, w) -> (n, filters, rows, columns)."""
    return functional.conv2d(x, *net.tensors(layer, "kernel", "bias"), **net.windows[layer.name])


def batch_norm(layer: Any, x: Any, net: Network) -> Any:
    """Paddle's; it would return a single value per channel unchanged, where the contract returns beta. Where gamma or
    beta is missing, Paddle gives the other no gradient: what is there is applied here.
    """
    mean, variance, gamma, beta = net.tensors(layer, "running_mean", "running_variance", "gamma", "beta")
    one, zero = paddle.ones_like(mean), paddle.zeros_like(mean)
    if not net.training or x.size > x.shape[1]:
        whole = gamma is not None and beta is not None
        given = (gamma, beta) if whole else (one, zero)
        y = functional.batch_norm(x, mean, variance, *given, net.training, layer.momentum, layer.epsilon)
        return y if whole else _scale_and_shift(y, gamma, beta)
    with paddle.no_grad():
        mean.set_value(layer.momentum * mean + (1 - layer.momentum) * x.flatten())
        variance.set_value(layer.momentum * variance)
    return _scale_and_shift(x * 0, gamma, beta)


def _scale_and_shift(x: Any, gamma: Any, beta: Any) -> Any:
    shape = AXES if x.ndim == 4 else [1, -1]
    x = x if gamma is None else x * gamma.reshape(shape)
    return x if beta is None else x + beta.reshape(shape)


def layer_norm(layer: Any, x: Any, net: Network) -> Any:
    """Normalise each pixel's channels, or each token's features; a larger epsilon than Paddle's is scaled with x."""
    if x.ndim == 4:
        return layer_norm(layer, x.transpose([0, 2, 3, 1]).flatten(1, 2), net).transpose([0, 2, 1]).reshape(x.shape)
    epsilon = layer.epsilon
    while epsilon > LARGEST_EPSILON:
        x, epsilon = x / 2, epsilon / 4
    return functional.layer_norm(x, x.shape[-1], *net.tensors(layer, "gamma", "beta"), epsilon)


def normalise(layer: Any, x: Any, net: Network) -> Any:
    """Subtract the constant means, divide by the constant stds."""
    mean, std = (paddle.to_tensor(each, "float32").reshape(AXES) for each in (layer.mean, layer.std))
    return (x - mean) / std


def attention(layer: Any, x: Any, net: Network) -> Any:
    """Compute as paddle.nn.MultiHeadAttention does: (n, t, d) -> (n, t, d)."""
    split = [*x.shape[:2], layer.heads, x.shape[2] // layer.heads]
    parts = (net.project(layer, x, f"{part}_").reshape(split) for part in ("query", "key", "value"))
    query, key, value = (part.transpose([0, 2, 1, 3]) for part in parts)
    scores = functional.softmax(paddle.matmul(query * split[3] ** -0.5, key, transpose_y=True))
    return net.project(layer, paddle.matmul(scores, value).transpose([0, 2, 1, 3]).reshape(x.shape), "output_")


def multiply(ys: list[Any]) -> Any:
    """Return the product; a vector (n, c) applies to every pixel of (n, c, h, w)."""
    most = max(y.ndim for y in ys)
    return reduce(paddle.multiply, [y.unsqueeze([2, 3]) if y.ndim < most else y for y in ys])


def plain(function: Callable[[Any], Any]) -> Forward:
    """Make a layer of a function without weights."""
    return lambda layer, x, net: function(x)


def joined(join: Callable[[list[Any]], Any]) -> Forward:
    """Make a layer of a function of its branches' outputs."""
    return lambda layer, x, net: join([net.run(branch, x) for branch in layer.branches])


SAME_NAME = ("Relu", "Relu6", "HardSwish", "Silu", "Sigmoid", "Tanh")  # as Paddle's function
FORWARD: dict[type[layers.Layer], Forward] = {
    **{getattr(layers, name): plain(getattr(functional, name.lower())) for name in SAME_NAME},
    **dict.fromkeys((layers.Conv2D, layers.DepthwiseConv2D), convolution),
    layers.MaxPool2D: lambda layer, x, net: functional.max_pool2d(x, layer.size, **net.windows[layer.name]),
    layers.AveragePool2D: lambda layer, x, net: functional.avg_pool2d(x, layer.size, **net.windows[layer.name]),
    layers.GlobalAveragePool2D: plain(lambda x: x.mean([2, 3])),
    layers.Resize: lambda layer, x, net: functional.interpolate(x, [layer.height, layer.width], mode="bilinear"),
    layers.BatchNorm: batch_norm,
    layers.LayerNorm: layer_norm,
    layers.ChannelScale: lambda layer, x, net: (
        x * net.tensors(layer, "scale")[0].reshape(AXES if x.ndim == 4 else [-1])
    ),
    layers.Normalise: normalise,
    layers.Dropout: lambda layer, x, net: functional.dropout(x, layer.rate, None, net.training),
    layers.StochasticDepth: lambda layer, x, net: functional.dropout(x, layer.rate, 0, net.training),
    layers.Gelu: lambda layer, x, net: functional.gelu(x, layer.approximate),
    layers.HardSigmoid: plain(lambda x: functional.hardsigmoid(x, 1 / 6)),
    layers.Softmax: plain(lambda x: functional.softmax(x, 1 if x.ndim == 4 else -1)),
    layers.Flatten: plain(lambda x: x.flatten(1)),
    layers.Dense: lambda layer, x, net: net.project(layer, x),
    layers.Tokens: plain(lambda x: x.flatten(2).transpose([0, 2, 1])),
    layers.ClassToken: lambda layer, x, net: paddle.concat(
        [net.tensors(layer, "token")[0].expand([x.shape[0], 1, -1]), x], 1
    ),
    layers.FirstToken: plain(lambda x: x[:, 0]),
    layers.TokenMean: plain(lambda x: x.mean(1)),
    layers.PositionEmbedding: lambda layer, x, net: x + net.tensors(layer, "embedding")[0],
    layers.MultiHeadAttention: attention,
    layers.Add: joined(lambda ys: reduce(paddle.add, ys)),
    layers.Multiply: joined(multiply),
    layers.Concatenate: joined(lambda ys: paddle.concat(ys, 1 if ys[0].ndim == 4 else -1)),
}
