"""How each framework is shown, everywhere the same: name, place in the tables, colour, marker, line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workloads.records.build import MARK, adapter_of, label_of


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


SHADES = (("#000000", 0.5), ("#FFFFFF", 0.55))  # of builds: what the framework's colour is mixed with, how much of it


def ordered(frameworks: Iterable[str]) -> list[str]:
    """Each once: those of KNOWN in its order, then the others by alphabet; builds behind their framework."""
    places = {name: place for place, name in enumerate(KNOWN)}
    return sorted(set(frameworks), key=lambda name: (places.get(adapter_of(name), len(places)), name))


# {framework: label} of those that are not KNOWN, from the results that this process has read: it makes one report.
LABELS: dict[str, str] = {}
LABEL = re.compile(r"[\w .()+-]+")  # it stands in tables, charts and LaTeX as it is


def learn_label(framework: str, machine: Mapping[str, Any]) -> None:
    """Of a stored result, from its machine's conditions; those of older results have none."""
    label, framework = machine.get("framework_label"), adapter_of(framework)
    if framework not in KNOWN and isinstance(label, str) and LABEL.fullmatch(label):
        LABELS[framework] = label


def display_name(framework: str) -> str:
    """Its label, with its folder's name too where another has the same; that name alone where no result has a label.
    A build's is that of its framework with what tells it from other builds.
    """
    if label_of(framework):
        # Without the blank a label with a dot makes it an address, which Markdown links.
        return f"{display_name(adapter_of(framework))} {MARK}{label_of(framework)}"
    if framework in KNOWN:
        return KNOWN[framework].name
    label = LABELS.get(framework, framework)
    others = [style.name for style in KNOWN.values()] + [LABELS[name] for name in LABELS if name != framework]
    return f"{label} ({framework})" if label in others else label


def styles(frameworks: Iterable[str]) -> dict[str, Style]:
    """{framework: style} in table order; beyond four unknown frameworks and builds the looks repeat.

    A build has a shade of its framework's colour, and a marker of its own.
    """
    unused = itertools.cycle(OTHERS)
    chosen: dict[str, Style] = {}
    for name in ordered(frameworks):
        if name in KNOWN:
            chosen[name] = KNOWN[name]
            continue
        style = Style(display_name(name), *next(unused))
        family = KNOWN.get(adapter_of(name)) if label_of(name) else None
        if family:
            builds = sum(bool(label_of(other)) and adapter_of(other) == adapter_of(name) for other in chosen)
            style = replace(style, colour=_mixed(family.colour, *SHADES[builds % len(SHADES)]))
        chosen[name] = style
    return chosen


def _mixed(colour: str, other: str, share: float) -> str:
    """Two #rrggbb, with this share of the other."""
    pairs = ((int(one[place : place + 2], 16) for one in (colour, other)) for place in (1, 3, 5))
    return "#" + "".join(f"{round((1 - share) * channel + share * mixed):02X}" for channel, mixed in pairs)
