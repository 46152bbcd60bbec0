from __future__ import annotations

import hashlib
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest

from workloads.catalogue import OSU_CNN
from workloads.spec import Conv2D, Dense, Flatten, MaxPool2D, Relu, Workload
from workloads.weights import Weights, channels_first, channels_last, draw, load, save

OBLONG = Workload(
    "oblong",
    "",
    (9, 6, 3),
    (
        Conv2D("conv", 4, (2, 3)),
        Relu("relu1"),
        MaxPool2D("pool", 2),
        Flatten("flatten"),
        Relu("relu2"),
        Dense("dense1", 7),
        Dense("dense2", 7),
    ),
)  # Flatten takes (4, 2, 4)


def same(a: Weights, b: Weights) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[key], b[key]) and a[key].dtype == b[key].dtype for key in a)


def test_the_same_seed_draws_the_same_weights_and_another_seed_others() -> None:
    assert same(draw(OSU_CNN, 3), draw(OSU_CNN, 3))
    first, second = draw(OSU_CNN, 3), draw(OSU_CNN, 4)
    assert all(not np.array_equal(first[key], second[key]) for key in first if key.endswith("kernel"))


def test_drawn_weights_have_the_workloads_keys_shapes_and_float32() -> None:
    drawn = draw(OBLONG, 0)
    assert {key: array.shape for key, array in drawn.items()} == OBLONG.parameter_shapes()
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
    kernel = draw(OSU_CNN, 1)[key].astype(np.float64)
    limit = math.sqrt(6 / (fan_in + fan_out))
    assert 0.98 * limit < np.abs(kernel).max() <= limit * (1 + 1e-6)
    assert kernel.var() == pytest.approx(limit**2 / 3, rel=4 / math.sqrt(kernel.size))
    assert abs(kernel.mean()) < 4 * limit / math.sqrt(3 * kernel.size)


def test_biases_start_at_zero() -> None:
    assert not any(array.any() for key, array in draw(OSU_CNN, 1).items() if key.endswith("bias"))


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


@pytest.mark.parametrize("workload", [OBLONG, OSU_CNN], ids=lambda workload: workload.name)
def test_channels_last_undoes_channels_first(workload: Workload) -> None:
    drawn = draw(workload, 2)
    native = channels_first(workload, drawn)
    assert same(channels_last(workload, native), drawn)
    assert all(array.flags.c_contiguous for array in native.values())


def test_channels_first_gives_oihw_kernels() -> None:
    drawn = draw(OBLONG, 2)
    native = channels_first(OBLONG, drawn)["conv/kernel"]
    assert native.shape == (4, 3, 2, 3)
    for o, i, h, w in np.ndindex(native.shape):
        assert native[o, i, h, w] == drawn["conv/kernel"][h, w, i, o]


def test_the_dense_layer_behind_a_flatten_computes_the_same_from_either_layout() -> None:
    nhwc = np.random.Generator(np.random.PCG64(0)).normal(size=(5, 4, 2, 4))
    nchw = nhwc.transpose(0, 3, 1, 2)
    drawn = draw(OBLONG, 2)
    native = channels_first(OBLONG, drawn)
    canonical = nhwc.reshape(5, -1) @ drawn["dense1/kernel"]
    np.testing.assert_allclose(nchw.reshape(5, -1) @ native["dense1/kernel"].T, canonical, rtol=1e-12, atol=1e-12)
    assert not np.array_equal(native["dense1/kernel"].T, drawn["dense1/kernel"])


def test_only_the_first_dense_layer_behind_a_flatten_is_reordered() -> None:
    drawn = draw(OBLONG, 2)
    assert np.array_equal(channels_first(OBLONG, drawn)["dense2/kernel"], drawn["dense2/kernel"].T)


def test_a_dense_layer_on_flat_input_is_only_transposed() -> None:
    flat = Workload("flat", "", (6,), (Flatten("flatten"), Dense("dense", 3)))
    drawn = draw(flat, 2)
    assert np.array_equal(channels_first(flat, drawn)["dense/kernel"], drawn["dense/kernel"].T)
