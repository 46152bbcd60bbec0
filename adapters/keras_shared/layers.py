"""Each layer record of workloads/layers as a Keras layer, on any backend; activations as operations of `keras.ops`.

An eager step costs 0.1 ms less for each activation that is no layer, as where users name it in the layer before it.
`seeds` is an endless iterator of `keras.random.SeedGenerator`, one for each layer that draws masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from adapters.base import Unsupported
from workloads import layers

Seeds = Iterator[keras.random.SeedGenerator]


def padded(layer: Any, x: Any) -> tuple[layers.Layer, Any]:
    """Return the layer with its margins in one of Keras's words, and its input, padded if no word gives them."""
    if not isinstance(getattr(layer, "padding", None), tuple):
        return layer, x
    shape = tuple(x.shape[1:])
    in_words = {word: replace(layer, padding=word) for word in ("valid", "same")}
    for worded in in_words.values():
        if worded.margins(shape) == layer.margins(shape):
            return worded, x
    if isinstance(layer, layers.AveragePool2D):
        return layer, x  # it pads itself
    kind = MinusInfinityPadding if isinstance(layer, layers.MaxPool2D) else keras.layers.ZeroPadding2D
    return in_words["valid"], kind(layer.margins(shape), name=f"{layer.name}.margins")(x)


class MinusInfinityPadding(keras.layers.Layer):
    """Pads images with minus infinity, which is never the maximum of a window: Keras itself pads with zeros."""

    def __init__(self, margins: layers.Margins, name: str) -> None:
        super().__init__(name=name)
        self.margins = margins

    def call(self, x: Any) -> Any:
        """(n, h, w, c) -> (n, top + h + bottom, left + w + right, c)."""
        return ops.pad(x, ((0, 0), *self.margins, (0, 0)), constant_values=-np.inf)


class MarginAveragePool(keras.layers.Layer):
    """The mean of a window's pixels with any margins: the padded mean over the share of pixels that are not margin."""

    def __init__(self, layer: layers.AveragePool2D) -> None:
        super().__init__(name=layer.name)
        self.layer = layer

    def build(self, shape: layers.Shape) -> None:
        """Count the pixels of each window of inputs (n, h, w, c)."""
        size, step, self.margins = self.layer.size, self.layer.step, self.layer.margins(shape[1:])
        pixels = np.pad(np.ones(shape[1:3], np.float32), self.margins)
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (size, size))[::step, ::step]
        self.shares = windows.mean(axis=(2, 3))[..., None]

    def call(self, x: Any) -> Any:
        """(n, h, w, c) -> (n, rows, columns, c)."""
        images = ops.pad(x, ((0, 0), *self.margins, (0, 0)))
        means = ops.average_pool(images, self.layer.size, self.layer.step, "valid", data_format="channels_last")
        return means / ops.convert_to_tensor(self.shares, x.dtype)


def average_pool(layer: layers.AveragePool2D, seeds: Seeds) -> keras.layers.Layer:
    """Return the layer (n, h, w, c) -> (n, rows, columns, c)."""
    if isinstance(layer.padding, tuple):
        return MarginAveragePool(layer)
    return keras.layers.AveragePooling2D(layer.size, layer.stride, layer.padding, name=layer.name)


def max_pool(layer: layers.MaxPool2D, seeds: Seeds) -> keras.layers.Layer:
    """Return the layer (n, h, w, c) -> (n, rows, columns, c)."""
    return keras.layers.MaxPooling2D(layer.size, layer.stride, layer.padding, name=layer.name)


def convolution(layer: layers.Conv2D | layers.DepthwiseConv2D, seeds: Seeds) -> keras.layers.Layer:
    """Return the layer (n, h, w, c) -> (n, rows, columns, filters), or for a depthwise one (n, rows, columns, c)."""
    kind = keras.layers.DepthwiseConv2D
    if isinstance(layer, layers.Conv2D):
        if layer.stride > 1 and layer.dilation > 1:
            raise Unsupported(f"layer {layer.name}: Keras has no convolution with both a stride and a dilation")
        kind = partial(keras.layers.Conv2D, layer.filters, dilation_rate=layer.dilation, groups=layer.groups)
    return kind(layer.kernel, layer.stride, layer.padding, use_bias=layer.bias, name=layer.name)


class Scaled(keras.layers.Layer):
    """Multiplies images by a constant in float32, in any precision."""

    def __init__(self, scale: float, name: str) -> None:
        super().__init__(name=name, dtype="float32")
        self.factor = np.float32(scale)

    def call(self, x: Any) -> Any:
        """Return x * scale in float32, (n, h, w, c) like `x`, which is uint8."""
        return ops.cast(x, "float32") * self.factor


class PositionEmbedding(keras.layers.Layer):
    """Adds an embedding: x + embedding."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Create the embedding for inputs (n, t, d)."""
        self.embedding = self.add_weight(name="embedding", shape=shape[1:], initializer="zeros")

    def call(self, x: Any) -> Any:
        """Return x + embedding, (n, t, d) like `x`."""
        return x + self.embedding


class ClassToken(keras.layers.Layer):
    """Puts a learned token before the others."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Create the token for inputs (n, t, d)."""
        self.token = self.add_weight(name="token", shape=shape[2:], initializer="zeros")

    def call(self, x: Any) -> Any:
        """(n, t, d) -> (n, t + 1, d)."""
        token = ops.convert_to_tensor(self.token)
        return ops.concatenate([ops.broadcast_to(token, (ops.shape(x)[0], 1, x.shape[2])), x], 1)


class ChannelScale(keras.layers.Layer):
    """Multiplies each channel by a learned factor."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Create the factors for inputs (n, ..., c)."""
        self.scale = self.add_weight(name="scale", shape=shape[-1:], initializer="ones")

    def call(self, x: Any) -> Any:
        """Return x * scale, (n, ..., c) like `x`."""
        return x * self.scale


class Normalise(keras.layers.Layer):
    """Subtracts a constant from each channel and divides by another."""

    def __init__(self, layer: layers.Normalise) -> None:
        super().__init__(name=layer.name)
        self.mean, self.std = layer.mean, layer.std

    def call(self, x: Any) -> Any:
        """Return (n, h, w, c), the same shape as `x`."""
        return (x - ops.convert_to_tensor(self.mean, x.dtype)) / ops.convert_to_tensor(self.std, x.dtype)


class Dropout(keras.layers.Layer):
    """Dropout like Keras's, which takes no generator, with masks from this one."""

    def __init__(self, rate: float, masks: keras.random.SeedGenerator, name: str) -> None:
        super().__init__(name=name)
        self.rate, self.masks = rate, masks

    def call(self, x: Any, training: bool = False) -> Any:
        """Return `x` with dropped values, in its shape."""
        return keras.random.dropout(x, self.rate, seed=self.masks) if training and self.rate else x


class StochasticDepth(Dropout):
    """Drops whole images in training."""

    def call(self, x: Any, training: bool = False) -> Any:
        """Return `x` (n, ...) with dropped images, in its shape."""
        images = ops.ones((ops.shape(x)[0], *(1 for _ in x.shape[1:])), x.dtype)
        return x * super().call(images, training) if training and self.rate else x


class Activation(keras.Operation):
    """An operation with the layer's name: Keras would draw one, which another layer may have."""

    def __init__(self, function: Callable[[Any], Any], name: str) -> None:
        super().__init__(name=name)
        self.function = function

    def call(self, x: Any) -> Any:
        """(n, ...) -> the same."""
        return self.function(x)

    def compute_output_spec(self, x: Any) -> keras.KerasTensor:
        """Return what `call` gives for a symbolic tensor."""
        return keras.KerasTensor(x.shape, dtype=x.dtype)


def activation(function: Callable[[Any], Any]) -> Callable[[Any, Seeds], Activation]:
    """Return a maker of this operation; it draws nothing from the seeds."""
    return lambda layer, seeds: Activation(function, layer.name)


LAYERS: dict[type[layers.Layer], Callable[[Any, Seeds], Callable[[Any], Any]]] = {
    layers.Conv2D: convolution,
    layers.DepthwiseConv2D: convolution,
    layers.MaxPool2D: max_pool,
    layers.AveragePool2D: average_pool,
    layers.GlobalAveragePool2D: lambda layer, seeds: keras.layers.GlobalAveragePooling2D(name=layer.name),
    layers.Resize: lambda layer, seeds: keras.layers.Resizing(layer.height, layer.width, name=layer.name),
    layers.BatchNorm: lambda layer, seeds: keras.layers.BatchNormalization(
        momentum=layer.momentum, epsilon=layer.epsilon, center=layer.center, scale=layer.scale, name=layer.name
    ),
    layers.LayerNorm: lambda layer, seeds: keras.layers.LayerNormalization(epsilon=layer.epsilon, name=layer.name),
    layers.Dropout: lambda layer, seeds: Dropout(layer.rate, next(seeds), layer.name),
    layers.StochasticDepth: lambda layer, seeds: StochasticDepth(layer.rate, next(seeds), layer.name),
    layers.ChannelScale: lambda layer, seeds: ChannelScale(name=layer.name),
    layers.Normalise: lambda layer, seeds: Normalise(layer),
    layers.Relu: activation(ops.relu),
    layers.Relu6: activation(ops.relu6),
    layers.HardSigmoid: activation(ops.hard_sigmoid),
    layers.HardSwish: activation(ops.hard_swish),
    layers.Gelu: lambda layer, seeds: Activation(partial(ops.gelu, approximate=layer.approximate), layer.name),
    layers.Silu: activation(ops.silu),
    layers.Sigmoid: activation(ops.sigmoid),
    layers.Tanh: activation(ops.tanh),
    layers.Softmax: activation(ops.softmax),
    layers.Flatten: lambda layer, seeds: keras.layers.Flatten(name=layer.name),
    layers.Dense: lambda layer, seeds: keras.layers.Dense(layer.units, use_bias=layer.bias, name=layer.name),
    layers.PositionEmbedding: lambda layer, seeds: PositionEmbedding(name=layer.name),
    layers.ClassToken: lambda layer, seeds: ClassToken(name=layer.name),
    layers.FirstToken: lambda layer, seeds: keras.layers.Lambda(lambda x: x[:, 0], name=layer.name),
    layers.TokenMean: lambda layer, seeds: keras.layers.GlobalAveragePooling1D(name=layer.name),
    layers.Add: lambda layer, seeds: keras.layers.Add(name=layer.name),
    layers.Concatenate: lambda layer, seeds: keras.layers.Concatenate(name=layer.name),
    layers.Multiply: lambda layer, seeds: keras.layers.Multiply(name=layer.name),
}
LOSSES: dict[str, Callable[[], keras.losses.Loss]] = {
    "softmax-cross-entropy": lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    "binary-cross-entropy": lambda: keras.losses.BinaryCrossentropy(from_logits=True),
}
ROLES = {
    "running_mean": "moving_mean",
    "running_variance": "moving_variance",
    **{f"{part}_kernel": f"{part}_dense.kernel" for part in layers.ATTENTION_PARTS},
    **{f"{part}_bias": f"{part}_dense.bias" for part in layers.ATTENTION_PARTS},
}  # those that are called otherwise


def apply(chain: tuple[layers.Layer, ...], x: Any, seeds: Seeds, outputs: dict[str, Any]) -> Any:
    """Apply the layers one after another, with Keras' functional API; `outputs` gets that of each layer by its name."""
    for layer in chain:
        if isinstance(layer, layers.Join):
            parts = [apply(branch, x, seeds, outputs) for branch in layer.branches]
            axes = max(len(part.shape) for part in parts)
            for number, part in enumerate(parts):
                if len(part.shape) < axes:  # a vector (n, c) among images
                    spread = keras.layers.Reshape((1, 1, part.shape[-1]), name=f"{layer.name}.broadcast{number}")
                    parts[number] = spread(part)
            x = LAYERS[type(layer)](layer, seeds)(parts)
        elif isinstance(layer, layers.Tokens):
            x = keras.layers.Reshape((x.shape[1] * x.shape[2], x.shape[3]), name=layer.name)(x)
        elif isinstance(layer, layers.MultiHeadAttention):
            attention = keras.layers.MultiHeadAttention(layer.heads, x.shape[2] // layer.heads, name=layer.name)
            x = attention(x, x)
        else:
            worded, x = padded(layer, x)
            x = LAYERS[type(layer)](worded, seeds)(x)
        outputs[layer.name] = x
    return x
