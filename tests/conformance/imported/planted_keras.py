"""The import of keras_net.py, and errors planted in it."""

from __future__ import annotations

from dataclasses import replace

from planted_imports import CLASSES, CODE, EVEN, dropout_lost, of_layer, of_weights

from workloads.layers import (
    Add,
    BatchNorm,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Dropout,
    Gelu,
    GlobalAveragePool2D,
    LayerNorm,
    Relu6,
    StochasticDepth,
)
from workloads.records.source_map import SourceMap, SourceParameter
from workloads.spec import Workload

BRANCH = (
    DepthwiseConv2D("mix", (3, 3), padding=EVEN),
    LayerNorm("norm", 1e-6),
    Conv2D("up", 8, (1, 1)),
    Gelu("gelu"),
    StochasticDepth("depth", 0.1),
)
KERAS_NETWORK = Workload(
    "imported-keras",
    "",
    (17, 15, 3),
    (
        Conv2D("stem", 8, (3, 3), 2, EVEN, bias=False),
        BatchNorm("stem_norm", 0.9, 1e-5),
        Relu6("stem_relu"),
        Add("add", (BRANCH, ())),
        GlobalAveragePool2D("mean"),
        Dropout("drop", 0.5),
        Dense("head", CLASSES),
    ),
)
ROLES = {"kernel": 0, "bias": 1, "gamma": 0, "beta": 1, "running_mean": 2, "running_variance": 3}


def map_parameter(key: str) -> SourceParameter:
    """Return where Keras has a weight: only a depthwise kernel has its axes in another order."""
    layer, role = key.split("/")
    axes = (0, 1, 3, 2) if key == "mix/kernel" else ()
    return SourceParameter(key, f"{layer}/{ROLES[role]}", axes)


PLACES = {name: name for name in ("stem", "stem_norm", "stem_relu", "mix", "norm", "add", "mean", "head")}
PLACES["gelu"] = "up"  # with its activation
KERAS_SOURCE = SourceMap(
    replace(CODE, framework="tensorflow", file="keras_net.py"),
    tuple(map(map_parameter, KERAS_NETWORK.weight_shapes())),
    PLACES,
)


KERAS_PLANTED = {
    "padding on the other side": (of_layer("stem", padding=(2, 0, 2, 0)), "first layer that differs: stem,"),
    "momentum reversed": (of_layer("stem_norm", momentum=0.1), "the change of stem_norm/running_"),
    "dropout lost": (dropout_lost, "the source drops each value with probability 0.5 in drop, "),
    "wrong rate of stochastic depth": (of_layer("depth", rate=0.2), "depth drops each image with probability 0.2, "),
    "bias left at zero": (of_weights(head__bias=lambda given: 0 * given["head/bias"]), "any step: head/bias "),
}
