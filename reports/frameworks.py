"""Define how each framework is shown everywhere: name, order in tables, colour, marker, line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workloads.records.build import MARK, column_of


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
    "jax": Style("JAX", "#CC79A7", "D", 8.0, ":"),
}
OTHERS = (
    ("#000000", "v", 8.0, "-"),
    ("#E69F00", "P", 7.0, "--"),
    ("#56B4E9", "X", 6.0, "-."),
)


SHADES = (("#000000", 0.5), ("#FFFFFF", 0.55))  # for builds: colour mixed with the framework's, share


def order_frameworks(frameworks: Iterable[str]) -> list[str]:
    """List each framework once: KNOWN ones in that order, then the others by alphabet; builds after their framework."""
    places = {name: place for place, name in enumerate(KNOWN)}
    return sorted(set(frameworks), key=lambda name: (places.get(column_of(name).framework, len(places)), name))


# {framework: label} of frameworks not in KNOWN, from the results that this process has read for its report.
LABELS: dict[str, str] = {}
LABEL = re.compile(r"[\w .()+-]+")  # it is used unchanged in tables, charts and LaTeX


def learn_label(framework: str, machine: Mapping[str, Any]) -> None:
    """Learn the framework's label from a stored result's machine conditions; older results have none."""
    label, framework = machine.get("framework_label"), column_of(framework).framework
    if framework not in KNOWN and isinstance(label, str) and LABEL.fullmatch(label):
        LABELS[framework] = label


def display_name(framework: str) -> str:
    """Return the framework's label, or the name of its folder if no result has a label.

    The folder's name is added if another framework has the same label. A build has the name of its framework, and the
    label that distinguishes it from other builds.
    """
    column = column_of(framework)
    if column.suffix:
        # Without the space, a label with a dot looks like an address, which Markdown links.
        return f"{display_name(column.framework)} {MARK}{column.suffix}"
    if framework in KNOWN:
        return KNOWN[framework].name
    label = LABELS.get(framework, framework)
    others = [style.name for style in KNOWN.values()] + [LABELS[name] for name in LABELS if name != framework]
    return f"{label} ({framework})" if label in others else label


def choose_styles(frameworks: Iterable[str]) -> dict[str, Style]:
    """Map {framework: style} in table order; beyond three unknown frameworks and builds the styles repeat.

    A build has a shade of its framework's colour, and a different marker.
    """
    unused = itertools.cycle(OTHERS)
    chosen: dict[str, Style] = {}
    for name in order_frameworks(frameworks):
        if name in KNOWN:
            chosen[name] = KNOWN[name]
            continue
        style, framework = Style(display_name(name), *next(unused)), column_of(name).framework
        if family := KNOWN.get(framework):
            builds = sum(other != framework and column_of(other).framework == framework for other in chosen)
            style = replace(style, colour=mix_colours(family.colour, *SHADES[builds % len(SHADES)]))
        chosen[name] = style
    return chosen


def mix_colours(colour: str, other: str, share: float) -> str:
    """Mix two #rrggbb colours, with this share of the other."""
    pairs = ((int(one[place : place + 2], 16) for one in (colour, other)) for place in (1, 3, 5))
    return "#" + "".join(f"{round((1 - share) * channel + share * mixed):02X}" for channel, mixed in pairs)
