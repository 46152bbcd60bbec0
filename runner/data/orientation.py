"""Find how a picture lies in its file, by its EXIF or XMP, and turn it upright."""

from __future__ import annotations

import struct

from PIL import Image

TAG, LYING = 0x0112, (5, 6, 7, 8)  # of EXIF, and its values for which rows become columns
TURNS = {  # {value: what turns the picture upright}
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
DAMAGED = (  # raised by Pillow for damaged EXIF
    OSError, SyntaxError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError, struct.error,
)  # fmt: skip


def find_orientation(image: Image.Image) -> int:
    """Return the value that the picture's EXIF, else its XMP, has; 1, which is upright, where none can be read."""
    try:
        found: int = Image.Image.getexif(image).get(TAG, 1)  # the getexif of PNG decodes all of it
    except DAMAGED:  # the pixels may be sound
        return 1
    return found


def turn_upright(image: Image.Image, orientation: int) -> Image.Image:
    """Return the picture upright."""
    turn = TURNS.get(orientation)
    return image if turn is None else image.transpose(turn)
