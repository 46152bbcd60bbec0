"""How the cats and dogs of Lheureux 2022 are divided: of each class the first 1,000 images, and what is left over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

ARCHIVE = "kagglecatsanddogs_*.zip"  # as Microsoft publishes it
CLASSES = ("Cat", "Dog")  # its folders, in the order of their labels
TRAIN, VALIDATION, TEST = 600, 200, 200  # images a class; nothing here is trained or judged on those in the middle
OF_CLASS = TRAIN + VALIDATION + TEST

Item = TypeVar("Item")


def divided(members: Sequence[Item], test_all: bool) -> tuple[list[Item], list[Item]]:
    """(train, test) of a class, in its order; with `test_all` what is beyond the first 1,000 is tested with, too."""
    end = len(members) if test_all else OF_CLASS
    return list(members[:TRAIN]), list(members[TRAIN + VALIDATION : end])
