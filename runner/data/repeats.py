"""Find images that occur more than once, by the checksum of each image as it is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from runner.data.own import SPLITS, Place, SplitName
from workloads.datasets import Labels

DIGEST_BYTES = 16
Pair = tuple[Place, Place]  # an image, and an earlier one that is identical


@dataclass(frozen=True)
class Repeats:
    """Images that are identical to an earlier one. Pairs are in the order of the images."""

    tested_on_trained: tuple[Pair, ...]  # (test image, train image)
    two_labels: tuple[Pair, ...]  # (an image with a twin of another class, that twin)
    within: Mapping[SplitName, tuple[Pair, ...]]  # pairs within one split


def find_repeats(
    arrays: Mapping[SplitName, Path], labels: Mapping[SplitName, Labels], places: Mapping[SplitName, list[Place]]
) -> Repeats:
    """Compare all images of these arrays. `places` names the rows to compare, each split's first rows."""
    groups: dict[bytes, list[tuple[Place, int]]] = {}
    for split in SPLITS:
        images = np.load(arrays[split], mmap_mode="r")
        for row, place in enumerate(places[split]):
            digest = hashlib.blake2b(np.ascontiguousarray(images[row]).data, digest_size=DIGEST_BYTES).digest()
            groups.setdefault(digest, []).append((place, int(labels[split][row])))
    leaked, two_labels = list[Pair](), list[Pair]()
    within: dict[SplitName, list[Pair]] = {split: [] for split in SPLITS}
    for group in groups.values():
        seen: dict[int, Place] = {}  # first place of each label, in the order of the group
        for place, label in group:
            seen.setdefault(label, place)
        firsts = {split: next((place for place, _ in group if place[0] == split), None) for split in SPLITS}
        for place, label in group:
            split, trained = place[0], firsts["train"]
            if (first := firsts[split]) is not None and first != place:
                within[split].append((place, first))
            if split == "test" and trained is not None:
                leaked.append((place, trained))
            if len(seen) > 1:
                two_labels.append((place, next(each for named, each in seen.items() if named != label)))
    sides = {split: tuple(sorted(pairs)) for split, pairs in within.items()}
    return Repeats(tuple(sorted(leaked)), tuple(sorted(two_labels, key=_train_first)), sides)


def _train_first(pair: Pair) -> tuple[int, int]:
    split, number = pair[0]
    return SPLITS.index(split), number
