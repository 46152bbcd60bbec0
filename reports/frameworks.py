"""How each framework is shown, everywhere the same: name, place in the tables, colour, marker, line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Style:
    """A framework's display name, and a style that survives black-and-white print and colour blindness.

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
    names = set(frameworks)
    return [name for name in KNOWN if name in names] + sorted(names - KNOWN.keys())


# {framework: label} of those that are not KNOWN, from the results that this process has read: it makes one report.
LABELS: dict[str, str] = {}
LABEL = re.compile(r"[\w .()+-]+")  # it stands in tables, charts and LaTeX as it is


def learn_label(framework: str, machine: Mapping[str, Any]) -> None:
    """Of a stored result, from its machine's conditions; those of older results have none."""
    label = machine.get("framework_label")
    if framework not in KNOWN and isinstance(label, str) and LABEL.fullmatch(label):
        LABELS[framework] = label


def display_name(framework: str) -> str:
    """Its label, with its folder's name too where another has the same; that name alone where no result has a label."""
    if framework in KNOWN:
        return KNOWN[framework].name
    label = LABELS.get(framework, framework)
    others = [style.name for style in KNOWN.values()] + [LABELS[name] for name in LABELS if name != framework]
    return f"{label} ({framework})" if label in others else label


def styles(frameworks: Iterable[str]) -> dict[str, Style]:
    """{framework: style} in table order; beyond four unknown frameworks the looks repeat."""
    unused = itertools.cycle(OTHERS)
    return {name: KNOWN.get(name) or Style(display_name(name), *next(unused)) for name in ordered(frameworks)}
