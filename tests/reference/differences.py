"""Shared by the referee's tests: finite differences, and a network with a layer of every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adapters.numpy.passes import Pass
from workloads.layers import (
    AveragePool2D,
    BatchNorm,
    ChannelScale,
    ClassToken,
    Concatenate,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Dropout,
    FirstToken,
    Flatten,
    Gelu,
    GlobalAveragePool2D,
    HardSigmoid,
    HardSwish,
    LayerNorm,
    MaxPool2D,
    MultiHeadAttention,
    Multiply,
    Normalise,
    PositionEmbedding,
    Relu,
    Relu6,
    Resize,
    Sigmoid,
    Silu,
    Softmax,
    StochasticDepth,
    Tanh,
    TokenMean,
    Tokens,
    residual,
    squeeze_excite,
)
from workloads.spec import Workload

Array = np.ndarray[Any, Any]

GATE = squeeze_excite(
    "gate",
    (
        GlobalAveragePool2D("squeeze"),
        Dense("reduce", 3, "he-uniform"),
        Relu("reduce_relu"),
        Dense("excite", 4, "he-normal"),
        HardSigmoid("sigmoid"),
    ),
)
BLOCK = residual(
    "block",
    (
        DepthwiseConv2D("filter", (3, 2), 1, "same", bias=False, initializer="he-normal"),
        BatchNorm("filter_norm", momentum=0.75, epsilon=1e-2),
        Relu6("relu6"),
        GATE,
        Conv2D("project", 4, (1, 1)),
    ),
)
EVERYTHING = Workload(
    "everything",
    "",
    (16, 13, 3),
    (
        Conv2D("stem", 4, (3, 3), 2, "same", bias=False),  # (8, 7)
        BatchNorm("stem_norm"),
        HardSwish("stem_swish"),
        MaxPool2D("max", 2),  # (4, 3)
        BLOCK,
        DepthwiseConv2D("wide", (1, 2)),  # (4, 2)
        HardSwish("wide_swish"),  # or BatchNorm would remove the bias, and its gradient
        AveragePool2D("average", 2),  # (2, 1)
        Resize("resize", 3, 2),
        Flatten("flatten"),
        BatchNorm("norm"),
        Dropout("dropout", 0.25),
        Dense("head", 3),
    ),
)


TRANSFORMER = Workload(
    "transformer",
    "",
    (5, 6, 3),
    (
        Conv2D("patches", 4, (2, 2), 2),
        Tokens("tokens"),  # (6, 4)
        PositionEmbedding("positions"),
        residual("add1", (LayerNorm("norm1"), MultiHeadAttention("attention", 2))),
        residual("add2", (LayerNorm("norm2"), Dense("dense1", 5), Gelu("gelu"), Dense("dense2", 4))),
        Silu("silu"),
        Multiply("gated", ((Sigmoid("sigmoid"),), (Tanh("tanh"),), ())),
        TokenMean("mean"),
        Concatenate("twice", ((), (Dense("more", 3), Softmax("softmax")))),
        Dense("head", 3),
    ),
)
CLASS_TOKEN = Workload(
    "class-token",
    "",
    (5, 6, 3),
    (
        Normalise("normalise", (0.2, 0.4, 0.6), (0.5, 0.25, 0.125)),
        Conv2D("patches", 4, (2, 2), 2),
        residual("add1", (Conv2D("pointwise", 4, (1, 1)), ChannelScale("scale", 0.5), StochasticDepth("depth", 0.25))),
        Tokens("tokens"),
        ClassToken("class"),  # (7, 4)
        residual("add2", (LayerNorm("norm"), MultiHeadAttention("attention", 2))),
        FirstToken("first"),
        Dense("head", 3),
    ),
)


def a_pass(weights: dict[str, Array], training: bool = True, seed: int = 0) -> Pass:
    return Pass(weights, training, np.random.Generator(np.random.PCG64(seed)))


def central_difference(f: Callable[[], float], x: Array, h: float = 1e-5) -> Array:
    """Gradient of `f` with respect to `x`, which is varied in place."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        here = x[index]
        x[index] = here + h
        above = f()
        x[index] = here - h
        gradient[index] = (above - f()) / (2 * h)
        x[index] = here
    return gradient


def assert_close(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    assert np.linalg.norm(expected) > 0
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)
