"""Canonical layouts compared with channels-first ones: values move, and nothing else happens to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from each import for_each

from workloads.catalogue import OSU_CNN
from workloads.layers import (
    Add,
    BatchNorm,
    ChannelScale,
    Concatenate,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Dropout,
    Flatten,
    GlobalAveragePool2D,
    Layer,
    LayerNorm,
    MaxPool2D,
    MultiHeadAttention,
    PositionEmbedding,
    Relu,
    Tokens,
    residual,
    squeeze_excite,
)
from workloads.spec import Workload
from workloads.weights import Weights, channels_first, channels_last, outputs_channels_last

Array = np.ndarray[Any, Any]

OBLONG = Workload(
    "oblong",
    "",
    (9, 6, 3),
    (
        Conv2D("conv", 4, (2, 3)),
        BatchNorm("norm1"),
        Relu("relu1"),
        MaxPool2D("pool", 2),
        Flatten("flatten"),
        BatchNorm("norm2"),
        Relu("relu2"),
        Dense("dense1", 32),
        BatchNorm("norm3"),
        Dense("dense2", 32),
    ),
)  # dense1 gives as many features, so that an extra move does not show in its shape
GATE = squeeze_excite("gate", (GlobalAveragePool2D("squeeze"), Dense("reduce", 3), Dense("excite", 5)))
BRANCHED = Workload(
    "branched",
    "",
    (4, 3, 5),
    (
        residual("block", (DepthwiseConv2D("filter", (3, 2), padding="same"), BatchNorm("norm1"), GATE)),
        Flatten("flatten"),
        Dropout("dropout", 0.5),
        Dense("dense1", 60),
        residual("tail", (Dense("dense2", 60), BatchNorm("norm2"))),
        Dense("dense3", 2),
    ),
)


TRANSFORMER = Workload(
    "transformer",
    "",
    (4, 6, 3),
    (
        Conv2D("patches", 6, (2, 2), 2),
        Tokens("tokens"),  # (6, 6): a transpose does not show in its shape
        PositionEmbedding("positions"),
        residual("add", (LayerNorm("norm"), MultiHeadAttention("attention", 2))),
        Flatten("flatten"),
        Dense("dense", 36),
    ),
)
INCEPTION = Workload(
    "inception",
    "",
    (4, 3, 5),
    (
        Concatenate("image", ((Conv2D("conv1", 2, (1, 1)),), (), (Conv2D("conv2", 4, (1, 1), groups=1),))),
        Concatenate(
            "features",
            ((GlobalAveragePool2D("means"),), (Flatten("flatten"), LayerNorm("norm1"), ChannelScale("scale"))),
        ),
        BatchNorm("norm2"),
        Dense("dense", 143),
    ),
)
NETWORKS = [OBLONG, BRANCHED, OSU_CNN, TRANSFORMER, INCEPTION]


def filled(workload: Workload) -> Weights:
    """Weights without two equal values."""
    generator = np.random.Generator(np.random.PCG64(2))
    shapes = workload.weight_shapes()
    return {key: generator.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}


def same(a: Weights, b: Weights) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[key], b[key]) and a[key].dtype == b[key].dtype for key in a)


@pytest.mark.parametrize("workload", NETWORKS, ids=lambda workload: workload.name)
def test_channels_last_undoes_channels_first(workload: Workload) -> None:
    weights = filled(workload)
    native = channels_first(workload, weights)
    again = channels_last(workload, native)
    assert same(again, weights)
    assert all(array.flags.c_contiguous for array in (*native.values(), *again.values()))


def test_channels_first_gives_oihw_kernels_an_output_a_depthwise_channel_and_transposed_attention() -> None:
    weights = filled(OBLONG)
    native = channels_first(OBLONG, weights)["conv/kernel"]
    assert native.shape == (4, 3, 2, 3)
    for o, i, h, w in np.ndindex(native.shape):
        assert native[o, i, h, w] == weights["conv/kernel"][h, w, i, o]
    weights = filled(BRANCHED)
    native = channels_first(BRANCHED, weights)["filter/kernel"]
    assert native.shape == (5, 1, 3, 2)
    for c, _, h, w in np.ndindex(native.shape):
        assert native[c, 0, h, w] == weights["filter/kernel"][h, w, 0, c]
    weights = filled(TRANSFORMER)
    arrays = channels_first(TRANSFORMER, weights)
    for part in ("query", "key", "value", "output"):
        assert np.array_equal(arrays[f"attention/{part}_kernel"], weights[f"attention/{part}_kernel"].T)
        assert np.array_equal(arrays[f"attention/{part}_bias"], weights[f"attention/{part}_bias"])
    assert np.array_equal(arrays["positions/embedding"], weights["positions/embedding"])


def test_tokens_and_what_is_flattened_of_them_have_one_order() -> None:
    weights = filled(TRANSFORMER)
    assert np.array_equal(channels_first(TRANSFORMER, weights)["dense/kernel"].T, weights["dense/kernel"])
    tokens = np.arange(72, dtype=np.float32).reshape(2, 6, 6)
    native: Weights = {"tokens": tokens, "flatten": tokens.reshape(2, 36)}
    assert same(outputs_channels_last(TRANSFORMER, native), native)


def test_a_concatenate_of_flattened_features_is_reordered_in_the_flattened_part_alone() -> None:
    weights = filled(INCEPTION)
    native = channels_first(INCEPTION, weights)
    places = np.arange(4 * 3 * 11).reshape(4, 3, 11).transpose(2, 0, 1).ravel()
    assert np.array_equal(native["norm1/gamma"], weights["norm1/gamma"][places])
    both = np.concatenate([np.arange(11), 11 + places])
    assert np.array_equal(native["norm2/running_mean"], weights["norm2/running_mean"][both])
    assert np.array_equal(native["dense/kernel"].T, weights["dense/kernel"][both])
    features = np.arange(2 * 143, dtype=np.float32).reshape(2, 143)
    outputs = outputs_channels_last(INCEPTION, {"features": features[:, both], "dense": features})
    assert same(outputs, {"features": features, "dense": features})


def test_an_add_of_two_flattened_images_keeps_their_order() -> None:
    branches = ((Flatten("f1"),), (Relu("r"), Flatten("f2")))
    workload = Workload("w", "", (2, 3, 4), (Add("a", branches), Dense("d", 24)))
    weights = filled(workload)
    places = np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1).ravel()
    assert np.array_equal(channels_first(workload, weights)["d/kernel"].T, weights["d/kernel"][places])


def evaluated(x: Array, weights: Weights, norm: str) -> Array:
    gamma, beta, mean, variance = (
        weights[f"{norm}/{role}"].astype(np.float64) for role in ("gamma", "beta", "running_mean", "running_variance")
    )
    return gamma * (x - mean) / np.sqrt(np.abs(variance) + 0.1) + beta


def test_the_layers_behind_a_flatten_compute_the_same_from_either_layout() -> None:
    nhwc = np.random.Generator(np.random.PCG64(0)).normal(size=(5, 4, 2, 4))
    nchw = nhwc.transpose(0, 3, 1, 2)
    weights = filled(OBLONG)
    native = channels_first(OBLONG, weights)

    def end(x: Array, dense: Callable[[Array, str], Array], weights: Weights) -> Array:
        x = np.maximum(evaluated(x.reshape(5, -1), weights, "norm2"), 0)
        return dense(evaluated(dense(x, "dense1"), weights, "norm3"), "dense2")

    canonical = end(nhwc, lambda x, name: x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"], weights)
    other = end(nchw, lambda x, name: x @ native[f"{name}/kernel"].T + native[f"{name}/bias"], native)
    np.testing.assert_allclose(other, canonical, rtol=1e-12, atol=1e-12)
    for moved in ("dense1/kernel", *(f"norm2/{role}" for role in ("gamma", "beta", "running_mean"))):
        assert not np.array_equal(native[moved].T, weights[moved])


def test_only_what_stands_between_a_flatten_and_the_end_of_its_dense_layer_is_reordered() -> None:
    for workload, moved in ((OBLONG, {"norm2", "dense1"}), (BRANCHED, {"dense1"})):
        weights = filled(workload)
        native = channels_first(workload, weights)
        flat = [key for key in weights if weights[key].ndim < 4]
        changed = {key for key in flat if not np.array_equal(native[key].T, weights[key])}
        assert changed == {key for key in flat if key.split("/")[0] in moved and not key.endswith("bias")}


def test_a_second_flatten_flat_input_or_one_pixel_changes_no_order() -> None:
    flat = OBLONG.layers.index(Flatten("flatten")) + 1
    twice = replace(OBLONG, layers=(*OBLONG.layers[:flat], Flatten("again"), *OBLONG.layers[flat:]))
    weights = filled(OBLONG)
    assert same(channels_first(twice, weights), channels_first(OBLONG, weights))
    vector = Workload("flat", "", (6,), (Flatten("flatten"), BatchNorm("norm"), Dense("dense", 3)))
    weights = filled(vector)
    native = channels_first(vector, weights)
    assert np.array_equal(native.pop("dense/kernel"), weights["dense/kernel"].T)
    assert all(np.array_equal(native[key], weights[key]) for key in native)
    gate = squeeze_excite("gate", (Conv2D("c", 3, (2, 2)), Flatten("f")))
    inside = Workload(
        "w", "", (2, 2, 3), (gate, Conv2D("one", 1, (1, 1)), Flatten("f2"), BatchNorm("n"), Dense("d", 2))
    )
    weights = filled(inside)
    native = channels_first(inside, weights)
    assert np.array_equal(native["d/kernel"].T, weights["d/kernel"])
    assert np.array_equal(native["n/gamma"], weights["n/gamma"])


@pytest.mark.parametrize("workload", [OBLONG, BRANCHED], ids=lambda workload: workload.name)
def test_outputs_come_back_as_images_and_features_in_the_canonical_order(workload: Workload) -> None:
    behind = {"flatten", "norm2", "relu2", "dropout"} if workload is OBLONG else {"flatten", "dropout"}
    generator = np.random.Generator(np.random.PCG64(4))
    canonical: Weights = {}
    native: Weights = {}
    image: tuple[int, ...] = ()
    for layer, shape in workload.walk():
        image = shape if layer.name == "flatten" else image
        output = generator.normal(size=(2, *layer.output_shape(shape))).astype(np.float32)
        canonical[layer.name] = output
        if output.ndim == 4:
            output = output.transpose(0, 3, 1, 2)
        elif layer.name in behind:
            output = output.reshape(2, *image).transpose(0, 3, 1, 2).reshape(2, -1)
        native[layer.name] = output
    found = outputs_channels_last(workload, native)
    assert same(found, canonical)
    assert all(array.flags.c_contiguous for array in found.values())


@for_each(
    "layers",
    [
        (Flatten("f"), residual("culprit", (Dense("d", 8),)), Dense("end", 2)),
        (Flatten("f"), Relu("r"), residual("culprit", (BatchNorm("n"), Dense("d", 8))), Dense("end", 2)),
        (Flatten("f"), residual("outer", (residual("culprit", (Dense("d", 8),)), Dense("d2", 8)))),
        (squeeze_excite("culprit", (Conv2D("c", 2, (1, 1)), Flatten("f"))), Flatten("f2"), Dense("end", 2)),
    ],
)
@for_each("function", [channels_first, channels_last, outputs_channels_last])
def test_a_branch_whose_features_would_be_in_two_orders_is_refused_by_name(
    layers: tuple[Layer, ...], function: Callable[[Workload, Weights], Weights]
) -> None:
    workload = Workload("w", "", (2, 1, 4), layers)
    assert workload.output_shape
    with pytest.raises(ValueError, match=r"layer culprit: .*Flatten.*Dense"):
        function(workload, {})


def test_a_branch_that_flattens_within_is_reordered_within() -> None:
    gate = squeeze_excite("gate", (Flatten("f"), Dense("d", 3)))
    inside = Workload("w", "", (2, 2, 3), (gate, BatchNorm("n"), GlobalAveragePool2D("p"), Dense("end", 3)))
    weights = filled(inside)
    native = channels_first(inside, weights)
    image = np.arange(12).reshape(2, 2, 3)
    np.testing.assert_array_equal(native["d/kernel"].T, weights["d/kernel"][image.transpose(2, 0, 1).ravel()])
    assert np.array_equal(native["end/kernel"].T, weights["end/kernel"])
    assert np.array_equal(native["n/gamma"], weights["n/gamma"])
