from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from workloads.datasets import DATASETS, DataError, DataFile, Dataset, Split, _read_idx, batch_order, fit, load

OSU_INPUT = (32, 32, 3)
NOWHERE = Path("not used by built-in data")


@pytest.fixture(scope="module")
def digits() -> tuple[Split, Split]:
    return load(DATASETS["digits"], NOWHERE, OSU_INPUT)


@pytest.fixture(scope="module")
def synthetic() -> tuple[Split, Split]:
    return load(DATASETS["synthetic"], NOWHERE, OSU_INPUT)


def test_digits_are_1437_and_360_grey_images_enlarged_fourfold_a_fifth_of_each_class_to_test(
    digits: tuple[Split, Split],
) -> None:
    for split, count in zip(digits, (1437, 360), strict=True):
        assert split.images.shape == (count, *OSU_INPUT)
        assert split.images.dtype == np.uint8
        assert split.labels.shape == (count,)
        assert split.labels.dtype == np.int32
        assert (split.images.min(), split.images.max()) == (0, 255)
    images = digits[1].images
    assert np.array_equal(images, images[:, ::4, ::4, :1].repeat(4, axis=1).repeat(4, axis=2).repeat(3, axis=3))
    assert len(np.unique(images)) == 17
    train, test = (np.bincount(split.labels, minlength=10) for split in digits)
    assert train.sum() + test.sum() == 1797
    assert np.abs(test - (train + test) / 5).max() < 1
    learnt, tested = ({image.tobytes() for image in split.images[:, ::4, ::4, 0]} for split in digits)
    assert not learnt & tested


def test_the_few_digits_are_the_first_of_both_splits_and_of_every_class() -> None:
    shape = (8, 8, 1)
    every, few = (load(DATASETS[name], NOWHERE, shape) for name in ("digits", "digits-64"))
    for first, whole, count in zip(few, every, (64, 16), strict=True):
        assert np.array_equal(first.images, whole.images[:count])
        assert np.array_equal(first.labels, whole.labels[:count])
    assert len(np.unique(few[0].labels)) == 10


@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_built_in_data_is_the_same_each_time(name: str, request: pytest.FixtureRequest) -> None:
    for first, second in zip(request.getfixturevalue(name), load(DATASETS[name], NOWHERE, OSU_INPUT), strict=True):
        assert np.array_equal(first.images, second.images)
        assert np.array_equal(first.labels, second.labels)


def test_synthetic_has_known_counts_and_is_learnt_by_nearest_class_mean(synthetic: tuple[Split, Split]) -> None:
    train, test = synthetic
    assert (train.images.shape, test.images.shape) == ((4096, *OSU_INPUT), (1024, *OSU_INPUT))
    means = np.stack([train.images[train.labels == label].mean(axis=0).ravel() for label in range(10)])
    pixels = test.images.reshape(len(test.images), -1).astype(np.float64)
    nearest = (pixels @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=1)
    assert (nearest == test.labels).mean() > 0.99
    assert len(np.unique(test.labels)) == 10


PIXELS = np.array([[1, 2], [3, 4]], np.uint8)[None, ..., None]


@pytest.mark.parametrize(
    ("images", "shape", "plane"),
    [
        (PIXELS, (2, 2, 1), [[1, 2], [3, 4]]),
        (PIXELS, (2, 2, 3), [[1, 2], [3, 4]]),
        (PIXELS, (4, 4, 1), [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]),
        (PIXELS, (3, 4, 1), [[0, 1, 2, 0], [0, 3, 4, 0], [0, 0, 0, 0]]),
        (PIXELS, (4, 5, 3), [[1, 1, 2, 2, 0], [1, 1, 2, 2, 0], [3, 3, 4, 4, 0], [3, 3, 4, 4, 0]]),
        (PIXELS.repeat(3, axis=3), (3, 3, 3), [[1, 2, 0], [3, 4, 0], [0, 0, 0]]),
    ],
    ids=["same", "grey-to-colour", "enlarged", "padded", "both", "colour"],
)
def test_fit_enlarges_by_whole_factors_centres_and_repeats_grey(
    images: np.ndarray, shape: tuple[int, int, int], plane: list[list[int]]
) -> None:
    fitted = fit(images, shape)
    assert fitted.shape == (1, *shape)
    assert fitted.dtype == np.uint8
    for channel in range(shape[2]):
        assert fitted[0, ..., channel].tolist() == plane


def test_fit_keeps_the_channels_of_colour_apart() -> None:
    colour = np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)
    assert np.array_equal(fit(colour, (4, 4, 3))[:, ::2, ::2], colour)


@pytest.mark.parametrize(("channels", "shape"), [(1, (1, 2, 1)), (1, (2, 1, 1)), (3, (2, 2, 1)), (3, (4, 4, 4))])
def test_fit_refuses_what_would_need_interpolation_or_lose_colour(channels: int, shape: tuple[int, int, int]) -> None:
    with pytest.raises(DataError, match=r"do not fit") as caught:
        fit(PIXELS.repeat(channels, axis=3), shape)
    assert str(shape) in str(caught.value)


def test_batch_order_is_a_permutation_per_epoch_that_follows_its_seed_and_nothing_else() -> None:
    order = batch_order(50, 3, seed=1)
    assert (order.shape, order.dtype) == ((4, 50), np.dtype(np.int32))
    assert np.array_equal(np.sort(order, axis=1), np.tile(np.arange(50), (4, 1)))
    assert len({row.tobytes() for row in order}) == 4
    assert np.array_equal(batch_order(50, 3, seed=1), batch_order(50, 3, seed=1))
    assert not np.array_equal(batch_order(50, 3, seed=1), batch_order(50, 3, seed=2))
    assert np.array_equal(batch_order(50, 2, seed=1), batch_order(50, 9, seed=1)[:3])


def pair(count: int = 4, labels: int = 4, highest: int = 1) -> tuple[Split, Split]:
    split = Split(np.zeros((count, 2, 2, 1), np.uint8), np.linspace(0, highest, labels).astype(np.int32))
    return split, split


@pytest.fixture
def on_disk(tmp_path: Path) -> tuple[Dataset, Path]:
    """A data set of one published file, and that file."""
    path = tmp_path / "toy" / "data.bin"
    path.parent.mkdir()
    path.write_bytes(bytes(range(100)))
    file = DataFile("toy/data.bin", hashlib.md5(path.read_bytes()).hexdigest())
    return Dataset("toy", "", 4, 4, 2, lambda _: pair(), files=(file,)), path


def test_sound_files_are_read(on_disk: tuple[Dataset, Path], tmp_path: Path) -> None:
    train, _ = load(on_disk[0], tmp_path, (4, 4, 3))
    assert train.images.shape == (4, 4, 4, 3)


@pytest.mark.parametrize("damaged", [bytes(range(99)), b"\xff" + bytes(range(1, 100))], ids=["truncated", "altered"])
def test_a_damaged_file_is_never_read_and_its_md5s_are_told(
    on_disk: tuple[Dataset, Path], tmp_path: Path, damaged: bytes
) -> None:
    dataset, path = on_disk
    path.write_bytes(damaged)

    def read(_: Path) -> tuple[Split, Split]:
        pytest.fail("a damaged file was read")

    with pytest.raises(DataError) as caught:
        load(replace(dataset, read=read), tmp_path, (2, 2, 1))
    message = str(caught.value)
    assert str(path) in message
    assert f"expected {dataset.files[0].md5}" in message
    assert f"found {hashlib.md5(damaged).hexdigest()}" in message
    assert "\n" not in message


def test_a_missing_file_is_named(on_disk: tuple[Dataset, Path], tmp_path: Path) -> None:
    dataset, path = on_disk
    path.unlink()
    with pytest.raises(DataError, match=r"is missing$") as caught:
        load(dataset, tmp_path, (2, 2, 1))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (pair(count=3), "3 images and"),
        (pair(labels=3), "3 labels"),
        (pair(highest=2), "label lies outside 0..1"),
        (pair(highest=-1), "label lies outside 0..1"),
    ],
    ids=["images", "labels", "too-high", "negative"],
)
def test_data_that_is_not_what_it_claims_is_refused(read: tuple[Split, Split], told: str) -> None:
    with pytest.raises(DataError) as caught:
        load(Dataset("toy", "", 4, 4, 2, lambda _: read), NOWHERE, (2, 2, 1))
    assert "data set toy" in str(caught.value)
    assert told in str(caught.value)


def test_idx_is_read_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x03" + b"\0\0\0\x02" + b"\0\0\0\x01" + b"\0\0\0\x03" + bytes(range(6))))
    assert _read_idx(path).tolist() == [[[0, 1, 2]], [[3, 4, 5]]]


@pytest.mark.parametrize("start", [b"\0\0\x0d\x01\0\0\0\0", b"PNG\x01\0\0\0\0", b""], ids=["float", "other", "empty"])
def test_what_is_no_idx_file_of_bytes_is_refused(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(start))
    with pytest.raises(DataError, match="not an IDX file") as caught:
        _read_idx(path)
    assert str(path) in str(caught.value)


MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.fixture(scope="module")
def data() -> Path:
    if "BATCHWISE_DATA" not in os.environ:
        pytest.skip("BATCHWISE_DATA names no folder with the published data sets")
    return Path(os.environ["BATCHWISE_DATA"])


@pytest.mark.parametrize(
    ("name", "shape", "train_labels", "test_labels"),
    [
        ("cifar10", (32, 32, 3), [5000] * 10, [1000] * 10),
        ("fashion-mnist", (28, 28, 1), [6000] * 10, [1000] * 10),
        ("mnist", (28, 28, 1), MNIST_TRAIN, MNIST_TEST),
    ],
)
def test_published_data_has_its_documented_shapes_and_label_counts(
    data: Path, name: str, shape: tuple[int, int, int], train_labels: list[int], test_labels: list[int]
) -> None:
    for split, counts in zip(load(DATASETS[name], data, shape), (train_labels, test_labels), strict=True):
        assert split.images.shape == (sum(counts), *shape)
        assert (split.images.dtype, split.labels.dtype) == (np.dtype(np.uint8), np.dtype(np.int32))
        assert np.bincount(split.labels).tolist() == counts
        assert (split.images.min(), split.images.max()) == (0, 255)


def test_the_first_cifar10_image_is_the_known_frog(data: Path) -> None:
    train, _ = load(DATASETS["cifar10"], data, OSU_INPUT)
    assert train.labels[0] == 6
    corner = [[[59, 62, 63], [43, 46, 45]], [[16, 20, 20], [0, 0, 0]]]
    assert train.images[0, :2, :2].tolist() == corner
