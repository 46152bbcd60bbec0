"""Write lines about custom images: what was read and what was not, and what makes an accuracy doubtful."""

from __future__ import annotations

from collections.abc import Iterator

from runner.data.cache import Cached
from runner.data.own import SPLITS, OwnImages
from runner.data.words import images_of, listed


def lines(images: OwnImages, cached: Cached) -> Iterator[str]:
    """Yield a line for each fact, each with the first image that shows it."""
    yield from images.notes
    if cached.unreadable:
        yield f"{images_of(len(cached.unreadable))} cannot be decoded and left out: {listed(cached.unreadable)}"
    yield from _without_image(images, cached)
    found, firsts, tested = cached.findings, cached.firsts, cached.counts["test"]
    if found.tested_on_trained:
        yield (
            f"{found.tested_on_trained:,} of {images_of(tested)} of the test are identical to training images, so the "
            f"accuracy shows what was memorised; the first: {firsts['tested_on_trained']}"
        )
    if found.two_labels:
        yield (
            f"{images_of(found.two_labels)} identical to one of another class, so one of the labels is wrong; the "
            f"first: {firsts['two_labels']}"
        )
    for split, count in (("train", found.repeated_train), ("test", found.repeated_test)):
        if count:
            yield f"{split}: {images_of(count)} identical to an earlier one; the first: {firsts[f'repeated_{split}']}"
    if found.faded:
        yield (
            f"{found.faded:,} of {images_of(sum(cached.counts.values()))} lost nearly all of their contrast; the "
            f"first: {firsts['faded']}; --pixel-range LOW HIGH says which values become 0 and 255"
        )


def _without_image(images: OwnImages, cached: Cached) -> Iterator[str]:
    """Yield a line for each split that lacks a class."""
    for split in SPLITS:
        there = set(cached.split(split)[1].tolist())
        if lacking := [images.class_name(label) for label in range(images.classes) if label not in there]:
            which = "class" if len(lacking) == 1 else f"{len(lacking):,} classes:"
            yield f"{split}: no image of {which} {listed(lacking)}"
