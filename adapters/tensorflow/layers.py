"""Each layer record of workloads/layers.py as a Keras layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras

from workloads.layers import (
    AveragePool2D,
    BatchNorm,
    Branch,
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
    SqueezeExcite,
)


def convolution(layer: Conv2D | DepthwiseConv2D, seeds: Iterator[int]) -> keras.layers.Layer:
    """(n, h, w, c) -> (n, rows, columns, filters), of a depthwise one (n, rows, columns, c)."""
    kind = keras.layers.DepthwiseConv2D
    if isinstance(layer, Conv2D):
        kind = partial(keras.layers.Conv2D, layer.filters)
    return kind(layer.kernel, layer.stride, layer.padding, use_bias=layer.bias, name=layer.name)


def activation(name: str) -> Callable[[Any, Iterator[int]], keras.layers.Layer]:
    """What makes a layer of Keras's activation of this name; it draws nothing from the seeds."""
    return lambda layer, seeds: keras.layers.Activation(name, name=layer.name)


LAYERS: dict[type[Layer], Callable[[Any, Iterator[int]], keras.layers.Layer]] = {
    Conv2D: convolution,
    DepthwiseConv2D: convolution,
    MaxPool2D: lambda layer, seeds: keras.layers.MaxPooling2D(layer.size, name=layer.name),
    AveragePool2D: lambda layer, seeds: keras.layers.AveragePooling2D(layer.size, name=layer.name),
    GlobalAveragePool2D: lambda layer, seeds: keras.layers.GlobalAveragePooling2D(name=layer.name),
    BatchNorm: lambda layer, seeds: keras.layers.BatchNormalization(
        momentum=layer.momentum, epsilon=layer.epsilon, name=layer.name
    ),
    Dropout: lambda layer, seeds: keras.layers.Dropout(layer.rate, seed=next(seeds), name=layer.name),
    Relu: lambda layer, seeds: keras.layers.ReLU(name=layer.name),
    Relu6: activation("relu6"),
    HardSigmoid: activation("hard_sigmoid"),
    HardSwish: activation("hard_swish"),
    Flatten: lambda layer, seeds: keras.layers.Flatten(name=layer.name),
    Dense: lambda layer, seeds: keras.layers.Dense(layer.units, name=layer.name),
    Residual: lambda layer, seeds: keras.layers.Add(name=layer.name),
    SqueezeExcite: lambda layer, seeds: keras.layers.Multiply(name=layer.name),
}
ROLES = {
    "kernel": "kernel",
    "bias": "bias",
    "gamma": "gamma",
    "beta": "beta",
    "running_mean": "moving_mean",
    "running_variance": "moving_variance",
}


def apply(layers: tuple[Layer, ...], x: Any, seeds: Iterator[int]) -> Any:
    """The layers one after another, in Keras' functional manner."""
    for layer in layers:
        made = LAYERS[type(layer)](layer, seeds)
        if isinstance(layer, Branch):
            y = apply(layer.layers, x, seeds)
            if isinstance(layer, SqueezeExcite):
                y = keras.layers.Reshape((1, 1, y.shape[-1]), name=f"{layer.name}_broadcast")(y)
            x = made([x, y])
        else:
            x = made(x)
    return x
