"""Each layer record of workloads/layers in JAX, on (n, h, w, c), (n, t, d) or (n, d)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from typing import Any

import jax
import numpy as np
import optax
from jax import lax
from jax import numpy as jnp

from workloads import layers
from workloads.spec import Workload

Arrays = dict[str, jax.Array]


@dataclass
class ForwardPass:
    """One pass through a network: what it reads, and what it leaves besides its result."""

    weights: Mapping[str, jax.Array]  # {"layer/role"} in float32
    training: bool
    dtype: Any  # of layers' inputs and outputs
    key: jax.Array  # of the masks
    masks: Iterator[int] = field(default_factory=count)  # numbers of the masks in this pass
    outputs: Arrays = field(default_factory=dict)  # {layer: its output}, in the order of `walk()`
    statistics: Arrays = field(default_factory=dict)  # {"layer/role": running statistic after this batch}

    def weight(self, layer: layers.Layer, role: str) -> jax.Array:
        """Return a weight in the precision of the layers."""
        return self.weights[f"{layer.name}/{role}"].astype(self.dtype)

    def apply(self, chain: tuple[layers.Layer, ...], x: jax.Array) -> jax.Array:
        """Apply the layers one after another."""
        for layer in chain:
            x = self.outputs[layer.name] = LAYERS[type(layer)](layer, x, self)
        return x


def convolution(layer: layers.Conv2D | layers.DepthwiseConv2D, x: jax.Array, run: ForwardPass) -> jax.Array:
    """(n, h, w, c) -> (n, rows, columns, filters)."""
    dilation, groups = (layer.dilation, layer.groups) if isinstance(layer, layers.Conv2D) else (1, x.shape[-1])
    y = lax.conv_general_dilated(
        x,
        run.weight(layer, "kernel"),
        (layer.stride, layer.stride),
        layer.margins(x.shape[1:]),
        rhs_dilation=(dilation, dilation),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )
    return y + run.weight(layer, "bias") if layer.bias else y


def _pool(layer: layers.Pool2D, x: Any, start: float, combine: Any) -> jax.Array:
    window, steps = (1, *layer.window, 1), (1, layer.step, layer.step, 1)
    return lax.reduce_window(x, start, combine, window, steps, ((0, 0), *layer.margins(x.shape[1:]), (0, 0)))


def max_pool(layer: layers.MaxPool2D, x: jax.Array, run: ForwardPass) -> jax.Array:
    """(n, h, w, c) -> (n, rows, columns, c)."""
    return _pool(layer, x, -jnp.inf, lax.max)


def average_pool(layer: layers.AveragePool2D, x: jax.Array, run: ForwardPass) -> jax.Array:
    """(n, h, w, c) -> (n, rows, columns, c); margins are no pixels."""
    pixels = _pool(layer, jnp.ones((1, *x.shape[1:3], 1), x.dtype), 0.0, lax.add)
    return _pool(layer, x, 0.0, lax.add) / pixels


def batch_norm(layer: layers.BatchNorm, x: jax.Array, run: ForwardPass) -> jax.Array:
    """(n, ..., c) -> the same, computed in float32."""
    mean, variance = (run.weights[f"{layer.name}/running_{role}"] for role in ("mean", "variance"))
    entering = x.astype(jnp.float32)
    if run.training:
        axes = tuple(range(x.ndim - 1))
        of_batch = {"running_mean": jnp.mean(entering, axes), "running_variance": jnp.var(entering, axes)}
        for role, batch in of_batch.items():
            key = f"{layer.name}/{role}"
            run.statistics[key] = layer.momentum * run.weights[key] + (1 - layer.momentum) * batch
        mean, variance = of_batch.values()
    return _normalised(layer, entering, mean, variance, run)


def layer_norm(layer: layers.LayerNorm, x: jax.Array, run: ForwardPass) -> jax.Array:
    """(n, ..., c) -> the same, computed in float32."""
    entering = x.astype(jnp.float32)
    mean, variance = (statistic(entering, -1, keepdims=True) for statistic in (jnp.mean, jnp.var))
    return _normalised(layer, entering, mean, variance, run)


def _normalised(
    layer: layers.BatchNorm | layers.LayerNorm, x: jax.Array, mean: jax.Array, variance: jax.Array, run: ForwardPass
) -> jax.Array:
    gamma, beta = (run.weights.get(f"{layer.name}/{role}") for role in ("gamma", "beta"))
    factor = lax.rsqrt(variance + layer.epsilon)
    scaled = (x - mean) * (factor if gamma is None else factor * gamma)
    return (scaled if beta is None else scaled + beta).astype(run.dtype)


def masked(layer: layers.Masked, x: jax.Array, run: ForwardPass) -> jax.Array:
    """(n, ...) -> the same."""
    if not run.training or layer.rate == 0:
        return x
    whole = isinstance(layer, layers.StochasticDepth)
    shape = (len(x), *(1 for _ in x.shape[1:])) if whole else x.shape
    kept = jax.random.bernoulli(jax.random.fold_in(run.key, next(run.masks)), 1 - layer.rate, shape)
    return jnp.where(kept, x / (1 - layer.rate), jnp.zeros_like(x))


def _relu6(x: jax.Array) -> jax.Array:
    """jax.nn.relu6, but with the derivative 0 at 0 and at 6, where JAX has 1/2."""
    return jnp.where((x > 0) & (x < 6), x, lax.stop_gradient(jnp.clip(x, 0, 6)))


def _hard_sigmoid(x: jax.Array) -> jax.Array:
    return _relu6(x + 3) / 6


def _affine(layer: layers.Layer, x: jax.Array, run: ForwardPass, part: str = "") -> jax.Array:
    product = x @ run.weight(layer, f"{part}kernel")
    return product + run.weight(layer, f"{part}bias") if f"{layer.name}/{part}bias" in run.weights else product


def multi_head_attention(layer: layers.MultiHeadAttention, x: jax.Array, run: ForwardPass) -> jax.Array:
    """(n, t, d) -> the same."""
    heads = (*x.shape[:2], layer.heads, -1)
    query, key, value = (_affine(layer, x, run, f"{part}_").reshape(heads) for part in ("query", "key", "value"))
    return _affine(layer, jax.nn.dot_product_attention(query, key, value).reshape(x.shape), run, "output_")


def class_token(layer: layers.ClassToken, x: jax.Array, run: ForwardPass) -> jax.Array:
    """(n, t, d) -> (n, t + 1, d)."""
    token = jnp.broadcast_to(run.weight(layer, "token"), (len(x), 1, x.shape[2]))
    return jnp.concatenate((token, x), 1)


def multiply(ys: list[jax.Array]) -> jax.Array:
    """Return the product: (n, c) combined with (n, h, w, c) is one factor per channel."""
    axes = max(y.ndim for y in ys)
    return reduce(operator.mul, (y if y.ndim == axes else y[:, None, None] for y in ys))


def elementwise(function: Callable[[jax.Array], jax.Array]) -> Callable[[Any, jax.Array, ForwardPass], jax.Array]:
    """Return a layer that applies the function."""
    return lambda layer, x, run: function(x)


def join(
    function: Callable[[list[jax.Array]], jax.Array],
) -> Callable[[layers.Join, jax.Array, ForwardPass], jax.Array]:
    """Return a layer that joins the outputs of its branches."""
    return lambda layer, x, run: function([run.apply(branch, x) for branch in layer.branches])


LAYERS: dict[type[layers.Layer], Callable[[Any, jax.Array, ForwardPass], jax.Array]] = {
    layers.Conv2D: convolution,
    layers.DepthwiseConv2D: convolution,
    layers.MaxPool2D: max_pool,
    layers.AveragePool2D: average_pool,
    layers.GlobalAveragePool2D: elementwise(lambda x: jnp.mean(x, (1, 2))),
    layers.Resize: lambda layer, x, run: jax.image.resize(
        x, (len(x), layer.height, layer.width, x.shape[-1]), "bilinear", antialias=False
    ),
    layers.BatchNorm: batch_norm,
    layers.LayerNorm: layer_norm,
    layers.ChannelScale: lambda layer, x, run: x * run.weight(layer, "scale"),
    layers.Normalise: lambda layer, x, run: (x - np.array(layer.mean, x.dtype)) / np.array(layer.std, x.dtype),
    layers.Dropout: masked,
    layers.StochasticDepth: masked,
    layers.Relu: elementwise(jax.nn.relu),
    layers.Relu6: elementwise(_relu6),
    layers.HardSigmoid: elementwise(_hard_sigmoid),
    layers.HardSwish: elementwise(lambda x: x * _hard_sigmoid(x)),
    layers.Gelu: lambda layer, x, run: jax.nn.gelu(x, approximate=layer.approximate),
    layers.Silu: elementwise(jax.nn.silu),
    layers.Sigmoid: elementwise(jax.nn.sigmoid),
    layers.Tanh: elementwise(jnp.tanh),
    layers.Softmax: elementwise(jax.nn.softmax),
    layers.Flatten: elementwise(lambda x: x.reshape(len(x), math.prod(x.shape[1:]))),
    layers.Dense: _affine,
    layers.Tokens: elementwise(lambda x: x.reshape(len(x), -1, x.shape[-1])),
    layers.PositionEmbedding: lambda layer, x, run: x + run.weight(layer, "embedding"),
    layers.ClassToken: class_token,
    layers.MultiHeadAttention: multi_head_attention,
    layers.TokenMean: elementwise(lambda x: jnp.mean(x, 1)),
    layers.FirstToken: elementwise(lambda x: x[:, 0]),
    layers.Add: join(lambda ys: reduce(operator.add, ys)),
    layers.Concatenate: join(lambda ys: jnp.concatenate(ys, -1)),
    layers.Multiply: join(multiply),
}


def mean_loss(workload: Workload, logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the batch's mean loss, of logits (n, classes) and labels (n,); a binary task has one logit."""
    if workload.loss == "binary-cross-entropy":
        return optax.sigmoid_binary_cross_entropy(logits[:, 0], labels.astype(jnp.float32)).mean()
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
