"""How each framework is shown, everywhere the same: name, place in the tables, colour, marker, line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """A framework's display name, and a look that survives black-and-white print and colour blindness.

    Markers are hollow and of different sizes: frameworks that agree lie inside one another and stay visible.
    """

    name: str
    colour: str  # of the palette by Okabe and Ito
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


def ordered(frameworks: Iterable[str]) -> list[str]:
    """Each once: those of KNOWN in its order, then the others by alphabet."""
    found = set(frameworks)
    return [name for name in KNOWN if name in found] + sorted(found - set(KNOWN))


def display_name(framework: str) -> str:
    """As its makers write it; a framework that is not known by its folder's name."""
    return KNOWN[framework].name if framework in KNOWN else framework


def styles(frameworks: Iterable[str]) -> dict[str, Style]:
    """{framework: style} in table order; beyond four unknown frameworks the looks repeat."""
    names = ordered(frameworks)
    others = [name for name in names if name not in KNOWN]
    looks = {name: Style(name, *OTHERS[index % len(OTHERS)]) for index, name in enumerate(others)}
    return {name: KNOWN.get(name) or looks[name] for name in names}
