"""Flips and crops: as an image by image loop makes them, whole splits and batches alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workloads import augmentation
from workloads.augmentation import Augmented, Cost, augmented, draw, margins
from workloads.layers import Shape


def one(image: np.ndarray, flip: int, down: int, right: int) -> np.ndarray:
    """Flip and crop an image pixel by pixel, as the definition says."""
    height, width, _ = image.shape
    answer = np.zeros_like(image)
    for row in range(height):
        for column in range(width):
            y, x = row + down - height // 8, column + right - width // 8
            if 0 <= y < height and 0 <= x < width:
                answer[row, width - 1 - column if flip else column] = image[y, x]
    return answer


def drawn(shape: Shape, count: int = 20) -> tuple[np.ndarray, np.ndarray]:
    images = np.random.Generator(np.random.PCG64(1)).integers(1, 256, (count, *shape), np.uint8)
    return images, draw(3, count, shape, seed=4)


@pytest.mark.parametrize("shape", [(32, 32, 3), (28, 28, 1), (9, 17, 3), (8, 8, 1), (5, 5, 2)])
def test_a_split_is_what_a_loop_over_its_images_makes_of_it(shape: Shape) -> None:
    images, draws = drawn(shape)
    expected = np.stack([one(image, *map(int, each)) for image, each in zip(images, draws[1], strict=True)])
    found = augmented(images, draws[1])
    assert found.dtype == np.uint8 and found.flags.c_contiguous and np.array_equal(found, expected)
    assert not np.array_equal(found, images) and not np.array_equal(found, augmented(images, draws[2]))


def test_batches_of_a_mapped_file_and_the_whole_split_are_the_same_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(augmentation, "CHUNK", 7)
    images, draws = drawn((32, 32, 3))
    np.save(tmp_path / "images.npy", images)
    mapped = Augmented(np.load(tmp_path / "images.npy", mmap_mode="r"), draws[0], cost := Cost())
    whole = augmented(images, draws[0])
    for asked in (np.array([3, 3, 17, 0]), slice(2, 9), np.arange(20)):
        assert np.array_equal(mapped[asked], whole[asked])
    assert np.array_equal(mapped[5], whole[5])
    steps = np.array([[3, 3, 17], [0, 5, 19]])  # the batches of two steps, as a tuned loop takes them
    assert np.array_equal(mapped[steps], np.stack([mapped[batch] for batch in steps]))
    assert np.array_equal(mapped[steps], whole[steps])
    assert np.array_equal(np.asarray(mapped), whole) and np.array_equal(np.ascontiguousarray(mapped), whole)
    assert (len(mapped), mapped.shape, mapped.dtype, mapped.nbytes) == (20, whole.shape, whole.dtype, whole.nbytes)
    assert cost.taken() > 0 and cost.taken() == 0


def test_draws_are_even_of_every_epoch_anew_and_of_the_seed() -> None:
    draws = draw(2, 20_000, (32, 16, 3), seed=0)
    assert margins((32, 16, 3)) == (4, 2) and draws.dtype == np.uint8 and draws.shape == (2, 20_000, 3)
    for place, values in enumerate((2, 9, 5)):
        counts = np.bincount(draws[0, :, place], minlength=values)
        assert len(counts) == values and abs(counts - 20_000 / values).max() < 5 * (20_000 / values) ** 0.5
    assert not np.array_equal(draws[0], draws[1])
    assert np.array_equal(draws, draw(2, 20_000, (32, 16, 3), seed=0))
    assert not np.array_equal(draws, draw(2, 20_000, (32, 16, 3), seed=1))
    assert draw(1, 1, (2048, 2048, 3), seed=0).dtype == np.uint16
