"""Define how each framework is shown everywhere: name, order in tables, colour, marker, line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workloads.records.build import MARK, adapter_of, label_of


@dataclass(frozen=True)
class Style:
    """Display name of a framework, and a style suited to black-and-white print and colour blindness.

    Markers are hollow and of different sizes: if frameworks agree, their markers lie inside one another and stay
    visible.
    """

    name: str
    colour: str  # from the palette by Okabe and Ito
    marker: str
    size: float  # of the marker, points
    line: str


KNOWN = {
    "tensorflow": Style("TensorFlow", "#D55E00", "o", 9.0, "-"),
    "pytorch": Style("PyTorch", "#0072B2", "s", 6.5, "--"),
    "mxnet": Style("MXNet", "#009E73", "^", 4.5, "-."),
}
OTHERS = (
    ("#CC79A7", "D", 8.0, ":"),
    ("#000000", "v", 8.0, "-"),
    ("#E69F00", "P", 7.0, "--"),
    ("#56B4E9", "X", 6.0, "-."),
)


SHADES = (("#000000", 0.5), ("#FFFFFF", 0.55))  # for builds: the colour mixed with the framework's, and its share
