"""How a series is drawn, everywhere the same: a framework has its colour and marker, its kind the line and the shade.

Colours are of the palette by Okabe and Ito (Color Universal Design, 2008), told apart with every kind of colour vision;
markers, dashes and hatches tell the same apart in black and white.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..charts import Kind, Series
from ..frameworks import Style, styles

Dashes = str | tuple[float, tuple[float, ...]]
INK = "#222222"
PARTS = {  # of the memory: colour and hatch; neighbours in the stack differ in lightness or in hatch
    "parameters": ("#0072B2", ""),
    "statistics": ("#CCCCCC", "|||"),
    "gradients": ("#56B4E9", "///"),
    "optimizer": ("#E69F00", ""),
    "dataset": ("#000000", ""),
    "inputs": ("#F0E442", "..."),
    "activations": ("#009E73", "\\\\"),
    "workspace": ("#CC79A7", "xxx"),
}
OTHER_PART = ("#DDDDDD", "++")
PALER = 0.45  # part of white in the colour of a published series
SMALLER, RING = 0.5, 0.8  # the size of its marker: the table's lies inside the chart's where both say the same


@dataclass(frozen=True)
class Look:
    """`colour` and `fill` (of the marker; "none" = hollow) are #rrggbb; `width` and `size` in points."""

    colour: str
    fill: str
    marker: str  # "" = none
    size: float
    width: float
    line: Dashes


def framework_styles(series: list[Series]) -> dict[str, Style]:
    """{key: style} of every series of a chart that is a framework's."""
    return styles(one.key for one in series if one.kind is not Kind.PART)


def look_of_part(name: str) -> tuple[str, str]:
    """(colour, hatch)."""
    return PARTS.get(name, OTHER_PART)


def look(one: Series, style: Style, joined: bool, over_areas: bool = False) -> Look:
    """Of a framework's series: `joined` = a line goes through its points, `over_areas` = it lies on a stack."""
    pale = paler(style.colour)
    match one.kind:
        case Kind.PUBLISHED_TABLE:
            return Look(pale, pale, style.marker, style.size * SMALLER, 1.1, (0, (1, 1.6)))
        case Kind.PUBLISHED_CHART:
            return Look(pale, "none", style.marker, style.size * RING, 1.1, (0, (6, 2.5)))
        case Kind.FIT:
            return Look(style.colour, "none", "", 0, 1.2, style.line)
        case _ if over_areas:
            return Look(INK, "white", "o", 3.5, 1.0, (0, (3, 1.5)))
        case _:
            return Look(style.colour, "none", style.marker, style.size, 1.6, style.line if joined else "none")


def paler(colour: str) -> str:
    """The colour #rrggbb with PALER of white in it."""
    channels = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(channel + (255 - channel) * PALER):02X}" for channel in channels)
