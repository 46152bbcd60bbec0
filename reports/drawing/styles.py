"""Define how a series is drawn everywhere: its framework decides colour and marker, its kind the line and the shade.

Colours are from the palette by Okabe and Ito (Color Universal Design, 2008), distinct for every kind of colour vision.
Markers, dashes and hatches distinguish the same series in black and white.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..charts import SeriesKind
from ..frameworks import Style, mix_colours

BLACK, WHITE = "#000000", "#FFFFFF"  # text and paper of the page, also in its dark colours
DARK_PAPER = "#15171a"  # of page.css
LEAST_CONTRAST = 3.0  # of graphics with their paper: WCAG 2.2, 1.4.11
PARTS = {  # memory parts: colour and hatch (neighbours differ in lightness or hatch), marker and its size
    # (a part often as large as the parameters has a smaller marker, which lies inside theirs)
    "parameters": ("#0072B2", "", "s", 9.0),
    "statistics": ("#CCCCCC", "|||", "<", 6.0),
    "gradients": ("#56B4E9", "///", "v", 6.5),
    "optimizer": ("#E69F00", "", "D", 4.0),
    "dataset": (BLACK, "", "o", 6.0),
    "inputs": ("#F0E442", "---", "P", 7.0),  # dots would be a hundred times the bytes
    "activations": ("#009E73", "\\\\", "^", 7.0),
    "workspace": ("#CC79A7", "xxx", "X", 7.0),
}
OTHER_PART = ("#DDDDDD", "++", "o", 6.0)
FAINT_LINE = 0.8  # points; of a line that only shows which cells follow each other
PALE = 0.6  # opacity of a published series
SMALLER, RING = 0.5, 0.8  # size of its marker: the table's lies inside the chart's if both have the same value


@dataclass(frozen=True)
class SeriesStyle:
    """Style of a series. `colour` and `fill` (of the marker; "" = hollow) are #rrggbb, `width` and `size` in points."""

    colour: str
    fill: str
    marker: str  # "" = none; otherwise matplotlib's name
    size: float
    width: float
    line: str  # "-", "--", "-.", ":" or "" = points that are not joined
    opacity: float = 1.0
    hatch: str = ""


FRONT_LINE = SeriesStyle(BLACK, "", "", 0, 1.4, "-")


def choose_part_style(name: str) -> SeriesStyle:
    """Return the style of a part of the memory as an area."""
    colour, hatch, *_ = PARTS.get(name, OTHER_PART)
    return SeriesStyle(colour, colour, "", 0, 0.5, "-", hatch=hatch)


def choose_part_line_style(name: str) -> SeriesStyle:
    """Return the style of a part as a line: thin and black, because some colours are too pale, with filled markers."""
    colour, _, marker, size = PARTS.get(name, OTHER_PART)
    return SeriesStyle(BLACK, colour, marker, size, 0.5, "-")


def choose_series_style(
    kind: SeriesKind, framework: Style, joined: bool = True, over_parts: bool = False
) -> SeriesStyle:
    """Return the style of a framework's series: `joined` = with a line, `over_parts` = its panel also shows parts."""
    colour, marker, size = framework.colour, framework.marker, framework.size
    match kind:
        case SeriesKind.PUBLISHED_TABLE:
            return SeriesStyle(colour, colour, marker, size * SMALLER, 1.1, ":", PALE)
        case SeriesKind.PUBLISHED_CHART:
            return SeriesStyle(colour, "", marker, size * RING, 1.1, "--", PALE)
        case SeriesKind.CELL:
            return SeriesStyle(colour, "", marker, size, FAINT_LINE, framework.line)
        case SeriesKind.FRONT:
            return SeriesStyle(colour, colour, marker, size, FAINT_LINE, "")
        case SeriesKind.FIT:
            return SeriesStyle(colour, "", "", 0, 1.2, framework.line)
        case _ if over_parts:
            return SeriesStyle(BLACK, WHITE, "o", 3.5, 1.0, "--")
        case _:
            return SeriesStyle(colour, "", marker, size, 1.6, framework.line if joined else "")


def lighten_for_dark(colour: str) -> str:
    """Mix a colour with white until it can be seen on the dark page."""
    mixed = (mix_colours(colour, WHITE, step / 20) for step in range(21))
    return next(one for one in mixed if compute_contrast_ratio(one, DARK_PAPER) >= LEAST_CONTRAST)


def compute_contrast_ratio(one: str, other: str) -> float:
    """Contrast of two colours, #rrggbb, from 1 to 21, as WCAG 2.2 defines it."""
    high, low = sorted(map(_luminance, (one, other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
