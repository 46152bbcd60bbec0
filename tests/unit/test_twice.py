"""Training images that are there twice: as they are, or zoomed as in Lheureux 2022."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pets_archive
import pytest
from pictured import QUIET, a_folder, noise, save
from PIL import Image

from runner.data import cache, twice
from runner.data.cache import Cached, Wanted
from runner.data.cats_dogs import read_cats_dogs
from runner.data.own import OwnImages
from runner.data.twice import Copies
from runner.request import inputs
from runner.request.data_sets import choose_data_set, find_images
from workloads.datasets import DATASETS, DataError, Images, load
from workloads.study import Study

BILINEAR = Image.Resampling.BILINEAR


def made(images: OwnImages, tmp_path: Path, shape: tuple[int, int, int] = (8, 8, 3), skip: bool = False) -> Cached:
    return cache.provide_arrays(Wanted(images, images.survey(QUIET), shape, "stretch", skip), tmp_path / "cache", QUIET)


def zoomed(picture: Image.Image, side: int) -> Images:
    """Zoom as the article does: the top-left 200 x 200 of 250 x 250, in the same proportions."""
    larger = picture.resize((side * 250 // 200, side * 250 // 200), BILINEAR)
    return np.asarray(larger.crop((0, 0, side, side)))


@pytest.mark.parametrize("copies", ["copy", "zoom-copy"])
def test_a_published_data_set_has_its_training_images_twice_and_its_test_split_as_it_is(copies: Copies) -> None:
    dataset = DATASETS["synthetic"]
    plain, doubled = (load(each, Path(), (32, 32, 3)) for each in (dataset, twice.double_published(dataset, copies)))
    assert np.array_equal(doubled[0].images[:4096], plain[0].images)
    assert np.array_equal(doubled[0].labels, np.concatenate([plain[0].labels] * 2))
    assert np.array_equal(doubled[1].images, plain[1].images) and np.array_equal(doubled[1].labels, plain[1].labels)
    for number in (0, 77, 4095):
        original = plain[0].images[number]
        expected = original if copies == "copy" else zoomed(Image.fromarray(original), 32)
        assert np.array_equal(doubled[0].images[4096 + number], expected)


def test_zoomed_copies_of_grey_images_are_grey() -> None:
    images = np.stack([noise(8, 8, seed, channels=1) for seed in range(3)])[..., None]
    found = twice.zoom(images)
    assert found.shape == (3, 8, 8, 1)
    assert np.array_equal(found[1, ..., 0], zoomed(Image.fromarray(images[1, ..., 0]), 8))


def test_zoomed_copies_of_ones_own_pictures_are_made_of_the_pictures_themselves(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos", train=40, test=2, size=lambda seed: (20 + seed % 3, 30))
    images = find_images(folder)
    pixels, labels = made(twice.double_own(images, "zoom-copy"), tmp_path).split("train")
    plain, plain_labels = made(images, tmp_path).split("train")
    assert np.array_equal(pixels[:80], plain) and labels.tolist() == plain_labels.tolist() * 2
    for number, path in ((0, "cat/0.png"), (79, "dog/9.png")):
        assert np.array_equal(pixels[80 + number], zoomed(Image.open(folder / "train" / path), 8))
    tests = [made(each, tmp_path).split("test")[0] for each in (images, twice.double_own(images, "copy"))]
    assert np.array_equal(tests[0], tests[1])


def test_an_array_files_images_have_copies_too(tmp_path: Path) -> None:
    x, labels = np.stack([noise(10, 10, seed) for seed in range(4)]), np.array([0, 1, 1, 0])
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=labels, x_test=x[:2], y_test=labels[:2])
    pixels, found = made(
        twice.double_own(find_images(tmp_path / "mine.npz"), "zoom-copy"), tmp_path, (10, 10, 3)
    ).split("train")
    assert np.array_equal(pixels[:4], x) and found.tolist() == labels.tolist() * 2
    larger = Image.fromarray(x[2]).resize((12, 12), BILINEAR)
    assert np.array_equal(pixels[6], np.asarray(larger)[:10, :10])


def test_copies_of_an_array_file_need_no_pillow_unless_they_are_zoomed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    x, labels = np.stack([noise(8, 8, seed) for seed in range(4)]), np.array([0, 1, 1, 0])
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=labels, x_test=x[:2], y_test=labels[:2])
    study = Study("s", batch_sizes=(1,), dataset=str(tmp_path / "mine.npz"), augment="copy")
    monkeypatch.setattr(importlib.metadata, "version", missing)  # as in a container image
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    _, images = choose_data_set(study, tmp_path)
    assert images is not None and made(images, tmp_path).counts == {"train": 8, "test": 2}
    with pytest.raises(DataError, match=r"augmentation zoom-copy: this container has no Pillow"):
        choose_data_set(replace(study, augment="zoom-copy"), tmp_path)


def test_copies_are_those_of_the_original_and_kept_apart_in_the_cache(tmp_path: Path) -> None:
    images = find_images(a_folder(tmp_path / "photos"))
    copied, other = (made(twice.double_own(images, copies), tmp_path) for copies in ("copy", "zoom-copy"))
    pixels, _ = copied.split("train")
    assert np.array_equal(pixels[:8], pixels[8:])
    assert copied.files["train_images"].path != other.files["train_images"].path
    assert not list((tmp_path / "cache").glob("*/tmp*"))


@pytest.mark.parametrize("content", [b"no image", b""])
def test_an_image_that_cannot_be_decoded_has_no_copy_and_is_named_once(content: bytes, tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos")
    (folder / "train/cat/0.png").write_bytes(content)
    images = twice.double_own(find_images(folder), "zoom-copy")
    assert len(images.listed(images.survey(QUIET).unreadable)) == 1
    cached = made(images, tmp_path, skip=True)
    assert cached.counts["train"] == 14 and len(cached.unreadable) == 1
    assert cached.split("train")[1].tolist() == [0, 0, 0, 1, 1, 1, 1] * 2


def test_an_image_that_is_found_damaged_only_when_it_is_decoded_has_no_copy(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos", size=lambda seed: (40, 40))
    broken = save(folder / "train/dog/1.png", noise(40, 40))
    broken.write_bytes(broken.read_bytes()[:800])
    images = twice.double_own(find_images(folder), "zoom-copy")
    assert not images.survey(QUIET).unreadable
    cached = made(images, tmp_path, skip=True)
    pixels, labels = cached.split("train")
    assert labels.tolist() == [0, 0, 0, 0, 1, 1, 1] * 2 and pixels.any(axis=(1, 2, 3)).all()
    assert len(cached.unreadable) == 1


@pytest.mark.slow
def test_the_archives_pictures_are_zoomed_from_their_own_size(tmp_path: Path) -> None:
    pets_archive.write(tmp_path, count=1000, size=(20, 16))
    images = twice.double_own(read_cats_dogs(DATASETS["cats-dogs"], tmp_path, test_all=False), "zoom-copy")
    pixels, labels = made(images, tmp_path).split("train")
    assert pixels.shape == (2400, 8, 8, 3) and labels.sum() == 1200


def test_what_is_made_once_draws_nothing_for_an_epoch_and_doubles_the_updates() -> None:
    study = Study("s", batch_sizes=(16,), epochs=2, augment="zoom-copy", schedule="cosine")
    order = np.zeros((3, 4), np.int32)
    assert inputs.draw_augmentation(study, order, (8, 8, 3), seed=0) == {}
    assert inputs.draw_augmentation(replace(study, augment="flip-crop"), order, (8, 8, 3), seed=0) != {}
    assert len(inputs.compute_rates(study, 2400)["rates/16"]) == 2 * len(inputs.compute_rates(study, 1200)["rates/16"])
