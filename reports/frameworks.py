"""Define how each framework is shown everywhere: name, order in tables, colour, marker, line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workloads.records.build import MARK, column_of
from workloads.records.result import TrialResult
from workloads.records.stored import read_start


@dataclass(frozen=True)
class Style:
    """Style of a framework, suited to black-and-white print and colour blindness.

    Markers are hollow and of different sizes: if frameworks agree, their markers lie inside one another and stay
    visible.
    """

    colour: str  # from the palette by Okabe and Ito
    marker: str
    size: float  # of the marker, points
    line: str


KNOWN = {
    "tensorflow": Style("#D55E00", "o", 9.0, "-"),
    "pytorch": Style("#0072B2", "s", 6.5, "--"),
    "mxnet": Style("#009E73", "^", 4.5, "-."),
    "jax": Style("#CC79A7", "D", 8.0, ":"),
}
NAMES = {"tensorflow": "TensorFlow", "pytorch": "PyTorch", "mxnet": "MXNet", "jax": "JAX"}  # of KNOWN
OTHERS = (
    Style("#000000", "v", 8.0, "-"),
    Style("#E69F00", "P", 7.0, "--"),
    Style("#56B4E9", "X", 6.0, "-."),
)

# Of builds, profiles and precisions of a framework, in its colour mixed with another one.
VARIANTS = (("<", 8.0, "-"), (">", 7.0, "--"), ("h", 6.0, "-."), ("*", 9.0, ":"), ("p", 7.0, "-"), ("d", 6.5, "--"))
SHADES = (("#000000", 0.5), ("#FFFFFF", 0.55))  # colour mixed with the framework's, share


def order_frameworks(frameworks: Iterable[str]) -> list[str]:
    """List each framework once: KNOWN ones in that order, then the others by alphabet; builds after their framework."""
    places = {name: place for place, name in enumerate(KNOWN)}
    return sorted(set(frameworks), key=lambda name: (places.get(column_of(name).framework, len(places)), name))


LABEL = re.compile(r"[\w .()+-]+")  # it is used unchanged in tables, charts and LaTeX


@dataclass(frozen=True)
class FrameworkNames:
    """Names of frameworks in one report: call it with a framework. `labels` are those in its results, not of KNOWN."""

    labels: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, framework: str) -> str:
        """Return the framework's label, or the name of its folder if no result has a label.

        The folder's name is added if another framework has the same label. A build has the name of its framework, and
        the label that distinguishes it from other builds.
        """
        column = column_of(framework)
        if column.suffix:
            # Without the space, a label with a dot looks like an address, which Markdown links.
            return f"{self(column.framework)} {MARK}{column.suffix}"
        every = {**self.labels, **NAMES}
        label = every.pop(framework, framework)
        return f"{label} ({framework})" if framework not in NAMES and label in every.values() else label


def name_frameworks(told: Iterable[tuple[str, object]]) -> FrameworkNames:
    """Name frameworks by [(framework or build of it, label)]; the last label counts, unless it is none."""
    of_framework = ((column_of(name).framework, label) for name, label in told)
    return FrameworkNames(
        {
            framework: label
            for framework, label in of_framework
            if framework not in KNOWN and isinstance(label, str) and LABEL.fullmatch(label)
        }
    )


def read_names(results: Iterable[TrialResult]) -> FrameworkNames:
    """Read the names from stored results, of which the newest counts; older ones have no label."""
    by_time = sorted(results, key=read_start)
    return name_frameworks((each.spec.cell.framework, each.machine.get("framework_label")) for each in by_time)


def choose_styles(frameworks: Iterable[str]) -> dict[str, Style]:
    """Map {framework: style} in table order; styles repeat beyond three unknown frameworks and six variants.

    A variant (a build, a profile or a precision) has a shade of its framework's colour, and a marker of its own.
    """
    ordered = order_frameworks(frameworks)
    families = dict.fromkeys(column_of(name).framework for name in ordered)
    unused, variants = itertools.cycle(OTHERS), itertools.cycle(VARIANTS)
    of_family = {family: KNOWN.get(family) or next(unused) for family in families}
    chosen: dict[str, Style] = {}
    for name in ordered:
        family = column_of(name).framework
        if name == family:
            chosen[name] = of_family[family]
            continue
        colour = of_family[family].colour
        shades = [shade for other, share in SHADES if (shade := mix_colours(colour, other, share)) != colour]
        number = sum(other != family and column_of(other).framework == family for other in chosen)
        marker, size, line = next(variants)
        chosen[name] = Style(shades[number % len(shades)], marker, size, line)
    return chosen


def mix_colours(colour: str, other: str, share: float) -> str:
    """Mix two #rrggbb colours, with this share of the other."""
    pairs = ((int(one[place : place + 2], 16) for one in (colour, other)) for place in (1, 3, 5))
    return "#" + "".join(f"{round((1 - share) * channel + share * mixed):02X}" for channel, mixed in pairs)
