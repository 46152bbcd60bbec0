"""Read pictures of 16 bits per value. Pillow supports these only for grey; of colours it reads the upper half."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from runner.data import pixel_values
from workloads.records.job import PixelRange

MOST = 65535
LOWER_HALVES = {"RGB;16B": "RGB;16L", "RGBA;16B": "RGBA;16L"}  # {layout of a PNG: the one to read the other halves}
PAIRS = "LA;16B"  # four bytes per pixel: both halves of grey, both of its opacity


def values_of(image: Image.Image, file: BinaryIO) -> NDArray[Any] | None:
    """Return the file's own values (rows, columns, channels); None for a picture of 8 bits.

    Raises what Pillow raises, and ValueError for more than 16 bits.
    """
    if image.mode.startswith("I"):
        grey = np.asarray(image)[..., None]
        if grey.min() < 0 or grey.max() > MOST:
            raise ValueError("more than 16 bits a pixel")
        return grey.astype(np.uint16)
    layout = None
    if isinstance(image, ImageFile.ImageFile) and image.format == "PNG" and image.tile:
        layout = image.tile[0].args
    if layout == PAIRS:
        parts = _read(file, "RGBA").astype(np.uint16)
        return parts[..., 0::2] << 8 | parts[..., 1::2]
    if layout in LOWER_HALVES:
        upper = np.asarray(image).astype(np.uint16)
        return upper << 8 | _read(file, LOWER_HALVES[layout])
    return None


def in_bytes(wide: NDArray[Any], image: Image.Image, pixel_range: PixelRange | None) -> Image.Image:
    """Return a picture of 8 bits per value, with the EXIF of `image`. Opacity always uses the whole range."""
    channels = wide.shape[2]
    colours = channels - 1 if channels in (2, 4) else channels
    parts = _scaled(wide) if pixel_range is None else pixel_values.in_bytes(wide, pixel_range)
    if colours < channels:
        parts[..., colours:] = _scaled(wide[..., colours:])
    made = Image.fromarray(parts[..., 0] if channels == 1 else parts)
    if "exif" in image.info:
        made.info["exif"] = image.info["exif"]
    return made


def _scaled(wide: NDArray[Any]) -> NDArray[np.uint8]:
    """Scale the whole range of 16 bits to 8 bits."""
    return ((wide.astype(np.int64) * pixel_values.LEVELS + MOST // 2) // MOST).astype(np.uint8)


def _read(file: BinaryIO, layout: str) -> NDArray[np.uint8]:
    """Read the picture's bytes in this layout."""
    file.seek(0)
    with Image.open(file, formats=["PNG"]) as image:
        image.tile = [each._replace(args=layout) for each in image.tile]
        return np.asarray(image)
