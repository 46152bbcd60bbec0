"""Decode one picture with Pillow, from a file or in place in a zip archive, to the size at which it is stored.

Pillow supports 16 bits per value only for grey; of colours it reads the upper half, so the lower half is read here.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from runner.data import pixel_values
from runner.data.orientation import LYING, find_orientation, turn_upright
from runner.data.pixel_values import Extent
from workloads.datasets import Images
from workloads.layers import Shape
from workloads.records.job import Fit, PixelRange

MOST_BYTES = 2**26  # of a picture file; pictures in the archive are smaller than 1 MiB
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Packed:
    """A member of an archive; `changed_ns` is the archive's, so that a changed archive is opened again."""

    archive: str
    changed_ns: int
    member: str

    def open(self) -> BinaryIO:
        """Read the whole member and verify its checksum.

        Raises what zipfile raises, and ValueError for a file that is too large.
        """
        with open_archive(self.archive, self.changed_ns).open(self.member) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
        return io.BytesIO(content)


@lru_cache(maxsize=1)  # a process reads one archive: its list of thousands of members is read once
def open_archive(path: str, changed_ns: int) -> zipfile.ZipFile:
    """Open the archive. Raises zipfile.BadZipFile, OSError."""
    return zipfile.ZipFile(path)


FORMATS = ("JPEG", "PNG", "BMP", "WEBP")
LEAST_SIDE = 2  # pixels
UNREADABLE = (  # raised by Pillow's decoders for damaged files
    OSError, SyntaxError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError, EOFError, struct.error,
    zlib.error, BadZipFile, NotImplementedError, RuntimeError, Image.DecompressionBombWarning,
    Image.DecompressionBombError,
)  # fmt: skip

Size = tuple[int, int]  # rows, columns
Answer = TypeVar("Answer")


class UnreadablePicture(ValueError):
    """A picture that cannot be decoded; the message says why."""


class ChangedPicture(Exception):
    """A picture whose file is not the one that was looked at; the message is its path, or its name in an archive."""


@dataclass(frozen=True)
class Look:
    """Facts about a picture, found without decoding its pixels."""

    sha256: str
    size: Size  # upright, as a viewer shows it


def look(source: str | Packed) -> Look:
    """Return checksum and size of a picture. Raises UnreadablePicture, and OSError where the file cannot be read."""

    def seen(file: BinaryIO) -> Look:
        digest = hashlib.sha256()
        while piece := file.read(2**20):
            digest.update(piece)
        file.seek(0)
        with Image.open(file, formats=FORMATS) as image:
            columns, rows = image.size
            lying = find_orientation(image) in LYING
        if min(rows, columns) < LEAST_SIDE:
            raise UnreadablePicture(f"{rows} x {columns} pixels")
        return Look(digest.hexdigest(), (columns, rows) if lying else (rows, columns))

    return _of_file(source, seen)


@dataclass(frozen=True)
class Decoded:
    """Pixels as they are stored, and what happened to the file's values where nearly all contrast was lost."""

    pixels: Images
    faded: str


def decode(
    source: str | Packed, shape: Shape, fit: Fit, pixel_range: PixelRange | None = None, sha256: str | None = None
) -> Decoded:
    """Decode to `shape` (rows, columns, channels); one channel is grey, three are colour.

    Raises UnreadablePicture, OSError where the file cannot be read or memory is short, and ChangedPicture for a file
    with another sha256 than this. The file is read once.
    """

    def pixels(file: BinaryIO) -> Decoded:
        content = file.read()
        if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
            raise ChangedPicture(_name_source(source))
        with io.BytesIO(content) as same, Image.open(same, formats=FORMATS) as image:
            upright, extent = _in_bytes(image, same, pixel_range)
            stored = _sized(_flat(upright, shape[2]), shape, fit)
        return Decoded(stored, extent.lost_in(pixel_values.compute_extent(stored)))

    return _of_file(source, pixels)


def fit_images(images: Images, shape: Shape, fit: Fit) -> Images:
    """Convert (n, h, w, 1 or 3) to (n, *shape), as `decode` would store them."""
    if images.shape[1:] == shape:
        return images
    pictures = (Image.fromarray(image[..., 0] if image.shape[2] == 1 else image) for image in images)
    return np.stack([_sized(_flat(picture, shape[2]), shape, fit) for picture in pictures])


def _opened(source: str | Packed) -> BinaryIO:
    return source.open() if isinstance(source, Packed) else Path(source).open("rb")


def _name_source(source: str | Packed) -> str:
    return source.member if isinstance(source, Packed) else source


def _of_file(source: str | Packed, work: Callable[[BinaryIO], Answer]) -> Answer:
    """Return the result of `work` on the open file.

    Raises UnreadablePicture for what the file holds, and OSError for what may pass: a failing disk, too little memory.
    """
    try:
        with warnings.catch_warnings(), _opened(source) as file:
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return work(file)
    except UnreadablePicture:
        raise
    except UnidentifiedImageError as error:
        raise UnreadablePicture(f"not a {', '.join(FORMATS)} image") from error
    except MemoryError as error:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), _name_source(source)) from error
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:  # Pillow's own for damaged pictures have none
            raise OSError(error.errno, error.strerror, _name_source(source)) from error
        raise UnreadablePicture(" ".join(str(error).split()) or type(error).__name__) from error


def _in_bytes(image: Image.Image, file: BinaryIO, pixel_range: PixelRange | None) -> tuple[Image.Image, Extent]:
    """Return the image upright with 8 bits per value, and the extent of the file's original values.

    For an image with a palette, the extent is that of the palette's colours.
    """
    wide, factor = read_wide_values(image, file), FACTORS.get(_find_layout(image), 1)
    image.load()  # a PNG's EXIF may follow its pixels
    orientation = find_orientation(image)
    if wide is not None:
        return turn_upright(reduce_to_bytes(wide, image, pixel_range), orientation), pixel_values.compute_extent(wide)
    if image.mode == "L" and CLEAR in image.info:
        image.info[CLEAR] *= factor  # Pillow compares the file's value with its own
    image = plain = turn_upright(image, orientation)
    if image.mode not in ("L", "LA", "RGB", "RGBA", "CMYK"):
        plain = image.convert("RGBA" if image.has_transparency_data else "RGB")
    extent = pixel_values.compute_histogram_extent(plain.histogram())
    return image if pixel_range is None else _in_range(image, pixel_range, factor), extent


def _in_range(image: Image.Image, pixel_range: PixelRange, factor: int) -> Image.Image:
    """Return the image with its colours mapped by the range; transparency is kept.

    `factor`: the image's values are so many times those of the file.
    """
    image = image.convert("RGBA" if image.has_transparency_data else "L" if image.mode in ("1", "L") else "RGB")
    colours, clear = (image.split()[:3], image.split()[3:]) if image.mode == "RGBA" else (image.split(), ())
    table = pixel_values.convert_to_bytes(np.arange(256) / factor, pixel_range).tolist()
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


MOST = 65535
LOWER_HALVES = {"RGB;16B": "RGB;16L", "RGBA;16B": "RGBA;16L"}  # {layout of a PNG: the one to read the other halves}
PAIRS = "LA;16B"  # four bytes per pixel: both halves of grey, both of its opacity
FACTORS = {"1": 255, "L;2": 85, "L;4": 17}  # {layout of a grey PNG of few bits: Pillow's factor to 8 bits}
CLEAR = "transparency"  # in Pillow's `info`, of a picture without opacity: the value or colour that is transparent


def _find_layout(image: Image.Image) -> str:
    """Return Pillow's word for how a PNG's bytes hold its values; "" for other formats, and once it is decoded."""
    if isinstance(image, ImageFile.ImageFile) and image.format == "PNG" and image.tile:
        return str(image.tile[0].args)
    return ""


def read_wide_values(image: Image.Image, file: BinaryIO) -> NDArray[Any] | None:
    """Return the file's own values (rows, columns, channels); None for a picture of 8 bits.

    Raises what Pillow raises, and ValueError for more than 16 bits.
    """
    if image.mode.startswith("I"):
        grey = np.asarray(image)[..., None]
        if grey.min() < 0 or grey.max() > MOST:
            raise ValueError("more than 16 bits per pixel")
        return grey.astype(np.uint16)
    layout = _find_layout(image)
    if layout == PAIRS:
        parts = _read(file, "RGBA").astype(np.uint16)
        return parts[..., 0::2] << 8 | parts[..., 1::2]
    if layout in LOWER_HALVES:
        upper = np.asarray(image).astype(np.uint16)
        return upper << 8 | _read(file, LOWER_HALVES[layout])
    return None


def reduce_to_bytes(wide: NDArray[Any], image: Image.Image, pixel_range: PixelRange | None) -> Image.Image:
    """Return a picture of 8 bits per value. Opacity always uses the whole range."""
    if CLEAR in image.info:
        seen = (wide != np.asarray(image.info[CLEAR])).any(axis=2, keepdims=True)
        wide = np.concatenate([wide, np.where(seen, MOST, 0).astype(np.uint16)], axis=2)
    channels = wide.shape[2]
    colours = channels - 1 if channels in (2, 4) else channels
    parts = _scaled(wide) if pixel_range is None else pixel_values.convert_to_bytes(wide, pixel_range)
    if colours < channels:
        parts[..., colours:] = _scaled(wide[..., colours:])
    return Image.fromarray(parts[..., 0] if channels == 1 else parts)


def _scaled(wide: NDArray[Any]) -> NDArray[np.uint8]:
    """Scale the whole range of 16 bits to 8 bits."""
    return ((wide.astype(np.int64) * pixel_values.LEVELS + MOST // 2) // MOST).astype(np.uint8)


def _read(file: BinaryIO, layout: str) -> NDArray[np.uint8]:
    """Read the picture's bytes in this layout."""
    file.seek(0)
    with Image.open(file, formats=["PNG"]) as image:
        image.tile = [each._replace(args=layout) for each in image.tile]
        return np.asarray(image)
