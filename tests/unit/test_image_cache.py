"""Custom images are decoded once, and again when any of their inputs has changed."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT
from filelock import FileLock
from pictured import QUIET, a_folder, noise, save

from runner import input_files
from runner.data import cache, folder_images, pictures
from runner.data.cache import CACHE_VARIABLE, Cached, Wanted
from runner.machine.locks import LockRefused
from runner.request.cli import build_request
from runner.request.data_sets import find_images
from runner.request.own_data import prepare_images
from runner.request.parser import run_parser
from workloads.datasets import DATASETS, DataError
from workloads.records.job import Fit


def wanted(path: Path, shape: tuple[int, int, int] = (8, 8, 3), fit: Fit = "stretch", skip: bool = False) -> Wanted:
    images = find_images(path)
    return Wanted(images, images.survey(QUIET), shape, fit, skip)


def made(asked: Wanted, tmp_path: Path) -> Cached:
    return cache.provide_arrays(asked, tmp_path / "cache", QUIET)


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pictures each decoded chunk had."""
    counts: list[int] = []
    before = folder_images._decode

    def counted(array: Path, fit: Fit, pixel_range: Any, items: list[tuple[int, str, str]]) -> list[tuple[str, str]]:
        counts.append(len(items))
        return before(array, fit, pixel_range, items)

    monkeypatch.setattr(folder_images, "_decode", counted)
    return counts


def test_arrays_hold_the_images_in_the_order_of_the_listing(tmp_path: Path) -> None:
    asked = wanted(a_folder(tmp_path / "photos", train=3, test=2))
    cached = made(asked, tmp_path)
    images, labels = cached.split("train")
    assert images.shape == (6, 8, 8, 3) and labels.tolist() == [0, 0, 0, 1, 1, 1]
    for number in range(6):
        assert np.array_equal(images[number], noise(8, 8, number + 1))
    images, labels = cached.split("test")
    assert labels.tolist() == [0, 0, 1, 1] and np.array_equal(images[3], noise(8, 8, 10))
    assert cached.counts == {"train": 6, "test": 4} and cached.unreadable == ()


@pytest.mark.slow
def test_several_processes_make_the_same_arrays_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = wanted(a_folder(tmp_path / "photos", train=60, test=1, size=lambda seed: (8 + seed % 5, 9)))
    alone = made(asked, tmp_path / "alone")
    monkeypatch.setattr("runner.data.own.FEW", 0)
    monkeypatch.setattr("runner.data.own.CHUNK", 7)
    assert wanted(tmp_path / "photos").survey == asked.survey
    together = made(asked, tmp_path / "together")
    assert {name: file.sha256 for name, file in together.files.items()} == {
        name: file.sha256 for name, file in alone.files.items()
    }


def test_the_same_files_are_not_decoded_again(tmp_path: Path, decodings: list[int]) -> None:
    folder = a_folder(tmp_path / "photos")
    first = made(wanted(folder), tmp_path)
    assert sum(decodings) == 12
    (folder / "train/cat/0.png").touch()
    assert made(wanted(folder), tmp_path) == first and sum(decodings) == 12


@pytest.mark.parametrize("change", ["content", "class", "size", "fit", "more", "fewer"])
def test_what_has_changed_is_decoded_again(change: str, tmp_path: Path, decodings: list[int]) -> None:
    folder = a_folder(tmp_path / "photos", train=5)
    asked = wanted(folder)
    before = made(asked, tmp_path)
    first, times = folder / "train/cat/0.png", (1, 1)
    os.utime(first, ns=times)
    if change == "content":  # of the same length and time
        data = first.read_bytes()
        save(first, noise(8, 8, 99))
        os.utime(first, ns=times)
        assert len(data) == first.stat().st_size
    elif change == "class":
        first.rename(folder / "train/dog/9.png")
    elif change == "more":
        save(folder / "train/dog/9.png", noise(8, 8, 99))
    elif change == "fewer":
        first.unlink()
    decodings.clear()
    again = wanted(folder, (4, 8, 3) if change == "size" else (8, 8, 3), "crop" if change == "fit" else "stretch")
    after = made(again, tmp_path)
    assert sum(decodings) >= 12
    assert change == "fit" or after.files != before.files
    assert made(asked, tmp_path) == before  # what was asked first is still there


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("content", ["other", "cut"])
def test_a_picture_that_changes_after_it_was_surveyed_is_not_kept_under_its_old_checksum(
    content: str, skip: bool, tmp_path: Path
) -> None:
    folder = a_folder(tmp_path / "photos")
    asked, first = wanted(folder, skip=skip), folder / "train/cat/0.png"
    data = first.read_bytes()
    first.write_bytes(save(tmp_path / "other.png", noise(8, 8, 99)).read_bytes() if content == "other" else data[:80])
    with pytest.raises(DataError, match=r"data set photos: .*train/cat/0\.png changed while it was read; run it again"):
        made(asked, tmp_path)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
    first.write_bytes(data)
    assert np.array_equal(made(asked, tmp_path).split("train")[0][0], noise(8, 8, 1))


def test_an_array_file_that_changes_while_it_is_read_is_not_kept(tmp_path: Path) -> None:
    def write(seed: int) -> Path:
        x = np.stack([noise(8, 8, seed + number) for number in range(4)])
        np.savez(tmp_path / "new.npz", x_train=x, y_train=[0, 1, 1, 0], x_test=x[:2], y_test=[0, 1])
        return (tmp_path / "new.npz").replace(tmp_path / "mine.npz")

    path = write(0)
    labels_read = find_images(path)
    asked = wanted(path)
    write(100)
    with pytest.raises(DataError, match=r"mine\.npz: it changed while it was read; run it again"):
        labels_read.survey(QUIET)
    with pytest.raises(DataError, match=r"mine\.npz: it changed while it was read; run it again"):
        made(asked, tmp_path)
    assert [each.suffix for each in (tmp_path / "cache").iterdir()] == [".lock"]
    assert np.array_equal(made(wanted(path), tmp_path).split("train")[0][0], noise(8, 8, 100))


def test_a_cache_that_was_damaged_is_made_anew(tmp_path: Path, decodings: list[int]) -> None:
    asked = wanted(a_folder(tmp_path / "photos"))
    first = made(asked, tmp_path)
    path = first.files["test_images"].path
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert made(asked, tmp_path) == first and sum(decodings) == 24
    (path.parent / cache.META).write_text("{}")
    assert made(asked, tmp_path) == first and sum(decodings) == 36


def test_a_complete_data_set_of_another_user_is_read_and_an_incomplete_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(lock: Any, timeout: float = -1) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", lock.lock_file)

    asked = wanted(a_folder(tmp_path / "photos"))
    first = made(asked, tmp_path)
    monkeypatch.setattr(FileLock, "acquire", refuse)
    assert made(asked, tmp_path) == first
    (first.files["test_images"].path.parent / cache.META).unlink()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    words = ["--dataset", str(tmp_path / "photos"), "--workload", "tiny", "--framework", "numpy", "--plan"]
    request = build_request(run_parser().parse_args(words), PROJECT)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(
        LockRefused, match=rf"\.lock belongs to another user: set {CACHE_VARIABLE} to a folder that can"
    ):
        prepare_images(request, QUIET)


def test_a_run_that_waits_for_another_that_decodes_the_same_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.machine.locks.SILENT_S", 0)
    asked = wanted(a_folder(tmp_path / "photos"))
    lock = tmp_path / "cache" / f"{cache.make_key(asked.images, asked.survey, asked.shape, asked.fit)}.lock"
    lock.parent.mkdir()
    with ThreadPoolExecutor() as pool:
        with FileLock(lock):
            waiting = pool.submit(made, asked, tmp_path)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
        assert waiting.result().counts == {"train": 8, "test": 4}
    said = f"data set photos: another run decodes it (lock: {lock}); waiting\n"
    assert capsys.readouterr().err == said
    made(asked, tmp_path)
    assert not capsys.readouterr().err


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    asked = wanted(a_folder(tmp_path / "photos"))
    part = tmp_path / "cache" / f"{cache.make_key(asked.images, asked.survey, asked.shape, asked.fit)}.part"
    part.mkdir(parents=True)
    (part / "train_images.npy").write_bytes(b"half")
    made(asked, tmp_path)
    assert not part.exists()


def broken(tmp_path: Path, count: int = 1) -> Path:
    """A folder with `count` pictures that look well and end too early, and a file that is not a picture."""
    folder = a_folder(tmp_path / "photos", train=3 + count)
    for number in range(count):
        path = save(folder / f"train/cat/{number}.png", noise(60, 60, number))
        path.write_bytes(path.read_bytes()[:-4000])
    (folder / "test/dog/x.jpg").write_bytes(b"no image")
    return folder


def test_what_cannot_be_decoded_is_listed_and_nothing_is_left(tmp_path: Path) -> None:
    folder = broken(tmp_path, 12)
    (folder / "test/dog/x.jpg").unlink()
    with pytest.raises(DataError) as told:
        made(wanted(folder), tmp_path)
    text = str(told.value)
    assert text.startswith("data set photos: 12 images cannot be decoded: train/cat/0.png (") and "\n" not in text
    (whole,) = (tmp_path / "cache").glob("photos-*-unreadable.txt")
    assert text.count("train/cat/") == 10 and f"and 2 more (all of them in {whole}); fix or remove them" in text
    assert "--skip-unreadable" in text
    assert [line.partition(" ")[0] for line in whole.read_text().splitlines()] == [
        f"train/cat/{name}.png" for name in sorted(map(str, range(12)))
    ]
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".lock", ".txt"}


def test_each_refusal_has_a_list_of_its_own_and_none_where_it_cannot_be_written(tmp_path: Path) -> None:
    reasons = [f"{number}.png (no image)" for number in range(12)]
    for reason in ("first", "second"):  # of two data sets of one name
        with pytest.raises(DataError):
            cache.refuse("photos", [*reasons, reason], tmp_path)
    lists = [path.read_text().splitlines() for path in tmp_path.glob("photos-*-unreadable.txt")]
    assert sorted(lists) == [[*reasons, "first"], [*reasons, "second"]]
    with pytest.raises(DataError) as told:
        cache.refuse("photos", reasons, tmp_path / "that-cannot-be-written")
    assert str(told.value).count(".png") == 10 and "and 2 more; fix or remove them" in str(told.value)


def test_files_that_are_no_image_and_those_that_end_too_early_are_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="2 images cannot be decoded") as told:
        made(wanted(broken(tmp_path)), tmp_path)
    assert "test/dog/x.jpg (not a JPEG" in str(told.value) and "train/cat/0.png (" in str(told.value)


def test_what_is_skipped_is_counted_and_the_rest_keeps_its_order(tmp_path: Path) -> None:
    asked = wanted(broken(tmp_path, 2), skip=True)
    assert list(asked.survey.unreadable) == [("test", 4)]
    cached = made(asked, tmp_path)
    assert cached.counts == {"train": 8, "test": 4}
    assert [line.partition(" ")[0] for line in cached.unreadable] == [
        "test/dog/x.jpg", "train/cat/0.png", "train/cat/1.png",
    ]  # fmt: skip
    images, labels = cached.split("train")
    assert labels.tolist() == [0] * 3 + [1] * 5
    assert np.array_equal(images, np.stack([noise(8, 8, seed) for seed in range(3, 11)]))
    assert made(asked, tmp_path) == cached


@pytest.mark.parametrize("failure", [OSError(errno.ESTALE, os.strerror(errno.ESTALE)), MemoryError()])
@pytest.mark.parametrize("step", ["_opened", "_sized"])
def test_a_failure_that_may_pass_is_not_kept_as_a_picture_that_cannot_be_decoded(
    step: str, failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = wanted(a_folder(tmp_path / "photos"), skip=True)

    def fail(*_: object) -> None:
        raise failure

    with monkeypatch.context() as broken_machine:
        broken_machine.setattr(pictures, step, fail)
        with pytest.raises(OSError, match=r"train/cat/0\.png"):
            made(asked, tmp_path)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
    cached = made(asked, tmp_path)
    assert cached.counts == {"train": 8, "test": 4} and not cached.unreadable


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_told_before_anything_is_decoded_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decodings: list[int]
) -> None:
    asked = wanted(a_folder(tmp_path / "photos"))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left") as told:
        made(asked, tmp_path)
    assert told.value.filename.endswith("train_images.npy") and not decodings
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_results_get_the_file_itself_or_a_copy_from_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = made(wanted(a_folder(tmp_path / "photos")), tmp_path).files["train_images"]
    results = tmp_path / "results"
    (results / input_files.INPUTS).mkdir(parents=True)
    linked = input_files.link(results, "photos-train-images", file.path, file.sha256)
    assert (results / linked.path).samefile(file.path) and linked.sha256 == file.sha256

    def other(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", other)
    copied = results / input_files.link(results, "copied", file.path, file.sha256).path
    assert not copied.samefile(file.path) and copied.read_bytes() == file.path.read_bytes()
    copied.write_bytes(b"altered")
    input_files.link(results, "copied", file.path, file.sha256)
    assert copied.read_bytes() == file.path.read_bytes()

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        input_files.link(results, "full", file.path, file.sha256)
    assert len(list((results / input_files.INPUTS).glob("*.npy"))) == 2


def test_an_archive_is_stored_at_the_size_that_is_asked_for(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        f"x_{split}": np.stack([noise(8, 6, seed, channels=1) for seed in range(4)]) for split in ("train", "test")
    }
    np.savez(tmp_path / "mine.npz", y_train=np.array([0, 1, 1, 0]), y_test=np.array([1, 0, 1, 0]), **arrays)
    images, labels = made(wanted(tmp_path / "mine.npz", (8, 6, 3)), tmp_path).split("train")
    assert labels.tolist() == [0, 1, 1, 0]
    assert np.array_equal(images, np.repeat(arrays["x_train"][..., None], 3, axis=3))
    images, _ = made(wanted(tmp_path / "mine.npz", (4, 4, 1), "crop"), tmp_path).split("test")
    assert images.shape == (4, 4, 4, 1)


def test_an_archive_that_is_damaged_inside_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    x = np.stack([noise(60, 60, seed) for seed in range(4)])
    np.savez(path, x_train=x, y_train=np.array([0, 1, 1, 0]), x_test=x, y_test=np.array([1, 0, 1, 0]))
    asked = wanted(path)
    data = bytearray(path.read_bytes())
    data[data.index(x.tobytes()[-20:])] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="x_train cannot be read: BadZipFile"):
        made(replace(asked, images=find_images(path)), tmp_path)
    assert [each.suffix for each in (tmp_path / "cache").iterdir()] == [".lock"]


@pytest.mark.slow
def test_cifars_cats_and_dogs_as_pngs_are_the_publishers_pixels(real_data: Path, tmp_path: Path) -> None:
    splits = DATASETS["cifar10"].read(real_data)
    published = {}
    for name, split in zip(("train", "test"), splits, strict=True):
        chosen = np.concatenate([np.flatnonzero(split.labels == label) for label in (3, 5)])
        published[name] = split.images[chosen], split.labels[chosen]
        for number in chosen:
            animal = {3: "cat", 5: "dog"}[int(split.labels[number])]
            save(tmp_path / "pets" / name / animal / f"{number:05}.png", split.images[number], compress_level=0)
    asked = wanted(tmp_path / "pets", (32, 32, 3), "crop")
    assert asked.survey.sizes == {(32, 32)}
    cached = made(asked, tmp_path)
    for name, (expected, labels) in published.items():
        images, classes = cached.split(name)  # type: ignore[arg-type]
        assert np.array_equal(images, expected) and np.array_equal(classes, labels // 4)
    assert cached.counts == {"train": 10_000, "test": 2_000}
