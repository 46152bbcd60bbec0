"""Each layer record of workloads/layers.py as a Keras layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras

from workloads import layers


def convolution(layer: layers.Conv2D | layers.DepthwiseConv2D, seeds: Iterator[int]) -> keras.layers.Layer:
    """(n, h, w, c) -> (n, rows, columns, filters), of a depthwise one (n, rows, columns, c)."""
    kind = keras.layers.DepthwiseConv2D
    if isinstance(layer, layers.Conv2D):
        kind = partial(keras.layers.Conv2D, layer.filters)
    return kind(layer.kernel, layer.stride, layer.padding, use_bias=layer.bias, name=layer.name)


def activation(name: str) -> Callable[[Any, Iterator[int]], keras.layers.Layer]:
    """What makes a layer of Keras's activation of this name; it draws nothing from the seeds."""
    return lambda layer, seeds: keras.layers.Activation(name, name=layer.name)


LAYERS: dict[type[layers.Layer], Callable[[Any, Iterator[int]], keras.layers.Layer]] = {
    layers.Conv2D: convolution,
    layers.DepthwiseConv2D: convolution,
    layers.MaxPool2D: lambda layer, seeds: keras.layers.MaxPooling2D(layer.size, name=layer.name),
    layers.AveragePool2D: lambda layer, seeds: keras.layers.AveragePooling2D(layer.size, name=layer.name),
    layers.GlobalAveragePool2D: lambda layer, seeds: keras.layers.GlobalAveragePooling2D(name=layer.name),
    layers.BatchNorm: lambda layer, seeds: keras.layers.BatchNormalization(
        momentum=layer.momentum, epsilon=layer.epsilon, name=layer.name
    ),
    layers.Dropout: lambda layer, seeds: keras.layers.Dropout(layer.rate, seed=next(seeds), name=layer.name),
    layers.Relu: lambda layer, seeds: keras.layers.ReLU(name=layer.name),
    layers.Relu6: activation("relu6"),
    layers.HardSigmoid: activation("hard_sigmoid"),
    layers.HardSwish: activation("hard_swish"),
    layers.Flatten: lambda layer, seeds: keras.layers.Flatten(name=layer.name),
    layers.Dense: lambda layer, seeds: keras.layers.Dense(layer.units, name=layer.name),
    layers.Residual: lambda layer, seeds: keras.layers.Add(name=layer.name),
    layers.SqueezeExcite: lambda layer, seeds: keras.layers.Multiply(name=layer.name),
}
ROLES = {"running_mean": "moving_mean", "running_variance": "moving_variance"}  # those that are called otherwise


def apply(chain: tuple[layers.Layer, ...], x: Any, seeds: Iterator[int]) -> Any:
    """The layers one after another, in Keras' functional manner."""
    for layer in chain:
        block = LAYERS[type(layer)](layer, seeds)
        if isinstance(layer, layers.Branch):
            y = apply(layer.layers, x, seeds)
            if isinstance(layer, layers.SqueezeExcite):
                y = keras.layers.Reshape((1, 1, y.shape[-1]), name=f"{layer.name}_broadcast")(y)
            x = block([x, y])
        else:
            x = block(x)
    return x
