"""Loops of Keras on PyTorch, with PyTorch's number of threads."""

from typing import Any

import torch

from loops import keras_loops
from loops.keras_loops import FEEDS, Train


def by_hand(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    torch.set_num_threads(threads)
    return keras_loops.by_hand(images, labels, weights, threads, settings)


def fit(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    torch.set_num_threads(threads)
    return keras_loops.fit(images, labels, weights, threads, settings)


LOOPS, TRAINERS = {"by-hand": by_hand}, {"fit": fit}
__all__ = ["FEEDS", "LOOPS", "TRAINERS"]
