"""Strings with a fixed set of values."""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):  # noqa: UP042
    """A string with a fixed set of values; enum.StrEnum is not in the Python 3.10 of NVIDIA's MXNet image."""

    __str__ = str.__str__
