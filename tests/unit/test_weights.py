from __future__ import annotations

import hashlib
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest

from workloads.catalogue import OSU_CNN
from workloads.layers import (
    BatchNorm,
    ChannelScale,
    ClassToken,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    FirstToken,
    Flatten,
    Initializer,
    Layer,
    MaxPool2D,
    Relu,
    Tokens,
)
from workloads.spec import Workload
from workloads.weights import DISTURBANCE, Weights, disturbed, draw, load, save

OBLONG = Workload(
    "oblong",
    "",
    (9, 6, 3),
    (
        Conv2D("conv", 4, (2, 3)),
        BatchNorm("norm1"),
        Relu("relu1"),
        DepthwiseConv2D("depthwise", (1, 2), padding="same"),
        MaxPool2D("pool", 2),
        Flatten("flatten"),
        BatchNorm("norm2"),
        Relu("relu2"),
        Dense("dense1", 7),
        Dense("dense2", 7),
    ),
)


def same(a: Weights, b: Weights) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[key], b[key]) and a[key].dtype == b[key].dtype for key in a)


def test_drawn_weights_follow_their_seed_and_have_the_workloads_keys_and_shapes() -> None:
    assert same(draw(OSU_CNN, 3), draw(OSU_CNN, 3))
    first, second = draw(OSU_CNN, 3), draw(OSU_CNN, 4)
    assert all(not np.array_equal(first[key], second[key]) for key in first if key.endswith("kernel"))
    drawn = draw(OBLONG, 0)
    assert {key: array.shape for key, array in drawn.items()} == OBLONG.weight_shapes()
    assert "norm2/running_variance" in drawn
    assert {array.dtype for array in drawn.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("key", "fan_in", "fan_out"),
    [
        ("conv1/kernel", 27, 288),
        ("conv2/kernel", 288, 576),
        ("conv3/kernel", 576, 576),
        ("dense1/kernel", 1024, 64),
        ("dense2/kernel", 64, 10),
    ],
)
def test_kernels_are_uniform_within_the_glorot_limit(key: str, fan_in: int, fan_out: int) -> None:
    assert_uniform(draw(OSU_CNN, 1)[key], math.sqrt(6 / (fan_in + fan_out)))


def assert_uniform(kernel: np.ndarray, limit: float) -> None:
    kernel = kernel.astype(np.float64)
    assert 0.98 * limit < np.abs(kernel).max() <= limit * (1 + 1e-6)
    assert kernel.var() == pytest.approx(limit**2 / 3, rel=4 / math.sqrt(kernel.size))
    assert abs(kernel.mean()) < 4 * limit / math.sqrt(3 * kernel.size)


def assert_normal(kernel: np.ndarray, deviation: float) -> None:
    standard = kernel.astype(np.float64).ravel() / deviation
    assert standard.var() == pytest.approx(1, rel=4 * math.sqrt(2 / standard.size))
    assert abs(standard.mean()) < 4 / math.sqrt(standard.size)
    for sigmas, share in ((1, 0.3173), (2, 0.0455), (3, 0.0027)):  # a truncated one has none beyond two
        beyond = (np.abs(standard) > sigmas).mean()
        assert beyond == pytest.approx(share, abs=4 * math.sqrt(share / standard.size))


LARGE = {  # layer: (layer, what enters it, fan_in, fan_out); each kernel has 30,000 values or more
    "conv": (Conv2D("k", 96, (5, 3), bias=False), (5, 3, 32), 15 * 32, 15 * 96),
    "dense": (Dense("k", 100), (400,), 400, 100),
    "depthwise": (DepthwiseConv2D("k", (5, 3)), (5, 3, 2048), 15, 15 * 2048),
}


def large(layer: str, initializer: Initializer) -> tuple[np.ndarray, int, int]:
    record, shape, fan_in, fan_out = LARGE[layer]
    changed: Layer = type(record)(**{**vars(record), "initializer": initializer})
    return draw(Workload("large", "", shape, (changed,)), 6)["k/kernel"], fan_in, fan_out


@pytest.mark.parametrize("layer", LARGE)
def test_glorot_uniform_reads_both_fans(layer: str) -> None:
    kernel, fan_in, fan_out = large(layer, "glorot-uniform")
    assert_uniform(kernel, math.sqrt(6 / (fan_in + fan_out)))


@pytest.mark.parametrize("layer", LARGE)
def test_he_uniform_reads_the_fan_in_alone(layer: str) -> None:
    kernel, fan_in, _ = large(layer, "he-uniform")
    assert_uniform(kernel, math.sqrt(6 / fan_in))


@pytest.mark.parametrize("layer", LARGE)
def test_he_normal_is_a_normal_of_variance_two_by_fan_in_and_not_truncated(layer: str) -> None:
    kernel, fan_in, _ = large(layer, "he-normal")
    assert_normal(kernel, math.sqrt(2 / fan_in))


def test_a_layer_draws_by_its_own_initializer_whatever_stands_beside_it() -> None:
    layers = (Dense("a", 100, "he-normal"), Dense("b", 400, "he-uniform"), Dense("c", 100))
    drawn = draw(Workload("mixed", "", (400,), layers), 2)
    assert_normal(drawn["a/kernel"], math.sqrt(2 / 400))
    assert_uniform(drawn["b/kernel"], math.sqrt(6 / 100))
    assert_uniform(drawn["c/kernel"], math.sqrt(6 / 500))


def test_scales_and_variances_start_at_one_all_but_kernels_else_at_zero() -> None:
    drawn = draw(OBLONG, 1)
    roles = {key: key.split("/")[1] for key in drawn}
    assert set(roles.values()) == {"kernel", "bias", "gamma", "beta", "running_mean", "running_variance"}
    for key, array in drawn.items():
        if roles[key] in ("gamma", "running_variance"):
            assert (array == 1).all(), key
        elif roles[key] != "kernel":
            assert (array == 0).all(), key


def test_a_channel_scale_starts_at_its_own_value_and_a_class_token_at_zero() -> None:
    layers = (Tokens("t"), ClassToken("c"), ChannelScale("a"), ChannelScale("b", 0.5), FirstToken("f"), Dense("d", 2))
    drawn = draw(Workload("scaled", "", (2, 2, 3), layers), 3)
    starts = {key: array.tolist() for key, array in drawn.items() if not key.startswith("d/")}
    assert starts == {"c/token": [0.0] * 3, "a/scale": [np.float32(1e-6)] * 3, "b/scale": [0.5] * 3}


def test_saved_weights_come_back_unchanged(tmp_path: Path) -> None:
    drawn = draw(OBLONG, 5)
    save(tmp_path / "weights.npz", drawn)
    assert same(load(tmp_path / "weights.npz"), drawn)


def test_the_same_seed_gives_the_same_bytes_on_disk_at_any_time(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        save(tmp_path / name, draw(OBLONG, 5))
    digests = {hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("a.npz", "b.npz")}
    assert len(digests) == 1
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_disturbed_weights_are_larger_or_smaller_by_the_same_part_and_what_is_zero_stays_so() -> None:
    given = draw(OSU_CNN, 3)
    first, again, second = (disturbed(given, number) for number in (0, 0, 1))
    assert same(first, again) and not same(first, second) and not same(first, given)
    kernel, off = given["conv1/kernel"], first["conv1/kernel"]
    assert np.abs(off / kernel.astype(np.float64) - 1) == pytest.approx(DISTURBANCE, rel=0.1)
    assert 0.4 < np.mean(np.abs(off) > np.abs(kernel)) < 0.6
    assert not first["conv1/bias"].any() and off.dtype == np.float32
