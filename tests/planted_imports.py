"""A small network of all parts that imports go wrong in, as a source and as imported, and errors planted in the import.

It needs numpy alone: a framework's environment reads it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from workloads.layers import (
    Add,
    AveragePool2D,
    BatchNorm,
    ChannelScale,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Dropout,
    Gelu,
    GlobalAveragePool2D,
    Layer,
    LayerNorm,
    MaxPool2D,
    Normalise,
    Relu,
    Relu6,
    StochasticDepth,
    changed,
)
from workloads.records.network import OwnCode
from workloads.records.source_map import SourceMap, SourceParameter
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

EVEN = (1, 1, 1, 1)
CLASSES = 16
OPTIMIZER = OptimizerSpec("momentum", 0.01)


def convnext(number: int, rate: float) -> Add:
    """Return the residual block of ConvNeXt of this number."""
    branch = (
        DepthwiseConv2D(f"mix{number}", (3, 3), padding=EVEN),
        LayerNorm(f"norm{number}", 1e-6),
        Conv2D(f"up{number}", 32, (1, 1)),
        Gelu(f"gelu{number}"),
        Conv2D(f"down{number}", 16, (1, 1)),
        ChannelScale(f"scale{number}"),
        StochasticDepth(f"depth{number}", rate),
    )
    return Add(f"block{number}", (branch, ()))


BOTTLENECK = Add(
    "bottleneck",
    (
        (
            Conv2D("reduce", 8, (1, 1), bias=False),
            BatchNorm("reduce_norm", 0.9, 1e-5),
            Relu("reduce_relu"),
            Conv2D("middle", 8, (3, 3), 2, EVEN, bias=False, groups=4),
            BatchNorm("middle_norm", 0.9, 1e-5),
            Relu("middle_relu"),
            Conv2D("expand", 16, (1, 1), bias=False),
            BatchNorm("expand_norm", 0.9, 1e-5),
        ),
        (Conv2D("shortcut", 16, (1, 1), 2, bias=False), BatchNorm("shortcut_norm", 0.9, 1e-5)),
    ),
)
NETWORK = Workload(
    "imported",
    "",
    (17, 15, 3),
    (
        Normalise("normalise", (0.4, 0.5, 0.45), (0.2, 0.25, 0.22)),
        Conv2D("stem", 8, (3, 3), 2, EVEN, bias=False),
        BatchNorm("stem_norm", 0.9, 1e-5),
        Relu6("stem_relu"),
        MaxPool2D("pool", 3, 2, EVEN),
        BOTTLENECK,
        Relu("bottleneck_relu"),
        convnext(1, 0.1),
        convnext(2, 0.2),
        GlobalAveragePool2D("mean"),
        Dropout("drop", 0.5),
        Dense("head", CLASSES),
    ),
)
CODE = OwnCode("pytorch", "source_net.py", "make_model", "0" * 12, CLASSES, NETWORK.input_shape)
ROLES = {"kernel": "weight", "gamma": "weight", "beta": "bias", "running_variance": "running_var"}
KERNEL, MATRIX = (2, 3, 1, 0), (1, 0)


def name_in_source(key: str) -> str:
    """Return PyTorch's name of a weight."""
    layer, role = key.split("/")
    number = layer[-1] if layer[-1].isdigit() else ""
    if layer.startswith("scale"):
        return f"block{number}.scale"
    path = f"block{number}.{layer[:-1]}" if number else layer
    return f"{path}.{ROLES.get(role, role)}"


def map_parameter(key: str) -> SourceParameter:
    """Return where PyTorch has a weight, and how."""
    if not key.endswith("/kernel"):
        return SourceParameter(key, name_in_source(key))
    linear = key.startswith(("up", "down", "head"))
    return SourceParameter(key, name_in_source(key), MATRIX if linear else KERNEL)


PLACES = {
    "stem": "stem", "stem_norm": "stem_norm", "stem_relu": "relu6", "pool": "pool", "reduce": "reduce",
    "reduce_norm": "reduce_norm", "reduce_relu": "relu", "middle": "middle", "middle_norm": "middle_norm",
    "middle_relu": "relu", "expand": "expand", "expand_norm": "expand_norm", "shortcut": "shortcut",
    "shortcut_norm": "shortcut_norm", "bottleneck_relu": "relu", "mix1": "block1.mix", "norm1": "block1.norm",
    "up1": "block1.up", "gelu1": "block1.gelu", "down1": "block1.down", "mix2": "block2.mix", "norm2": "block2.norm",
    "up2": "block2.up", "gelu2": "block2.gelu", "down2": "block2.down", "head": "head",
}  # fmt: skip
SOURCE = SourceMap(CODE, tuple(map(map_parameter, NETWORK.weight_shapes())), PLACES)


def draw_images(number: int = 40) -> tuple[Any, Any, Any]:
    """Return images, labels and an order of them."""
    generator = np.random.Generator(np.random.PCG64(1))
    images = generator.integers(0, 256, (number, *NETWORK.input_shape), np.uint8)
    labels = generator.integers(0, CLASSES, number).astype(np.int32)
    return images, labels, generator.permutation(number).astype(np.int32)


def draw_weights() -> Weights:
    """Return weights as after some training: no role has its usual value at the start."""
    generator, weights = np.random.Generator(np.random.PCG64(2)), Weights()
    for key, shape in NETWORK.weight_shapes().items():
        role, noise = key.split("/")[1], generator.normal(0, 1, shape)
        if role == "kernel":
            weights[key] = (noise / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)
        elif role in ("gamma", "scale", "running_variance"):
            size = 4.0 if key in ("stem_norm/gamma", "expand_norm/gamma") else 0.7
            weights[key] = (size * np.exp(0.2 * noise)).astype(np.float32)
        else:
            weights[key] = (0.1 * noise).astype(np.float32)
    return weights


@dataclass(frozen=True)
class Imported:
    """Result of an import of the source."""

    workload: Workload
    weights: Weights
    source: SourceMap = SOURCE


Change = Callable[[Imported], Imported]


def of_layer(name: str, **settings: Any) -> Change:
    """Return the error of other settings of a layer, and of its weights where their shape changes."""
    return with_layers(lambda layer: replace(layer, **settings) if layer.name == name else layer)


def with_layers(change: Callable[[Layer], Layer]) -> Change:
    """Return the error of changed layers; a weight of another shape repeats the values that there are."""

    def planted(given: Imported) -> Imported:
        workload = replace(given.workload, layers=changed(given.workload.layers, change))
        shapes = workload.weight_shapes()
        return replace(given, workload=workload, weights={
            key: given.weights[key] if given.weights[key].shape == shape else np.resize(given.weights[key], shape)
            for key, shape in shapes.items()
        })  # fmt: skip

    return planted


def in_order(name: str, *order: int) -> Change:
    """Return the error of another order of the layers of a block's branch."""

    def planted(given: Imported) -> Imported:
        layers = tuple(
            replace(layer, branches=(tuple(layer.branches[0][place] for place in order), *layer.branches[1:]))
            if isinstance(layer, Add) and layer.name == name
            else layer
            for layer in given.workload.layers
        )
        return replace(given, workload=replace(given.workload, layers=layers))

    return planted


def of_weights(**changes: Callable[[Weights], Any]) -> Change:
    """Return the error of other initial weights, by their keys with two underscores in place of the stroke."""

    def planted(given: Imported) -> Imported:
        made = {key.replace("__", "/"): np.asarray(make(given.weights)) for key, make in changes.items()}
        return replace(given, weights=given.weights | {key: array.astype(np.float32) for key, array in made.items()})

    return planted


def stride_in_the_other(layer: Layer) -> Layer:
    if isinstance(layer, Conv2D) and layer.name in ("reduce", "middle"):
        return replace(layer, stride=3 - layer.stride)
    return layer


def average_pool(layer: Layer) -> Layer:
    return AveragePool2D("pool", 3, 2, EVEN) if layer.name == "pool" else layer


def relu_for_relu6(layer: Layer) -> Layer:
    return Relu(layer.name) if layer.name == "stem_relu" else layer


def relu6_for_relu(layer: Layer) -> Layer:
    return Relu6(layer.name) if layer.name == "bottleneck_relu" else layer


def values_for_images(layer: Layer) -> Layer:
    return Dropout(layer.name, 0.1) if layer.name == "depth1" else layer


def blocks_swapped(given: Imported) -> Imported:
    layers = list(given.workload.layers)
    layers[7], layers[8] = layers[8], layers[7]
    return replace(given, workload=replace(given.workload, layers=tuple(layers)))


def dropout_lost(given: Imported) -> Imported:
    layers = tuple(layer for layer in given.workload.layers if layer.name != "drop")
    return replace(given, workload=replace(given.workload, layers=layers))


def scale_lost(given: Imported) -> Imported:
    return replace(given, workload=replace(given.workload, scale=1.0))


def with_map(change: Callable[[SourceParameter], SourceParameter]) -> Change:
    """Return the error of a map that reads the source's tensors otherwise, and of the weights that follow from it."""

    def planted(given: Imported) -> Imported:
        source = replace(given.source, parameters=tuple(map(change, given.source.parameters)))
        tensors = {each.source_name: put(each, given.weights[each.key]) for each in given.source.parameters}
        return replace(given, source=source, weights=source.take(tensors, given.workload.weight_shapes()))

    return planted


def put(parameter: SourceParameter, weight: Any) -> Any:
    """Return the source's tensor of a weight."""
    if parameter.axes == MATRIX:
        return weight.reshape(weight.shape[-2:]).T
    return weight.transpose(np.argsort(parameter.axes)) if parameter.axes else weight


def untransposed(parameter: SourceParameter) -> SourceParameter:
    return replace(parameter, axes=()) if parameter.key == "head/kernel" else parameter


def exchanged(parameter: SourceParameter) -> SourceParameter:
    swap = {"up1/kernel": "block2.up.weight", "up2/kernel": "block1.up.weight"}
    return replace(parameter, source_name=swap.get(parameter.key, parameter.source_name))


# {error: (the import with it, what the message must name)}
PLANTED: dict[str, tuple[Change, str]] = {
    "padding on the other side": (of_layer("stem", padding=(2, 0, 2, 0)), "first layer that differs: stem,"),
    "stride in the other convolution": (with_layers(stride_in_the_other), "first layer that differs: reduce,"),
    "wrong epsilon of a batch norm": (of_layer("stem_norm", epsilon=1e-3), "first layer that differs: stem_norm,"),
    "wrong epsilon of a layer norm": (of_layer("norm1", epsilon=1e-3), "first layer that differs: norm1,"),
    "momentum reversed": (of_layer("middle_norm", momentum=0.1), "the change of middle_norm/running_"),
    "dropout lost": (dropout_lost, "the source drops each value with probability 0.5 in "),
    "wrong rate of dropout": (of_layer("drop", rate=0.2), "drop drops each value with probability 0.2, "),
    "wrong rate of stochastic depth": (of_layer("depth1", rate=0.2), "depth1 drops each image with probability 0.2, "),
    "values dropped for images": (with_layers(values_for_images), "depth1 drops each value with probability 0.1, "),
    "head transposed": (of_weights(head__kernel=lambda given: given["head/kernel"].T), "any step: head/kernel "),
    "head transposed by the map": (with_map(untransposed), "differs: head,"),
    "bias lost": (of_layer("up1", bias=False), "parameters, the source "),
    "bias left at zero": (of_weights(head__bias=lambda given: 0 * given["head/bias"]), "any step: head/bias "),
    "layer scale left at one": (of_weights(scale1__scale=lambda given: np.ones(16)), "any step: scale1/scale "),
    "norm after instead of before": (in_order("block1", 0, 2, 3, 4, 1, 5, 6), "first layer that differs: up1,"),
    "scale of the input lost": (scale_lost, "first layer that differs: stem,"),
    "a channel order reversed": (
        of_weights(stem__kernel=lambda given: given["stem/kernel"][:, :, ::-1]), "any step: stem/kernel "
    ),
    "means of the input reversed": (
        of_layer("normalise", mean=(0.45, 0.5, 0.4)), "first layer that differs: stem,"
    ),
    "ReLU for ReLU6": (with_layers(relu_for_relu6), "first layer that differs: stem_relu,"),
    "ReLU6 for ReLU": (with_layers(relu6_for_relu), "first layer that differs: bottleneck_relu,"),
    "average for max pool": (with_layers(average_pool), "first layer that differs: pool,"),
    "count of groups": (of_layer("middle", groups=2), "parameters, the source "),
    "two blocks swapped": (blocks_swapped, "depth2 drops each image with probability 0.2, "),
    "weight of another layer": (of_weights(up2__kernel=lambda given: given["up1/kernel"]), "any step: up2/kernel "),
    "weights of two layers exchanged by the map": (with_map(exchanged), "first layer that differs: up1,"),
    "evaluation statistics not loaded": (
        of_weights(
            stem_norm__running_mean=lambda given: np.zeros(8), stem_norm__running_variance=lambda given: np.ones(8)
        ),
        "any step: stem_norm/running_",
    ),
}  # fmt: skip
OTHER_GELU = "first layer that differs: gelu1,"  # planted in the source: no record has the approximation


def trained(tensors: dict[str, Any]) -> dict[str, Any]:
    """Return a module's tensors as after some training, by their names."""
    generator, changed = np.random.Generator(np.random.PCG64(4)), {}
    for name, tensor in tensors.items():
        noise = generator.normal(0, 1, tensor.shape)
        if tensor.dtype.kind != "f" or name.endswith("_of_images"):
            changed[name] = tensor
        elif tensor.ndim == 1 and np.ptp(tensor) == 0:  # of a norm, or a bias that starts at zero
            size = 5.0 if name in ("stem_norm.weight", "expand_norm.weight", "stem_norm/0") else 1.0
            changed[name] = (size * (tensor + 0.1 * np.abs(noise))).astype(tensor.dtype)
        else:
            changed[name] = (tensor + 0.01 * noise).astype(tensor.dtype)
    return changed
