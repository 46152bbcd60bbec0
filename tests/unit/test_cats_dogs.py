"""Images of the user's copy of Microsoft's cats and dogs, read in place; and CIFAR-10's in its stead."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pets_archive
import pytest
from pictured import QUIET, noise
from PIL import Image

from runner.data import cache, pictures
from runner.data.cache import Cached, Wanted
from runner.data.cats_dogs import CatsDogs, read_cats_dogs
from workloads.datasets import CIFAR10_TRAIN, DATASETS, DataError, Split, load
from workloads.pets import divided

PETS = DATASETS["cats-dogs"]
SHAPE = (8, 8, 3)


def png(width: int, height: int) -> bytes:
    """A black and white picture of any size: a few bytes that promise many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def huge(number: int) -> bytes:
    """A JPEG whose header promises 65,000 x 65,000 pixels."""
    content = pets_archive.jpeg(number, 0)
    frame = content.index(b"\xff\xc0")  # marker, length, bits, then rows and columns
    return content[: frame + 5] + struct.pack(">HH", 65000, 65000) + content[frame + 9 :]


def found(folder: Path, test_all: bool = False, **archive: object) -> CatsDogs:
    pets_archive.write(folder, **archive)  # type: ignore[arg-type]
    return read_cats_dogs(PETS, folder, test_all)


def made(images: CatsDogs, folder: Path, skip: bool = False) -> Cached:
    return cache.provide_arrays(Wanted(images, images.survey(QUIET), SHAPE, "stretch", skip), folder / "cache", QUIET)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pets_archive.write(tmp_path_factory.mktemp("pets"))


def test_the_first_thousand_of_each_class_by_file_name_are_divided_600_200_200(archive: Path) -> None:
    images = read_cats_dogs(PETS, archive.parent, test_all=False)
    names = sorted(f"PetImages/Cat/{n}.jpg" for n in range(1003))
    assert names[2:4] == ["PetImages/Cat/10.jpg", "PetImages/Cat/100.jpg"]  # as text
    assert images.members["train"][:600] == tuple(names[:600]) and images.members["test"][:200] == tuple(
        names[800:1000]
    )
    assert {split: np.bincount(labels).tolist() for split, labels in images.labels.items()} == {
        "train": [600, 600],
        "test": [200, 200],
    }
    assert images.members["train"][600] == "PetImages/Dog/0.jpg" and images.classes == 2 and images.notes == ()


def test_with_test_all_what_is_beyond_the_thousand_is_tested_with_too_and_validation_is_not(archive: Path) -> None:
    few, every = (read_cats_dogs(PETS, archive.parent, test_all) for test_all in (False, True))
    assert every.members["train"] == few.members["train"]
    assert set(few.members["test"]) < set(every.members["test"]) and len(every.members["test"]) == 2 * (200 + 3)
    assert not set(every.members["train"]) & set(every.members["test"])


@pytest.mark.slow
def test_the_archive_itself_may_be_named_and_nothing_of_it_is_unpacked(archive: Path, tmp_path: Path) -> None:
    before = hashlib.sha256(archive.read_bytes()).hexdigest(), sorted(archive.parent.iterdir())
    images = read_cats_dogs(PETS, archive, test_all=False)
    cached = made(images, tmp_path)
    pixels, labels = cached.split("train")
    assert pixels.shape == (1200, *SHAPE) and labels.tolist() == [0] * 600 + [1] * 600
    for place, member in ((0, "0"), (2, "10"), (600, "0")):
        number, label = int(member), place // 600
        expected = (60 + 120 * label, number // 40 * 4, number % 40 * 6)
        assert np.abs(pixels[place, 4, 4].astype(int) - expected).max() <= 3
    assert before == (hashlib.sha256(archive.read_bytes()).hexdigest(), sorted(archive.parent.iterdir()))


@pytest.mark.slow
def test_several_processes_read_the_same_archive(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = read_cats_dogs(PETS, archive, test_all=False)
    together = made(images, tmp_path / "together")
    monkeypatch.setattr("runner.data.own.FEW", 10**6)
    alone = made(images, tmp_path / "alone")
    assert {name: file.sha256 for name, file in together.files.items()} == {
        name: file.sha256 for name, file in alone.files.items()
    }


def test_what_lacks_jfif_is_left_out_and_counted_and_the_next_takes_its_place(tmp_path: Path) -> None:
    exif = pets_archive.jpeg(3, 0).replace(b"JFIF", b"Exif", 1)
    damaged = {"PetImages/Cat/0.jpg": b"", "PetImages/Cat/1.jpg": exif, "PetImages/Cat/2.jpg": png(8, 8)}
    images = found(tmp_path, others=damaged)
    assert not set(damaged) & set(images.members["train"])
    assert len(images.members["train"]) == 1200 and images.members["train"][0] == "PetImages/Cat/10.jpg"
    assert images.notes == ("3 of 1,003 files in PetImages/Cat/ have no JFIF header and are left out",)


def test_members_of_other_names_are_no_images_and_counted(tmp_path: Path) -> None:
    picture = pets_archive.jpeg(0, 0)
    odd = (
        "PetImages/Cat/Thumbs.db", "PetImages/Cat/1 (copy).jpg", "PetImages/Cat/a/5.jpg", "../PetImages/Cat/7777.jpg",
        "/PetImages/Dog/7777.jpg", "__MACOSX/PetImages/Cat/._1.jpg", "PetImages/Bird/1.jpg", "PetImages/Cat/7777.JPG",
        "PetImages/Dog/7777.jpg\n", "readme[1].txt",
    )  # fmt: skip
    images = found(tmp_path, test_all=True, others=dict.fromkeys(odd, picture))
    assert not any("7777" in name for members in images.members.values() for name in members)
    assert [len(members) for members in images.members.values()] == [1200, 406]
    assert images.notes[-1].startswith(f"{len(odd)} members of the archive are not PetImages/Cat/N.jpg")


BROKEN: Mapping[str, tuple[bytes, str]] = {
    "cut short": (pets_archive.jpeg(0, 0)[:300], "cannot be decoded"),
    "a huge picture": (huge(0), "decompression bomb"),
    "a huge file": (pets_archive.jpeg(0, 0) + bytes(2**16), "more than 0 MiB"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_what_has_a_header_and_cannot_be_decoded_is_named_or_left_out(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, why = BROKEN[kind]
    monkeypatch.setattr(pictures, "MOST_BYTES", 2**15)
    monkeypatch.setattr("runner.data.own.FEW", 10**6)  # in this process, which has that limit
    images = found(tmp_path, others={"PetImages/Dog/0.jpg": content})
    with pytest.raises(DataError) as refused:
        made(images, tmp_path)
    message = str(refused.value)
    assert "1 image cannot be decoded: PetImages/Dog/0.jpg (" in message and why in message and "\n" not in message
    cached = made(images, tmp_path, skip=True)
    assert cached.counts == {"train": 1199, "test": 400} and len(cached.unreadable) == 1


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    large = io.BytesIO()
    Image.fromarray(noise(100, 100)).save(large, format="JPEG")
    path = pets_archive.write(tmp_path, others={"PetImages/Dog/0.jpg": large.getvalue()})
    data = bytearray(path.read_bytes())
    data[data.index(large.getvalue()[-50:])] ^= 1
    path.write_bytes(data)
    images = read_cats_dogs(PETS, tmp_path, test_all=False)
    (reason,) = images.listed(images.survey(QUIET).unreadable)
    assert reason.startswith("PetImages/Dog/0.jpg (Bad CRC-32")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def renamed(path: Path) -> None:
    path.rename(path.with_name("pets.zip"))


def doubled(path: Path) -> None:
    path.with_name("kagglecatsanddogs_3367a.zip").write_bytes(path.read_bytes())


def twice(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("PetImages/Dog/5.jpg", b"other")


def unusual(path: Path) -> None:
    with zipfile.ZipFile(path, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("PetImages/Dog/7777.jpg", b"other")


REFUSED = {
    cut: "not a zip archive, or incomplete",
    empty: "not a zip archive, or incomplete",
    renamed: "no kagglecatsanddogs_\\*.zip in .*; it is not downloaded here: fetch .* name its folder with --data-dir",
    doubled: "kagglecatsanddogs_3367a.zip, kagglecatsanddogs_5340.zip in .*; name one of them with --data-dir",
    twice: "PetImages/Dog/5.jpg is in it twice",
    unusual: "PetImages/Dog/7777.jpg is encrypted, or packed in an unusual way",
}


@pytest.mark.parametrize("change", REFUSED)
def test_an_archive_that_is_not_whole_or_not_one_is_refused_in_a_line(change: object, tmp_path: Path) -> None:
    assert callable(change)
    change(pets_archive.write(tmp_path))
    with pytest.raises(DataError, match=REFUSED[change]) as refused:
        read_cats_dogs(PETS, tmp_path, test_all=False)
    assert "\n" not in str(refused.value)


def test_too_few_sound_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"999 sound images in PetImages/Cat/; at least 1,000 are needed"):
        found(tmp_path, count=999)


@pytest.mark.slow
def test_a_changed_archive_is_opened_anew(tmp_path: Path) -> None:
    first = found(tmp_path).survey(QUIET).content
    assert found(tmp_path).survey(QUIET).content == first
    assert found(tmp_path, others={"PetImages/Cat/0.jpg": pets_archive.jpeg(9, 0)}).survey(QUIET).content != first


def test_a_class_is_divided_in_its_order() -> None:
    train, test = divided(range(1100), test_all=False)
    assert (train, test) == (list(range(600)), list(range(800, 1000)))
    assert divided(range(1100), test_all=True) == (train, list(range(800, 1100)))


def test_cifars_cats_and_dogs_are_the_publishers_images_in_the_same_numbers(real_data: Path) -> None:
    dataset = DATASETS["cifar10-cats-dogs"]
    assert dataset.test_all is not None
    records = np.concatenate([np.fromfile(real_data / path, np.uint8).reshape(-1, 3073) for path in CIFAR10_TRAIN])
    few, every = load(dataset, real_data, (32, 32, 3)), load(dataset.test_all, real_data, (32, 32, 3))
    assert np.array_equal(few[0].images, every[0].images) and np.array_equal(few[0].labels, every[0].labels)

    def expected(wanted: tuple[slice, ...]) -> Split:
        members = [np.flatnonzero(records[:, 0] == label)[part] for label in (3, 5) for part in wanted]
        chosen = records[np.sort(np.concatenate(members))]
        images = chosen[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return Split(images, (chosen[:, 0] == 5).astype(np.int32))

    for split, part in ((few[0], slice(600)), (few[1], slice(800, 1000)), (every[1], slice(800, None))):
        other = expected((part,))
        assert np.array_equal(split.images, other.images) and np.array_equal(split.labels, other.labels)
    assert [len(split.labels) for split in (*few, every[1])] == [1200, 400, 8400]
