"""One picture: decoded by Pillow, and brought to the size at which it is stored."""

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
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from runner.data.packed import Packed
from workloads.datasets import Images
from workloads.layers import Shape
from workloads.records.job import Fit

FORMATS = ("JPEG", "PNG", "BMP", "WEBP")
LEAST_SIDE = 2  # pixels
ORIENTATION, LYING = 0x0112, (5, 6, 7, 8)  # of EXIF: the tag, and its values by which rows become columns
UNREADABLE = (  # what Pillow's decoders raise at what is damaged
    OSError, SyntaxError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError, EOFError, struct.error,
    zlib.error, BadZipFile, NotImplementedError, RuntimeError, MemoryError, Image.DecompressionBombWarning,
    Image.DecompressionBombError,
)  # fmt: skip

Size = tuple[int, int]  # rows, columns
Answer = TypeVar("Answer")


class Unreadable(ValueError):
    """A picture that cannot be decoded; the message is why."""


@dataclass(frozen=True)
class Look:
    """What a picture is, without decoding its pixels."""

    sha256: str
    size: Size  # as it is to be looked at


def look(source: str | Packed) -> Look:
    """Raises Unreadable."""

    def seen(file: BinaryIO) -> Look:
        digest = hashlib.sha256()
        while piece := file.read(2**20):
            digest.update(piece)
        file.seek(0)
        with Image.open(file, formats=FORMATS) as image:
            columns, rows = image.size
            lying = Image.Image.getexif(image).get(ORIENTATION) in LYING  # PNG's own would decode all of it
        if min(rows, columns) < LEAST_SIDE:
            raise Unreadable(f"{rows} x {columns} pixels")
        return Look(digest.hexdigest(), (columns, rows) if lying else (rows, columns))

    return _of_file(source, seen)


def decoded(source: str | Packed, shape: Shape, fit: Fit) -> Images:
    """(rows, columns, channels) as `shape` says; one channel is grey, three are colour. Raises Unreadable."""

    def pixels(file: BinaryIO) -> Images:
        with Image.open(file, formats=FORMATS) as image:
            return _sized(_flat(image, shape[2]), shape, fit)

    return _of_file(source, pixels)


def fitted(images: Images, shape: Shape, fit: Fit) -> Images:
    """(n, h, w, 1 or 3) -> (n, *shape), as `decoded` would store them."""
    if images.shape[1:] == shape:
        return images
    pictures = (Image.fromarray(image[..., 0] if image.shape[2] == 1 else image) for image in images)
    return np.stack([_sized(_flat(picture, shape[2]), shape, fit) for picture in pictures])


def _opened(source: str | Packed) -> BinaryIO:
    return source.open() if isinstance(source, Packed) else Path(source).open("rb")


def _of_file(source: str | Packed, work: Callable[[BinaryIO], Answer]) -> Answer:
    """What `work` makes of it. Raises Unreadable."""
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


def _flat(image: Image.Image, channels: int) -> Image.Image:
    """Upright, 8 bits a value, grey or RGB, what is transparent over white."""
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        image = Image.fromarray(_eight_bits(np.asarray(image)))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if channels == 1 else "RGB")


def _eight_bits(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Of 16 bits. Raises ValueError for a picture of more."""
    wide = values.astype(np.int64)
    if wide.min() < 0 or wide.max() > 65535:
        raise ValueError("more than 16 bits a pixel")
    return ((wide * 255 + 32767) // 65535).astype(np.uint8)


def _sized(image: Image.Image, shape: Shape, fit: Fit) -> Images:
    """Bilinear with antialiasing; a picture of this size keeps its pixels."""
    rows, columns, channels = shape
    high, wide = image.height, image.width
    if (high, wide) != (rows, columns):
        bilinear = Image.Resampling.BILINEAR
        if fit == "crop":  # the largest part in the middle that has the shape's proportions
            image = ImageOps.fit(image, (columns, rows), bilinear)
        elif fit == "pad":  # all of it, on black
            scale = max(high / rows, wide / columns)
            inner = min(columns, max(1, round(wide / scale))), min(rows, max(1, round(high / scale)))
            ground = Image.new(image.mode, (columns, rows))
            ground.paste(image.resize(inner, bilinear), ((columns - inner[0]) // 2, (rows - inner[1]) // 2))
            image = ground
        else:
            image = image.resize((columns, rows), bilinear)
    return np.asarray(image, np.uint8).reshape(rows, columns, channels)
