"""Draw a chart for the page: SVG in the page's colours, with values on hover and points that lead to their trials."""

from __future__ import annotations

import html
import io
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..charts import Chart, Kind, Panel
from ..frameworks import Style
from . import figures, frame, panels
from .chart_words import number
from .sizes import Layout
from .styles import BLACK, WHITE
from .traces import Trace, legend, traces

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TAG = re.compile(r"<[^>]*>")  # matplotlib escapes ">" in attributes
NOT_SHOWN = re.compile(
    r"<metadata>.*?</metadata>|<style.*?</style>|<path [^>]*style=\"(?:fill: none|opacity: 0)\"/>", re.S
)
PAGE_COLOURS = {BLACK: "var(--text)", WHITE: "var(--paper)", figures.GRID: "var(--line)"}
SERIES_ID = re.compile(r"panel-\d+-series-(\d+)")
LEAST_RADIUS = 3.0  # points: what a mouse can hit


@dataclass(frozen=True)
class Drawing:
    """A chart as the page draws it.

    `id` begins the ids in its SVG. `looks` are the styles of all frameworks of the page, `switches` the numbers of
    those that a reader can switch off. `addresses` are the links of the points, by the trials behind them.
    """

    chart: Chart
    layout: Layout
    id: str
    looks: Mapping[str, Style]
    switches: Mapping[str, int]
    addresses: Mapping[tuple[str, ...], str]


def draw(drawing: Drawing) -> str:
    """Return the picture as an SVG element. Its texts use the reader's fonts, because letter shapes need many bytes."""
    chart, size = drawing.chart, drawing.layout.size
    shown = traces(chart, drawing.looks)
    text = io.StringIO()
    # Axes are black here, so that the ink of hatches is a colour of its own: it stays dark on a dark page.
    with figures.styled(size, {"svg.fonttype": "none", "axes.edgecolor": BLACK}):
        figure = figures.drawn(chart, drawing.layout, drawing.looks)
        _mark_switched(figure, drawing, shown)
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        points = _points(figure, drawing, shown)
        colours = _page_colours(shown)
    width, height = figure.get_size_inches() * 72
    picture = _tidy(text.getvalue(), drawing.id, colours)
    words = f'aria-labelledby="{drawing.id}-title" aria-describedby="{drawing.id}-alt"'
    return f'<svg viewBox="0 0 {width:g} {height:.5g}"><g role="img" {words}>{picture}</g>{points}</svg>'


def _mark_switched(figure: Figure, drawing: Drawing, shown: tuple[tuple[Trace, ...], ...]) -> None:
    """Give everything that belongs to a switch an id with the switch's number, from which `_tidy` makes `data-f`."""
    count = itertools.count()

    def mark(artists: list[object], key: str) -> None:
        for artist in artists:
            if key in drawing.switches:
                artist.set_gid(f"switch-{drawing.switches[key]}-{next(count)}")  # type: ignore[attr-defined]

    for axes, panel, of_panel in zip(figure.axes, drawing.chart.panels, shown, strict=True):
        mark([axes], panel.key)
        for line in axes.lines:
            if found := SERIES_ID.fullmatch(line.get_gid() or ""):
                mark([line], of_panel[int(found[1])].series.key)
        barred = (trace.series for trace in of_panel if trace.series.low and trace.series.kind is not Kind.PART)
        for series, bars in zip(barred, axes.containers, strict=True):
            mark(bars.get_children(), series.key)
    keys = {frame.shortened(entry.label): entry.key for entry in legend(shown)}
    for names in figure.legends:
        for handle, text in zip(names.legend_handles, names.get_texts(), strict=True):
            mark([handle, text], keys.get(text.get_text(), ""))


def _page_colours(shown: tuple[tuple[Trace, ...], ...]) -> dict[str, str]:
    """Map matplotlib's colours, #rrggbb, to the page's. A pale series is mixed with the page's paper."""
    colours = dict(PAGE_COLOURS)
    for style in (trace.style for panel in shown for trace in panel):
        for colour in filter(None, (style.colour, style.fill)):
            colours.setdefault(colour, f"var(--c{colour[1:].lower()})")
        if style.opacity < 1:
            own = f"color-mix(in srgb, {colours[style.colour]} {100 * style.opacity:g}%, var(--paper))"
            colours[panels.line_settings(style, 1.0)["color"]] = own
    return {colour.lower(): own for colour, own in colours.items()}


def _tidy(svg: str, prefix: str, colours: Mapping[str, str]) -> str:
    """Return what is inside matplotlib's svg element.

    Its ids are unique in the page, its numbers have two decimals, and nothing is left that shows nothing.
    """
    inside = NOT_SHOWN.sub("", svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")])
    used = set(re.findall(r"#(\w+)", inside))

    def mark(found: re.Match[str]) -> str:
        if switch := re.fullmatch(r"switch-(\d+)-\d+", found[1]):
            return f' data-f="{switch[1]}"'
        return f' id="{prefix}-{found[1]}"' if found[1] in used else ""

    def tag(found: re.Match[str]) -> str:
        text = re.sub(r' id="([^"]*)"', mark, found[0]).replace("xlink:href", "href")
        text = re.sub(r'(url\(#|href="#)', rf"\1{prefix}-", text)
        text = re.sub(r"#[0-9a-f]{6}\b", lambda colour: colours.get(colour[0], colour[0]), text)
        text = re.sub(r"font-family: [^;\"]*(?:; )?", "", text)
        return re.sub(r"(\.\d\d)\d+", r"\1", text)

    tidied = re.sub(r">\s+<", "><", TAG.sub(tag, inside)).strip()
    while (shorter := re.sub(r"<(g|defs)(?: data-f=\"\d+\")?></\1>|<defs/>", "", tidied)) != tidied:
        tidied = shorter
    return tidied


def _points(figure: Figure, drawing: Drawing, shown: tuple[tuple[Trace, ...], ...]) -> str:
    """Return an element over each place of each panel: its title says the values, its circles lead to the trials."""
    scale = figures.marker_scale(drawing.chart, drawing.layout.size)
    every = zip(figure.axes, drawing.chart.panels, shown, strict=True)
    parts = (_points_of_panel(axes, panel, of_panel, drawing, scale) for axes, panel, of_panel in every)
    return f'<g class="points">{"".join(parts)}</g>'


def _points_of_panel(axes: Axes, panel: Panel, of_panel: tuple[Trace, ...], drawing: Drawing, scale: float) -> str:
    points, top = 72 / axes.figure.dpi, axes.figure.get_size_inches()[1] * 72
    box = axes.bbox
    places: dict[float, list[tuple[Trace, int]]] = {}
    for trace in of_panel:
        for place, (at, y) in enumerate(zip(trace.at, _heights(trace), strict=True)):
            if trace.series.kind is not Kind.FIT and y is not None and (y > 0 or not drawing.chart.y_log):
                places.setdefault(at, []).append((trace, place))
    across = {at: float(axes.transData.transform((at, axes.get_ylim()[1]))[0]) * points for at in sorted(places)}
    middles = [(left + right) / 2 for left, right in itertools.pairwise(across.values())]
    edges = [box.x0 * points, *middles, box.x1 * points]
    parts = []
    for (at, x), (left, right) in zip(across.items(), itertools.pairwise(edges), strict=True):
        circles = []
        for trace, place in sorted(places[at], key=lambda found: -found[0].style.size):
            y = top - float(axes.transData.transform((at, _heights(trace)[place]))[1]) * points
            circles.append(_circle(trace, place, (x + trace.aside * scale, y), drawing, scale))
        rectangle = f'x="{left:.1f}" y="{top - box.y1 * points:.1f}" width="{right - left:.1f}"'
        words = html.escape("\n".join(_values(drawing.chart, places[at])))
        parts.append(
            f'<g><title>{words}</title><rect {rectangle} height="{box.height * points:.1f}"/>{"".join(circles)}</g>'
        )
    switch = drawing.switches.get(panel.key)
    return "".join(parts) if switch is None else f'<g data-f="{switch}">{"".join(parts)}</g>'


def _heights(trace: Trace) -> tuple[float | None, ...]:
    """Return where its points are on the value axis: of a stacked part at its upper edge."""
    return trace.above or trace.series.y


def _circle(trace: Trace, place: int, at: tuple[float, float], drawing: Drawing, scale: float) -> str:
    """Return a circle that leads to the trials behind the point; "" for a point without trials."""
    address = drawing.addresses.get(trace.series.trials[place]) if trace.series.trials else None
    if address is None:
        return ""
    radius = max(LEAST_RADIUS, trace.style.size * scale / 2 + 1)
    switch = drawing.switches.get(trace.series.key)
    marked = "" if switch is None else f' data-f="{switch}"'
    name = html.escape(f"{frame.plain(trace.series.label)}, {trace.series.x[place]:.10g}")
    circle = f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:.1f}"/>'
    return f'<a href="{html.escape(address)}" tabindex="-1" aria-label="{name}"{marked}>{circle}</a>'


def _values(chart: Chart, found: list[tuple[Trace, int]]) -> list[str]:
    """List what a place shows, a line each."""
    (first, place), *_ = found
    lines = [f"{chart.x_name}: {first.series.x[place]:.10g}"]
    for trace, place in found:
        series = trace.series
        low, high = (ends[place] if ends else None for ends in (series.low, series.high))
        interval = f" [{number(low)}, {number(high)}]" if low is not None and high is not None and low < high else ""
        lines.append(f"{frame.plain(series.label)}: {number(series.y[place] or 0.0)}{interval}")
    return lines
