"""Decode one picture with Pillow, and bring it to the size at which it is stored."""

from __future__ import annotations

import hashlib
import struct
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar
from zipfile import BadZipFile

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from runner.data import deep, pixel_values
from runner.data.packed import Packed
from runner.data.pixel_values import Extent
from workloads.datasets import Images
from workloads.layers import Shape
from workloads.records.job import Fit, PixelRange

FORMATS = ("JPEG", "PNG", "BMP", "WEBP")
LEAST_SIDE = 2  # pixels
ORIENTATION, LYING = 0x0112, (5, 6, 7, 8)  # of EXIF: the tag, and its values for which rows become columns
UNREADABLE = (  # raised by Pillow's decoders for damaged files
    OSError, SyntaxError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError, EOFError, struct.error,
    zlib.error, BadZipFile, NotImplementedError, RuntimeError, MemoryError, Image.DecompressionBombWarning,
    Image.DecompressionBombError,
)  # fmt: skip

Size = tuple[int, int]  # rows, columns
Answer = TypeVar("Answer")


class Unreadable(ValueError):
    """A picture that cannot be decoded; the message says why."""


@dataclass(frozen=True)
class Look:
    """Facts about a picture, found without decoding its pixels."""

    sha256: str
    size: Size  # upright, as a viewer shows it


def look(source: str | Packed) -> Look:
    """Return checksum and size of a picture. Raises Unreadable."""

    def seen(file: BinaryIO) -> Look:
        digest = hashlib.sha256()
        while piece := file.read(2**20):
            digest.update(piece)
        file.seek(0)
        with Image.open(file, formats=FORMATS) as image:
            columns, rows = image.size
            lying = Image.Image.getexif(image).get(ORIENTATION) in LYING  # the getexif of PNG decodes all of it
        if min(rows, columns) < LEAST_SIDE:
            raise Unreadable(f"{rows} x {columns} pixels")
        return Look(digest.hexdigest(), (columns, rows) if lying else (rows, columns))

    return _of_file(source, seen)


@dataclass(frozen=True)
class Decoded:
    """Pixels as they are stored, and what happened to the file's values where nearly all contrast was lost."""

    pixels: Images
    faded: str


def decoded(source: str | Packed, shape: Shape, fit: Fit, pixel_range: PixelRange | None = None) -> Decoded:
    """Decode to `shape` (rows, columns, channels); one channel is grey, three are colour. Raises Unreadable."""

    def pixels(file: BinaryIO) -> Decoded:
        with Image.open(file, formats=FORMATS) as image:
            upright, extent = _in_bytes(image, file, pixel_range)
            stored = _sized(_flat(upright, shape[2]), shape, fit)
        return Decoded(stored, extent.lost_in(pixel_values.extent_of(stored)))

    return _of_file(source, pixels)


def fitted(images: Images, shape: Shape, fit: Fit) -> Images:
    """Convert (n, h, w, 1 or 3) to (n, *shape), as `decoded` would store them."""
    if images.shape[1:] == shape:
        return images
    pictures = (Image.fromarray(image[..., 0] if image.shape[2] == 1 else image) for image in images)
    return np.stack([_sized(_flat(picture, shape[2]), shape, fit) for picture in pictures])


def _opened(source: str | Packed) -> BinaryIO:
    return source.open() if isinstance(source, Packed) else Path(source).open("rb")


def _of_file(source: str | Packed, work: Callable[[BinaryIO], Answer]) -> Answer:
    """Return the result of `work` on the open file. Raises Unreadable."""
    try:
        with warnings.catch_warnings(), _opened(source) as file:
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return work(file)
    except Unreadable:
        raise
    except UnidentifiedImageError as error:
        raise Unreadable(f"no {', '.join(FORMATS)} image") from error
    except UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
        raise Unreadable(reason or type(error).__name__) from error


def _in_bytes(image: Image.Image, file: BinaryIO, pixel_range: PixelRange | None) -> tuple[Image.Image, Extent]:
    """Return the image upright with 8 bits per value, and the extent of the file's original values.

    For an image with a palette, the extent is that of the palette's colours.
    """
    if (wide := deep.values_of(image, file)) is not None:
        return ImageOps.exif_transpose(deep.in_bytes(wide, image, pixel_range)), pixel_values.extent_of(wide)
    image = ImageOps.exif_transpose(image)
    plain = image
    if image.mode not in ("L", "LA", "RGB", "RGBA", "CMYK"):
        plain = image.convert("RGBA" if image.has_transparency_data else "RGB")
    extent = pixel_values.extent_of_histogram(plain.histogram())
    return image if pixel_range is None else _in_range(image, pixel_range), extent


def _in_range(image: Image.Image, pixel_range: PixelRange) -> Image.Image:
    """Return the image with its colours mapped by the range; transparency is kept."""
    image = image.convert("RGBA" if image.has_transparency_data else "L" if image.mode in ("1", "L") else "RGB")
    colours, clear = (image.split()[:3], image.split()[3:]) if image.mode == "RGBA" else (image.split(), ())
    table = pixel_values.in_bytes(np.arange(256), pixel_range).tolist()
    return Image.merge(image.mode, [*(each.point(table) for each in colours), *clear])


def _flat(image: Image.Image, channels: int) -> Image.Image:
    """Return the image in grey or RGB, with transparent parts over white."""
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if channels == 1 else "RGB")


def _sized(image: Image.Image, shape: Shape, fit: Fit) -> Images:
    """Resize bilinearly with antialiasing; a picture of this size keeps its pixels."""
    rows, columns, channels = shape
    high, wide = image.height, image.width
    if (high, wide) != (rows, columns):
        bilinear = Image.Resampling.BILINEAR
        if fit == "crop":  # the largest part in the middle with the shape's proportions
            image = ImageOps.fit(image, (columns, rows), bilinear)
        elif fit == "pad":  # the whole picture, on black
            scale = max(high / rows, wide / columns)
            inner = min(columns, max(1, round(wide / scale))), min(rows, max(1, round(high / scale)))
            ground = Image.new(image.mode, (columns, rows))
            ground.paste(image.resize(inner, bilinear), ((columns - inner[0]) // 2, (rows - inner[1]) // 2))
            image = ground
        else:
            image = image.resize((columns, rows), bilinear)
    return np.asarray(image, np.uint8).reshape(rows, columns, channels)
