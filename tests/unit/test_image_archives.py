""".npz files that hold images, and those that are refused."""

from __future__ import annotations

import io
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictured import QUIET, noise

from runner.data.archive import read_archived_images
from runner.request.data_sets import check, find_images
from runner.request.parser import BadInput
from workloads.datasets import DATASETS, DataError
from workloads.layers import Dense, Flatten
from workloads.spec import Workload
from workloads.study import Study

GOOD: dict[str, Any] = {
    "x_train": np.stack([noise(8, 6, seed) for seed in range(6)]),
    "y_train": np.array([0, 1, 2, 0, 1, 2]),
    "x_test": np.stack([noise(8, 6, seed) for seed in (7, 8)]),
    "y_test": np.array([2, 0]),
}


def written(folder: Path, compressed: bool = False, **changes: Any) -> Path:
    """Write an archive with changed arrays; None leaves a key out."""
    arrays = {key: array for key, array in (GOOD | changes).items() if array is not None}
    (np.savez_compressed if compressed else np.savez)(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", ["<i8", ">i4", "|u1", "<u8"])
def test_images_and_labels_are_those_of_the_file(compressed: bool, kind: str, tmp_path: Path) -> None:
    labels = {key: GOOD[key].astype(kind) for key in ("y_train", "y_test")}
    labels["y_train"] = labels["y_train"][:, None]  # as in Keras' CIFAR
    images = read_archived_images("mine", written(tmp_path, compressed, **labels, extra=np.arange(3)))
    assert images.classes == 3 and images.labels["train"].dtype == np.int32
    for split in ("train", "test"):
        assert np.array_equal(images.labels[split], GOOD[f"y_{split}"])
        assert np.array_equal(np.concatenate(list(images.file.pieces(split))), GOOD[f"x_{split}"])
    assert images.survey(QUIET).sizes == {(8, 6)}
    assert images.notes == ("not read: extra",) and read_archived_images("mine", written(tmp_path)).notes == ()


def test_images_without_a_channel_axis_are_grey_and_nothing_is_unpickled(tmp_path: Path) -> None:
    grey = {key: GOOD[key][..., 0] for key in ("x_train", "x_test")}
    assert read_archived_images("mine", written(tmp_path, **grey)).file.shapes["train"] == (6, 8, 6, 1)

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], object), allow_pickle=True)
    with pytest.raises(DataError, match="pickles"):
        find_images(replaced(written(tmp_path), "y_test", buffer.getvalue()))
    assert not (tmp_path / "sprung").exists()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a key is missing": ({"y_test": None}, "no y_test in it"),
    "floats": ({"x_train": GOOD["x_train"] / 255}, "x_train is of float64; images are uint8, 0 to 255"),
    "signed": ({"x_test": GOOD["x_test"].astype(np.int16)}, "x_test is of int16"),
    "truths": ({"x_test": GOOD["x_test"] > 0}, "x_test is of bool"),
    "objects": ({"x_train": np.array([None, 1], object)}, "x_train holds Python objects, which are pickles"),
    "objects as labels": ({"y_test": np.array(["a", None], object)}, "y_test holds Python objects"),
    "columns first": ({"x_train": np.asfortranarray(GOOD["x_train"])}, "x_train has its columns first"),
    "channels first": ({"x_train": GOOD["x_train"].transpose(0, 3, 1, 2).copy()}, "x_train is (6, 3, 8, 6)"),
    "four channels": ({"x_train": np.zeros((6, 8, 6, 4), np.uint8)}, "x_train is (6, 8, 6, 4)"),
    "one pixel": ({"x_train": np.zeros((6, 1, 1, 3), np.uint8)}, "x_train is (6, 1, 1, 3)"),
    "no images": ({"x_train": np.zeros((0, 8, 6, 3), np.uint8), "y_train": np.zeros(0, int)}, "y_train is empty"),
    "vectors": ({"x_train": np.zeros((6, 48), np.uint8)}, "x_train is (6, 48)"),
    "other sizes in the test": ({"x_test": np.zeros((2, 9, 6, 3), np.uint8)}, "x_train and x_test differ"),
    "fewer labels": ({"y_train": GOOD["y_train"][:5]}, "x_train has 6 images, y_train 5 labels"),
    "one-hot labels": ({"y_train": np.eye(3, dtype=int)[GOOD["y_train"]]}, "y_train is (6, 3) of int64"),
    "one-hot labels, what helps": ({"y_train": np.eye(3, dtype=int)[GOOD["y_train"]]}, "y_train.argmax(axis=1)"),
    "labels as floats": ({"y_train": GOOD["y_train"] * 1.0}, "if all are whole numbers, save y_train.astype('int32')"),
    "labels as text": ({"y_train": np.array(list("abcabc"))}, "numpy.unique(y_train, return_inverse=True)[1]"),
    "a label below 0": ({"y_train": GOOD["y_train"] - 1}, "y_train has labels from -1"),
    "a label beyond all": ({"y_train": GOOD["y_train"] + 2**40}, "y_train has labels from"),
    "one class": ({"y_train": np.zeros(6, int), "y_test": np.zeros(2, int)}, "y_train has one class"),
    "a class of the test alone": ({"y_test": np.array([0, 3])}, "class 3 is in y_test and not in y_train"),
    "two classes of the test alone": ({"y_test": np.array([4, 3])}, "classes 3, 4 are in y_test and not in y_train"),
    "no array": ({"y_test": np.array(3)}, "y_test is () of int64"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_holds_something_else_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    changes, telling = BAD[name]
    path = written(tmp_path, **changes)
    with pytest.raises(DataError) as told:
        find_images(path)
    assert telling in str(told.value) and "\n" not in str(told.value) and str(path) in str(told.value)


def refusal(folder: Path, first: int, last: int, outputs: int) -> str:
    """Return the message on labels from `first` to `last` for a network of so many outputs; "" where they are
    accepted."""
    labels = np.arange(first, last + 1)
    x = np.stack([noise(8, 8, seed) for seed in range(len(labels))])
    images = find_images(written(folder, x_train=x, y_train=labels, x_test=x[:1], y_test=labels[:1]))
    layers = Flatten("flatten"), Dense("dense", units=outputs)
    workload = Workload(name="ten", summary="", input_shape=(8, 8, 3), layers=layers)
    dataset = replace(DATASETS["digits"], name="mine", classes=images.classes)
    try:
        check(Study("s", batch_sizes=(1,)), dataset, images, workload, own_code=False)
    except BadInput as error:
        return str(error)
    return ""


def test_labels_that_begin_at_1_are_told_what_to_subtract(tmp_path: Path) -> None:
    assert refusal(tmp_path, 1, 10, outputs=10) == (
        "data set mine has 11 classes, more than the 10 that workload ten has; its labels are 1 to 10: "
        "subtract 1 so that they are 0 to 9"
    )
    assert refusal(tmp_path, 0, 9, outputs=10) == "" == refusal(tmp_path, 1, 10, outputs=11)
    assert "subtract 5 so that they are 0 to 9" in refusal(tmp_path, 5, 14, outputs=10)
    assert refusal(tmp_path, 1, 11, outputs=10).endswith(" ten has")  # no subtraction would help


def header(shape: str, kind: str = "|u1") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def replaced(path: Path, key: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path) as file:
        others = {name: file.read(name) for name in file.namelist() if name != f"{key}.npy"}
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in others.items():
            file.writestr(name, data)
        file.writestr(f"{key}.npy", content)
    return path


@pytest.mark.parametrize(
    ("content", "telling"),
    [
        (header("(10**9, 8, 6, 3)"), "x_train cannot be read"),  # not a literal
        (header("(1000000000, 8, 6, 3)"), "not as large as its header says"),
        (header("(2, 8, 6, 3)") + bytes(864), "not as large as its header says"),
        (header("(-6, 8, 6, 3)") + bytes(864), "not as large as its header says"),
        (header("(6, 8, 6, 3)", "|O") + bytes(864), "pickles"),
        (header("(6, 8, 6, 3)")[:40], "x_train cannot be read"),
        (b"\x93NUMPY\x09\x00" + header("(6, 8, 6, 3)")[8:] + bytes(864), "x_train cannot be read"),
        (b"", "x_train cannot be read"),
    ],
)
def test_a_strangers_header_is_not_believed(content: bytes, telling: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=telling) as told:
        find_images(replaced(written(tmp_path), "x_train", content))
    assert "\n" not in str(told.value)


def test_a_member_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    """A zip file's own directory says how much comes out of it: more than deflate can make is a lie."""
    path = written(tmp_path, compressed=True)
    claimed = 2**20
    content = header(f"({claimed}, 8, 6, 3)")
    replaced(path, "x_train", content)
    data = bytearray(path.read_bytes())
    size = struct.pack("<I", len(content))
    at = data.rindex(b"x_train.npy") - 46 + 24  # in the directory's entry: the size of what comes out
    assert data[at : at + 4] == size
    data[at : at + 4] = struct.pack("<I", len(content) + claimed * 144)
    path.write_bytes(data)
    with pytest.raises(DataError, match="not as large as its header says"):
        find_images(path)


@pytest.mark.parametrize("name", ["no zip", "cut", "altered", "locked", "a later version", "no UTF-8"])
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\1\2")  # the first one of the directory
    if name == "a later version":
        content[entry + 6] = 99
    if name == "no UTF-8":
        content[entry + 9] |= 8  # the flag of a name in UTF-8
        content[entry + 46] = 0xFF  # the name's first byte
    if name == "altered":
        content[content.index(GOOD["x_train"].tobytes()[:16]) + 5] ^= 1
    if name == "locked":
        for place in range(len(content) - 4):
            if bytes(content[place : place + 4]) in (b"PK\1\2", b"PK\3\4"):
                content[place + (8 if content[place + 2] == 1 else 6)] |= 1
    path.write_bytes({"no zip": b"no zip", "cut": bytes(content[: len(content) // 2])}.get(name, bytes(content)))
    with pytest.raises(DataError) as told:
        list(read_archived_images("mine", path).file.pieces("train"))
    assert "\n" not in str(told.value)
