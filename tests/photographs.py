"""A folder of images as people have them: several sizes and modes, some turned by their EXIF data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

KINDS = ("lying", "rings", "standing")  # in the order of their labels
SIZES = ((64, 48), (48, 64), (80, 80), (33, 41))  # width, height
MODES = ("RGB", "L", "CMYK")
ORIENTATION, TURNED = 0x0112, 6  # EXIF tag; its value for a picture to be shown turned by a quarter, clockwise


def picture(kind: str, width: int, height: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """(height, width, 3): stripes or rings in two colours, under noise. They also differ in grey."""
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float64)
    middle = generator.uniform(0.3, 0.7, 2)
    distance = np.hypot(rows - middle[0] * height, columns - middle[1] * width)
    along = {"lying": rows, "standing": columns, "rings": distance}[kind]
    wave = 0.5 + 0.5 * np.sin(2 * np.pi * along / generator.uniform(9, 14) + generator.uniform(0, 2 * np.pi))
    dark, light = generator.uniform(0, 90, 3), generator.uniform(150, 255, 3)
    colours = dark + wave[..., None] * (light - dark) + generator.normal(0, 12, (height, width, 3))
    pixels: NDArray[np.uint8] = colours.clip(0, 255).astype(np.uint8)
    return pixels


def write(folder: Path, train: int, test: int, seed: int = 0) -> None:
    """Write so many JPEGs of each split, with equally many of each of KINDS.

    Every fifth is stored turned, and its EXIF data say so: read without them, lying stripes become standing ones.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    for split, count in (("train", train), ("test", test)):
        for number in range(count):
            kind, (width, height) = KINDS[number % len(KINDS)], SIZES[number % len(SIZES)]
            image, exif = Image.fromarray(picture(kind, width, height, generator)), Image.Exif()
            if number % 5 == 0:
                image = image.transpose(Image.Transpose.ROTATE_90)
                exif[ORIENTATION] = TURNED
            path = folder / split / kind / f"{number:04d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.convert(MODES[number // len(KINDS) % len(MODES)]).save(path, quality=90, exif=exif)
