"""Draw a chart for the page: SVG in the page's colours, with values on hover and points that lead to their trials."""

from __future__ import annotations

import html
import io
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..charts import Chart, Panel, Scale, SeriesKind
from ..frameworks import Style
from ..tables import format_number
from . import figures, frame, panels
from .sizes import Layout
from .styles import BLACK, WHITE
from .traces import Trace, build_traces, list_legend

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TAG = re.compile(r"<[^>]*>")  # matplotlib escapes ">" in attributes
NOT_SHOWN = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>", re.S)
PAGE_COLOURS = {BLACK: "var(--text)", WHITE: "var(--paper)", figures.GRID: "var(--line)"}
SERIES_ID = re.compile(r"panel-\d+-(?:series|name)-(\d+)(?:-\d+)?")
LEAST_RADIUS = 3.0  # points: what a mouse can hit


@dataclass(frozen=True)
class Drawing:
    """A chart as the page draws it.

    `id` is its figure's in the page, `prefix` begins the ids in its SVG. `looks` are the styles of all frameworks of
    the page, `switches` the numbers of those that a reader can switch off. `addresses` are the links of the points, by
    the trials behind them.
    """

    chart: Chart
    layout: Layout
    id: str
    prefix: str
    looks: Mapping[str, Style]
    switches: Mapping[str, int]
    addresses: Mapping[tuple[str, ...], str]


def draw(drawing: Drawing) -> str:
    """Return the picture as an SVG element. Its texts use the reader's fonts, because letter shapes need many bytes."""
    chart, size = drawing.chart, drawing.layout.size
    shown = build_traces(chart, drawing.looks)
    text = io.StringIO()
    # Axes are black here, so that the ink of hatches is a colour of its own: it stays dark on a dark page.
    with figures.apply_style(size, {"svg.fonttype": "none", "axes.edgecolor": BLACK}):
        figure = figures.draw_figure(chart, drawing.layout, drawing.looks)
        _mark_switched(figure, drawing, shown)
        for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
            patch.set_visible(False)
        figure.savefig(text, format="svg", metadata={"Date": None})
        points = _points(figure, drawing, shown)
        colours = _page_colours(shown)
    width, height = figure.get_size_inches() * 72
    picture = _tidy(text.getvalue(), drawing.prefix, colours)
    words = f'aria-labelledby="{drawing.id}-title" aria-describedby="{drawing.id}-alt"'
    return f'<svg role="group" viewBox="0 0 {width:g} {height:.5g}"><g role="img" {words}>{picture}</g>{points}</svg>'


def _mark_switched(figure: Figure, drawing: Drawing, shown: tuple[tuple[Trace, ...], ...]) -> None:
    """Give everything that belongs to a switch an id with the switch's number, from which `_tidy` makes `data-f`."""
    count = itertools.count()

    def mark(artists: Iterable[Artist], key: str) -> None:
        for artist in artists:
            if key in drawing.switches:
                artist.set_gid(f"switch-{drawing.switches[key]}-{next(count)}")

    for axes, panel, of_panel in zip(figure.axes, drawing.chart.panels, shown, strict=True):
        mark([axes], panel.key)
        for part in (*axes.lines, *axes.texts):
            if found := SERIES_ID.fullmatch(part.get_gid() or ""):
                mark([part], of_panel[int(found[1])].series.key)
        barred = (trace.series for trace in of_panel if trace.series.low and trace.series.kind is not SeriesKind.PART)
        for series, bars in zip(barred, axes.containers, strict=True):
            mark(bars.get_children(), series.key)
    keys = {frame.shorten(entry.label): entry.key for entry in list_legend(shown)}
    for names in figure.legends:
        for handle, text in zip(names.legend_handles, names.get_texts(), strict=True):
            mark([part for part in (handle, text) if part], keys.get(text.get_text(), ""))


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
    """Return what is inside matplotlib's svg element, in a third of the bytes: what shows nothing is left out.

    Its ids begin with `prefix`, its numbers have two decimals, and markers have their style once.
    """
    inside = NOT_SHOWN.sub("", svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")])
    used = list(dict.fromkeys(re.findall(r"(?:url\(|href=\")#(\w+)", inside)))
    of_marker: dict[str, set[str]] = {}
    for name, style in re.findall(r'<use xlink:href="#(\w+)"[^>]*style="([^"]*)"', inside):
        of_marker.setdefault(name, set()).add(style)
    once = {name: next(iter(found)) for name, found in of_marker.items() if len(found) == 1}
    groups: list[bool] = []  # whether each open one has an attribute, and stays

    def mark(found: re.Match[str]) -> str:
        if switch := re.fullmatch(r"switch-(\d+)-\d+", found[1]):
            return f' data-f="{switch[1]}"'
        return f' id="{prefix}-{used.index(found[1])}"' if found[1] in used else ""

    def refer(found: re.Match[str]) -> str:
        return f"{found[1]}#{prefix}-{used.index(found[2])}"

    def tag(found: re.Match[str]) -> str:
        text = found[0]
        if text == "</g>":
            return text * groups.pop()
        name = re.search(r'(?:href="#| id=")(\w+)"', text)
        if name and name[1] in once:
            style = f' style="{once[name[1]]}"' * text.startswith("<path")
            text = re.sub(r' style="[^"]*"', "", text).replace("/>", f"{style}/>")
        text = re.sub(r' id="([^"]*)"', mark, text).replace("xlink:href", "href")
        text = re.sub(r'(url\(|href=")#(\w+)', refer, text)
        if text.startswith("<g"):
            groups.append(text != "<g>")
        return _short(text, colours) * (text != "<g>")

    tidied = re.sub(r">\s+<", "><", TAG.sub(tag, re.sub(r"<(?:g|defs)[^>]*/>", "", inside))).strip()
    while (shorter := re.sub(r"<(g|defs)(?: [^>]*)?></\1>", "", tidied)) != tidied:
        tidied = shorter
    return tidied


def _short(tag: str, colours: Mapping[str, str]) -> str:
    """Give a tag the page's colours and fonts, and fewer bytes."""
    tag = re.sub(r"#[0-9a-f]{6}\b", lambda colour: colours.get(colour[0], colour[0]), tag)
    tag = re.sub(r"font-family: [^;\"]*(?:; )?", "", tag)
    tag = re.sub(r' transform="rotate\(-0 [^"]*"', "", tag)
    tag = re.sub(r"\.(\d\d?)\d*", lambda found: f".{found[1]}".rstrip("0").removesuffix("."), tag)
    return re.sub(r"(?<=[:;]) | ?\n|(?<=[MLCQ]) ", "", tag)


def _points(figure: Figure, drawing: Drawing, shown: tuple[tuple[Trace, ...], ...]) -> str:
    """Return an element over each place of each panel: its title says the values, its circles lead to the trials.

    Where x is a quantity, each point is a place of its own.
    """
    scale = figures.compute_marker_scale(drawing.chart, drawing.layout.size)
    every = zip(figure.axes, drawing.chart.panels, shown, strict=True)
    if drawing.chart.x_scale is Scale.QUANTITY:
        parts = (_single_points(axes, of_panel, drawing, scale) for axes, _, of_panel in every)
    else:
        parts = (_points_of_panel(axes, panel, of_panel, drawing, scale) for axes, panel, of_panel in every)
    return f'<g class="points">{"".join(parts)}</g>'


def _points_of_panel(axes: Axes, panel: Panel, of_panel: tuple[Trace, ...], drawing: Drawing, scale: float) -> str:
    points, box = 72 / axes.figure.dpi, axes.bbox
    top = float(axes.figure.bbox.height) * points
    places: dict[float, list[tuple[Trace, int]]] = {}
    for trace in of_panel:
        for place, (at, y) in enumerate(zip(trace.at, _heights(trace), strict=True)):
            if trace.series.kind is not SeriesKind.FIT and y is not None and (y > 0 or not drawing.chart.y_log):
                places.setdefault(at, []).append((trace, place))
    if not places:  # no trial of this panel gave a value
        return ""
    across = {at: float(axes.transData.transform((at, axes.get_ylim()[1]))[0]) * points for at in sorted(places)}
    middles = [(left + right) / 2 for left, right in itertools.pairwise(across.values())]
    edges = [box.x0 * points, *middles, box.x1 * points]
    parts = []
    for (at, x), (left, right) in zip(across.items(), itertools.pairwise(edges), strict=True):
        size = f'width="{right - left:.1f}" height="{box.height * points:.1f}"'
        rectangle = f'<rect x="{left:.1f}" y="{top - box.y1 * points:.1f}" {size}/>'
        if panel.key:  # all of a place is of the same trials
            rectangle = _link(*places[at][0], drawing, rectangle)
        parts.append(f"<g><title>{html.escape(_values(drawing.chart, places[at]))}</title>{rectangle}")
        for trace, place in () if panel.key else sorted(places[at], key=lambda found: -found[0].style.size):
            y = top - float(axes.transData.transform((at, _heights(trace)[place] or 0.0))[1]) * points
            parts.append(_circle(trace, place, (x + trace.aside * scale, y), drawing, scale))
        parts.append("</g>")
    switch = drawing.switches.get(panel.key)
    return "".join(parts) if switch is None else f'<g data-f="{switch}">{"".join(parts)}</g>'


def _single_points(axes: Axes, of_panel: tuple[Trace, ...], drawing: Drawing, scale: float) -> str:
    """Return an element over each cell, the largest markers below: they surround the others."""
    points, chart = 72 / axes.figure.dpi, drawing.chart
    top = float(axes.figure.bbox.height) * points
    cells = [(trace, place) for trace in of_panel if trace.series.kind is SeriesKind.CELL
             for place in range(len(trace.at))]  # fmt: skip
    front = {(trace.series.key, name) for trace in of_panel if trace.series.kind is SeriesKind.FRONT
             for name in trace.series.names}  # fmt: skip
    parts = []
    for trace, place in sorted(cells, key=lambda found: -found[0].style.size):
        series = trace.series
        x, y = (float(end) * points for end in axes.transData.transform((trace.at[place], series.y[place] or 0.0)))
        lines = [f"{frame.replace_unprintable(series.label)}, batch size {series.names[place]}"]
        lines += [f"{name}: {format_number(value or 0.0)}" for name, value in
                  ((chart.x_name, series.x[place]), (chart.y_label, series.y[place]))]  # fmt: skip
        lines += ["on the Pareto front"] if (series.key, series.names[place]) in front else []
        circle = _circle(trace, place, (x, top - y), drawing, scale)
        parts.append(f"<g><title>{html.escape(chr(10).join(lines))}</title>{circle}</g>")
    return "".join(parts)


def _heights(trace: Trace) -> tuple[float | None, ...]:
    """Return where its points are on the value axis: of a stacked part at its upper edge."""
    return trace.above or trace.series.y


def _circle(trace: Trace, place: int, at: tuple[float, float], drawing: Drawing, scale: float) -> str:
    """Return a circle over the point that leads to its trials."""
    radius = max(LEAST_RADIUS, trace.style.size * scale / 2 + 1)
    return _link(trace, place, drawing, f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:.1f}"/>')


def _link(trace: Trace, place: int, drawing: Drawing, shape: str) -> str:
    """Make the shape lead to the trials behind the point, if there are any."""
    address = drawing.addresses.get(trace.series.trials[place]) if trace.series.trials else None
    if address is None:
        return shape
    switch = drawing.switches.get(trace.series.key)
    marked = "" if switch is None else f' data-f="{switch}"'
    at = trace.series.names[place] if trace.series.names else f"{trace.series.x[place]:.10g}"
    name = html.escape(f"{frame.replace_unprintable(trace.series.label)}, {at}")
    return f'<a href="{html.escape(address)}" tabindex="-1" aria-label="{name}"{marked}>{shape}</a>'


def _values(chart: Chart, found: list[tuple[Trace, int]]) -> str:
    """List what a place shows, a line each."""
    (first, place), *_ = found
    lines = [f"{chart.x_name}: {first.series.x[place]:.10g}"]
    for trace, place in found:
        series = trace.series
        low, high = (ends[place] if ends else None for ends in (series.low, series.high))
        interval = (
            f" [{format_number(low)}, {format_number(high)}]"
            if low is not None and high is not None and low < high
            else ""
        )
        lines.append(f"{frame.replace_unprintable(series.label)}: {format_number(series.y[place] or 0.0)}{interval}")
    return "\n".join(lines)
