"""Data sets as arrays: digits, whole and the first of them (built in), CIFAR-10 and its cats and dogs, Fashion-MNIST,
MNIST in their publishers' formats, synthetic.

Images are uint8 NHWC, labels int32. Files are checked by md5 before they are read and are never unpickled.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from . import pets
from .layers import Shape

Images = NDArray[np.uint8]
Labels = NDArray[np.int32]

BUILT_IN = Path(__file__).parent / "data"


class DataError(ValueError):
    """A data file is missing, damaged or does not fit; the message is one line that says what to do."""


@dataclass(frozen=True)
class DataFile:
    """A published file: its path below the data folder and its md5."""

    path: str
    md5: str


@dataclass(frozen=True)
class Split:
    """One split: images (n, h, w, c) uint8, labels (n,) int32."""

    images: Images
    labels: Labels


@dataclass(frozen=True)
class Dataset:
    """A data set and its source. `download` lists what is fetched if files are absent: the files themselves, or one
    archive that holds them. `own_archive`: files of this pattern, the user's copy, are read by the runner in place
    of `read`. `test_all`: the same data set with all left-over images in its test split.
    """

    name: str
    summary: str
    train_count: int
    test_count: int
    classes: int
    read: Callable[[Path], tuple[Split, Split]]
    files: tuple[DataFile, ...] = ()
    download: tuple[DataFile, ...] = ()
    base_url: str = ""
    image_shape: Shape = ()  # as published; () if images differ in size
    own_archive: str = ""
    test_all: Dataset | None = None


def load(dataset: Dataset, folder: Path, input_shape: Shape) -> tuple[Split, Split]:
    """Return (train, test) at `input_shape`, after checking every file. Raises DataError."""
    for file in dataset.files:
        verify(folder / file.path, file.md5)
    train, test = dataset.read(folder)
    for split, count in ((train, dataset.train_count), (test, dataset.test_count)):
        if len(split.images) != count or len(split.labels) != count:
            counts = f"{len(split.images)} images and {len(split.labels)} labels"
            raise DataError(f"data set {dataset.name}: {counts}, expected {count} of each")
        if split.labels.min() < 0 or split.labels.max() >= dataset.classes:
            raise DataError(f"data set {dataset.name}: a label lies outside 0..{dataset.classes - 1}")
    return Split(fit(train.images, input_shape), train.labels), Split(fit(test.images, input_shape), test.labels)


def verify(path: Path, md5: str) -> None:
    """Raise DataError unless the file exists and has this md5."""
    if not path.is_file():
        raise DataError(f"data file {path} is missing")
    if (digest := file_digest(path, "md5")) != md5:
        raise DataError(f"data file {path} is damaged: md5 expected {md5}, found {digest}; fetch it again")


def file_digest(path: Path, algorithm: str) -> str:
    """Return the hex digest, read in pieces; hashlib's version is not in the Python 3.10 of NVIDIA's MXNet image."""
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def fit(images: Images, shape: Shape) -> Images:
    """Bring (n, h, w, c) to (n, *shape) without interpolation: enlarged by the largest whole factor, centred on
    zeros, grey repeated over the channels. Raises DataError if that cannot be done.
    """
    _, height, width, channels = images.shape
    if (height, width, channels) == shape:
        return images
    factor = min(shape[0] // height, shape[1] // width)
    if factor < 1 or channels not in (1, shape[2]):
        raise DataError(f"images of {images.shape[1:]} do not fit a workload of {shape}")
    images = images.repeat(factor, axis=1).repeat(factor, axis=2)
    rows, columns = shape[0] - images.shape[1], shape[1] - images.shape[2]
    margins = ((0, 0), (rows // 2, rows - rows // 2), (columns // 2, columns - columns // 2), (0, 0))
    images = np.pad(images, margins)
    return images if channels == shape[2] else images.repeat(shape[2], axis=3)


def batch_order(count: int, epochs: int, seed: int) -> NDArray[np.int32]:
    """Return (epochs + 1, count): a permutation of the training split per epoch; the last feeds the steady window."""
    generator = np.random.Generator(np.random.PCG64(seed))
    return np.stack([generator.permutation(count).astype(np.int32) for _ in range(epochs + 1)])


def _read_digits(_: Path) -> tuple[Split, Split]:
    """Read 1,437 and 360 images, stratified; the split is part of the file (workloads/data/README.md)."""
    with np.load(BUILT_IN / "digits.npz", allow_pickle=False) as archive:
        levels, labels, test = archive["images"], archive["labels"].astype(np.int32), archive["test"]
    images = np.round(levels[..., None] * (255 / 16)).astype(np.uint8)
    train = np.setdiff1d(np.arange(len(labels)), test)
    return Split(images[train], labels[train]), Split(images[test], labels[test])


def _read_few_digits(folder: Path) -> tuple[Split, Split]:
    """Read the first of both splits of the digits."""
    train, test = _read_digits(folder)
    return Split(train.images[:64], train.labels[:64]), Split(test.images[:16], test.labels[:16])


CIFAR10_DOWNLOAD = (DataFile("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),)
CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/"
CIFAR10_MD5 = {
    "cifar-10-batches-bin/data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "cifar-10-batches-bin/data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "cifar-10-batches-bin/data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "cifar-10-batches-bin/data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "cifar-10-batches-bin/data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "cifar-10-batches-bin/test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}


*CIFAR10_TRAIN, CIFAR10_TEST = CIFAR10_MD5


def _cifar10_split(folder: Path, paths: list[str]) -> Split:
    """Read records of 1 label byte and 3,072 pixel bytes: red, green, blue planes of 32 x 32, row by row."""
    records = np.concatenate([np.fromfile(folder / path, np.uint8).reshape(-1, 3073) for path in paths])
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return Split(np.ascontiguousarray(images), records[:, 0].astype(np.int32))


def _read_cifar10(folder: Path) -> tuple[Split, Split]:
    return _cifar10_split(folder, CIFAR10_TRAIN), _cifar10_split(folder, [CIFAR10_TEST])


def _cifar10_pets(test_all: bool) -> Dataset:
    """Return the cats and dogs of the training split only, each class divided in file order, as `pets.divided` says."""

    def read(folder: Path) -> tuple[Split, Split]:
        whole = _cifar10_split(folder, CIFAR10_TRAIN)
        members = [np.flatnonzero(whole.labels == label).tolist() for label in (3, 5)]  # cat, dog
        by_class = [pets.divided(each, test_all) for each in members]
        train, test = (np.sort(np.concatenate(parts)) for parts in zip(*by_class, strict=True))
        dogs = (whole.labels == 5).astype(np.int32)
        return Split(whole.images[train], dogs[train]), Split(whole.images[test], dogs[test])

    tested = 5_000 - pets.TRAIN - pets.VALIDATION if test_all else pets.TEST
    summary = "CIFAR-10's cats and dogs, in the numbers of cats-dogs, 32x32 colour"
    return Dataset(
        *("cifar10-cats-dogs", summary, 2 * pets.TRAIN, 2 * tested, 2, read),
        files=tuple(DataFile(path, CIFAR10_MD5[path]) for path in CIFAR10_TRAIN),
        download=CIFAR10_DOWNLOAD,
        base_url=CIFAR10_URL,
        image_shape=(32, 32, 3),
        test_all=None if test_all else _cifar10_pets(test_all=True),
    )


def _of_the_user(folder: Path) -> tuple[Split, Split]:
    raise DataError("an archive of the user's own is read by the runner alone")


def _pets(test_all: Dataset | None) -> Dataset:
    """Return the data set; an archive's image count beyond the article's is not known before it is read."""
    summary = "cats and dogs of your own copy of Microsoft's archive (--data-dir), decoded to the network's size"
    counts = 2 * pets.TRAIN, 2 * pets.TEST
    return Dataset("cats-dogs", summary, *counts, 2, _of_the_user, own_archive=pets.ARCHIVE, test_all=test_all)


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Read IDX: two zero bytes, type 8 (uint8), the number of axes, each axis as a big-endian int32, the bytes."""
    data = gzip.decompress(path.read_bytes())
    if data[:3] != b"\0\0\x08":
        raise DataError(f"data file {path} is not an IDX file of bytes")
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


IDX_FILES = [f"{split}-{kind}-ubyte.gz" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def _mnist(name: str, summary: str, base_url: str, md5s: tuple[str, ...]) -> Dataset:
    """Return a data set in MNIST's form; `md5s` are those of IDX_FILES."""
    files = tuple(DataFile(f"{name}/{file}", md5) for file, md5 in zip(IDX_FILES, md5s, strict=True))

    def read(folder: Path) -> tuple[Split, Split]:
        arrays = [_read_idx(folder / file.path) for file in files]
        splits = (arrays[:2], arrays[2:])
        train, test = (Split(images[..., None], labels.astype(np.int32)) for images, labels in splits)
        return train, test

    return Dataset(
        name, summary, 60_000, 10_000, 10, read, files, download=files, base_url=base_url, image_shape=(28, 28, 1)
    )


SYNTHETIC_SEED = 20200415


def _read_synthetic(_: Path) -> tuple[Split, Split]:
    """Make ten fixed random patterns under noise: learnable, and the same on every machine."""
    generator = np.random.Generator(np.random.PCG64(SYNTHETIC_SEED))
    patterns = generator.integers(64, 192, (10, 32, 32, 3))

    def split(count: int) -> Split:
        labels = generator.integers(0, 10, count).astype(np.int32)
        noise = generator.integers(-64, 64, (count, 32, 32, 3))
        return Split((patterns[labels] + noise).astype(np.uint8), labels)

    return split(4096), split(1024)


DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset("digits", "UCI optical digits, 8x8 grey, built in", 1437, 360, 10, _read_digits, image_shape=(8, 8, 1)),
        Dataset("digits-64", "the first of the digits, to try an installation with", 64, 16, 10, _read_few_digits,
                image_shape=(8, 8, 1)),
        Dataset("cifar10", "CIFAR-10, 32x32 colour photographs", 50_000, 10_000, 10, _read_cifar10,
                files=tuple(DataFile(path, md5) for path, md5 in CIFAR10_MD5.items()), download=CIFAR10_DOWNLOAD,
                base_url=CIFAR10_URL, image_shape=(32, 32, 3)),
        _cifar10_pets(test_all=False),
        _pets(test_all=_pets(test_all=None)),
        _mnist("fashion-mnist", "Fashion-MNIST, 28x28 grey articles of clothing",
               "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", (
                   "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
                   "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310",
               )),
        _mnist("mnist", "MNIST, 28x28 grey hand-written digits", "https://ossci-datasets.s3.amazonaws.com/mnist/", (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c",
        )),
        Dataset("synthetic", "ten fixed random patterns under noise, 32x32 colour", 4096, 1024, 10, _read_synthetic,
                image_shape=(32, 32, 3)),
    )
}  # fmt: skip
