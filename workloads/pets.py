"""The division of the cats and dogs of Lheureux 2022: of each class the first 1,000 images, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

ARCHIVE = "kagglecatsanddogs_*.zip"  # as published by Microsoft
CLASSES = ("Cat", "Dog")  # its folders, in the order of their labels
TRAIN, VALIDATION, TEST = 600, 200, 200  # images a class; nothing here is trained or judged on those in the middle
OF_CLASS = TRAIN + VALIDATION + TEST

Item = TypeVar("Item")


def divided(members: Sequence[Item], test_all: bool) -> tuple[list[Item], list[Item]]:
    """Return (train, test) of a class, in its order; `test_all` also tests with those beyond the first 1,000."""
    end = len(members) if test_all else OF_CLASS
    return list(members[:TRAIN]), list(members[TRAIN + VALIDATION : end])
