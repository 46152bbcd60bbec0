"""The axes of a value in a source that has channels first, and what a change of its shape or of their order means here.

Letters of a layout. n: images, c: channels or features, h and w: rows and columns, t: tokens, y and x: of size 1, left
by a global pool, so that the value is a vector. Each layout is one of our shapes: image, tokens or vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

IMAGES, TOKENS, VECTORS = ("nchw", "nhwc"), ("ntc", "nct"), ("nc", "ncyx", "nyxc")
LAYOUTS = (*IMAGES, *TOKENS, *VECTORS)
FLATTEN, TOKENIZE = "Flatten", "Tokens"  # layer records that a change of shape can be


@dataclass(frozen=True)
class Value:
    """The output of a node of ours, as the source sees it."""

    node: str
    layout: str  # of LAYOUTS
    shape: tuple[int, ...]  # of the source's tensor, batch included

    @property
    def channels(self) -> int:
        """Number of its channels or features."""
        return self.shape[self.layout.index("c")]

    @property
    def is_vector(self) -> bool:
        """True if it is one vector per image."""
        return self.layout in VECTORS

    def size(self, axis: str) -> int:
        """Return the size of an axis, by its letter."""
        return self.shape[self.layout.index(axis)]

    def describe(self) -> str:
        """Return its axes and sizes."""
        return f"({', '.join(self.layout)}) of {' x '.join(map(str, self.shape))}"

    def is_per_channel(self, shape: Sequence[int]) -> bool:
        """True if a tensor of this shape broadcasts against it as one number per channel."""
        padded = (1,) * (len(self.shape) - len(shape)) + tuple(shape)
        return padded == tuple(size if axis == "c" else 1 for axis, size in zip(self.layout, self.shape, strict=True))


def reshape_layout(value: Value, shape: tuple[int, ...]) -> tuple[str, str]:
    """Return (layer record, or "" for none, layout) of the value in another shape. Raises ValueError, a clause."""
    if shape == value.shape:
        return "", value.layout
    before, after = (" x ".join(map(str, each)) for each in (value.shape, shape))
    odd = ValueError(f"changes {before} to {after}: images can become tokens or be flattened, and nothing else")
    if shape[:1] != value.shape[:1]:
        raise odd
    inside = value.shape[1:]
    if value.is_vector:
        channels = value.channels
        layouts = {(channels,): "nc", (channels, 1, 1): "ncyx", (1, 1, channels): "nyxc"}
        if shape[1:] not in layouts:
            raise odd
        return "", layouts[shape[1:]]
    if shape[1:] == (math.prod(inside),):
        if value.layout in ("nhwc", "nct"):
            raise ValueError("flattens after its axes were permuted: flatten the images (n, c, h, w) themselves")
        return FLATTEN, "nc"
    if value.layout == "nchw" and shape[1:] == (inside[0], inside[1] * inside[2]):
        return TOKENIZE, "nct"
    if value.layout == "nhwc" and shape[1:] == (inside[0] * inside[1], inside[2]):
        return TOKENIZE, "ntc"
    raise odd


def permute_layout(value: Value, order: Sequence[int]) -> str:
    """Return the layout of the value with its axes in this order. Raises ValueError, a clause."""
    layout = "".join(value.layout[axis] for axis in order)
    if layout not in LAYOUTS:
        raise ValueError(
            f"changes the axes ({', '.join(value.layout)}) to ({', '.join(layout)}): no layer record has those"
        )
    return layout


def pad_last_windows(
    entering: Sequence[int], windows: Sequence[int], size: int, stride: int, padding: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """Return a pool's margins in which the last windows of a "ceil mode" are whole: they are no pixels.

    `entering` are rows and columns, `windows` those of the output, `padding` is (top, bottom, left, right).
    """
    top, bottom, left, right = padding
    (rows, columns), (down, across) = entering, windows
    below = max(0, (down - 1) * stride + size - rows - top - bottom)
    beyond = max(0, (across - 1) * stride + size - columns - left - right)
    return top, bottom + below, left, right + beyond
