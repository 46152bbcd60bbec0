"""Folders of pictures for tests."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console

from workloads.datasets import Images

QUIET = Console(file=io.StringIO())


def noise(rows: int, columns: int, seed: int = 0, channels: int = 3) -> Images:
    """Noise: (rows, columns, 3), or (rows, columns) for one channel."""
    shape = (rows, columns) if channels == 1 else (rows, columns, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def save(path: Path, pixels: Any, **options: Any) -> Path:
    """Save pixels in the format of the path's suffix; make the folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def a_folder(
    root: Path,
    train: int = 4,
    test: int | None = 2,
    classes: tuple[str, ...] = ("cat", "dog"),
    size: Callable[[int], tuple[int, int]] = lambda number: (8, 8),
) -> Path:
    """Write so many PNGs per class and split; no test split where `test` is None. All have different pixels."""
    seed = 0
    for split, count in (("train", train), ("test", test)):
        for name in classes if count is not None else ():
            for number in range(count or 0):
                seed += 1
                save(root / split / name / f"{number}.png", noise(*size(seed), seed=seed))
    return root
