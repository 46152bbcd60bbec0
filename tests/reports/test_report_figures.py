"""Drawing of a chart for print: the positions in the picture, and that nothing overlaps."""

from __future__ import annotations

import itertools
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from each import for_each
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image
from stored import BATCH_SIZES as SIZES
from stored import chart, charts, line, on_gpu, store, study, trial

from reports.charts import Chart, Scale, SeriesKind
from reports.drawing import figures
from reports.drawing.sizes import COLUMN, PAGE, SLIDE, USUAL, Layout, Size
from reports.drawing.sizes import SIZES as FIGURE_SIZES

NAMES = ("TensorFlow", "PyTorch", "MXNet")
MANY = (*NAMES, "a framework with a name longer than any legend has room for", "jax", "numpy", "paddle")


def three(x: tuple[float, ...] = SIZES, top: float = 4000.0, names: tuple[str, ...] = NAMES, **more: Any) -> Chart:
    """A chart with a line per framework, one below the other."""
    lines = [
        line(name, x, [top * (place + 1) / len(x) / (rank + 1) for place in range(len(x))])
        for rank, name in enumerate(names)
    ]
    return chart(lines, **more)


def stacked(x: tuple[float, ...], *parts: tuple[float | None, ...]) -> Chart:
    named = zip(("parameters", "inputs", "activations"), parts, strict=False)
    return chart([line(name, x, y, kind=SeriesKind.PART) for name, y in named])


def drawn(one: Chart, layout: Layout = USUAL) -> Figure:
    with figures.apply_style(layout.size):
        return figures.draw_figure(one, layout)


def stretches(svg: Path, series: int, panel: int = 0) -> list[list[tuple[float, float]]]:
    """The unbroken stretches of a line, each as its (x, y) in points, y downwards."""
    found = re.search(rf'<g id="panel-{panel}-series-{series}">\s*<path d="([^"]+)"', svg.read_text(encoding="utf-8"))
    assert found is not None
    parts = [part for part in re.split(r"(?=M )", found[1]) if part.strip()]
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", part)] for part in parts]


def test_a_chart_is_a_sharp_png_and_an_svg_that_say_what_they_show(tmp_path: Path) -> None:
    paths = figures.draw(three(), tmp_path / "speed")
    assert paths == [tmp_path / f"speed.{ending}" for ending in ("png", "svg", "pdf")]
    png = paths[0].read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    assert width == 7 * 200
    assert height >= 4 * 200
    with Image.open(paths[0]) as picture:
        seen: set[Any] = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20) or []}
        assert picture.info["Description"] == "What is to be seen."
    assert {(255, 255, 255), (0, 0, 0)} <= seen
    for red, green, blue in ((0xD5, 0x5E, 0x00), (0x00, 0x72, 0xB2), (0x00, 0x9E, 0x73)):
        assert any(abs(r - red) < 5 and abs(g - green) < 5 and abs(b - blue) < 5 for r, g, b in seen)
    svg = ElementTree.fromstring(paths[1].read_text(encoding="utf-8"))
    told = " ".join(text.strip() for text in svg.itertext())
    assert "What is to be seen." in told and "Training speed, images/s" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    "theirs",
    ["font.size: 30\naxes.facecolor: black\nlines.linewidth: 9", "text.usetex: True", "font.family: STIXGeneral"],
)
def test_no_matplotlibrc_of_the_caller_decides_how_a_chart_looks(theirs: str, tmp_path: Path) -> None:
    usual = figures.draw(three(), tmp_path / "usual")
    (tmp_path / "matplotlibrc").write_text(theirs)
    with rc_context(fname=tmp_path / "matplotlibrc"):  # as matplotlib reads the one of the working folder
        there = figures.draw(three(), tmp_path / "there")
    assert len(there) == 3 and [path.read_bytes() for path in there] == [path.read_bytes() for path in usual]


@pytest.mark.slow
def test_no_backend_of_a_notebook_or_shell_ends_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # of a notebook's cell
    command = [sys.executable, "-m", "reports", str(store(tmp_path, trial())), "--format", "png"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "report" / "speed.png").exists(), done.stderr


def test_only_the_formats_asked_for_are_drawn_and_a_pdf_has_truetype_fonts_and_no_date(tmp_path: Path) -> None:
    assert figures.draw(three(), tmp_path / "a", ("md", "svg", "csv")) == [tmp_path / "a.svg"]
    assert figures.draw(three(), tmp_path / "b", ("md",)) == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
    (path,) = figures.draw(three(), tmp_path / "speed", ("pdf",))
    pdf = path.read_bytes()
    assert pdf.startswith(b"%PDF") and b"/FontFile2" in pdf and b"/Type3" not in pdf
    assert b"CreationDate" not in pdf and b"ModDate" not in pdf
    assert b"What is to be seen." in pdf


def test_nothing_is_imported_for_drawing_before_a_chart_is_drawn() -> None:
    asked = "import sys; from reports.drawing import section_charts, figures; print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.slow
def test_the_same_chart_gives_the_same_files(tmp_path: Path) -> None:
    both = chart(three().panels[0].series, stacked(SIZES, (1.0,) * 9, (2.0,) * 9).panels[0].series)
    first, second = ([path.read_bytes() for path in figures.draw(both, tmp_path / name)] for name in ("a", "b"))
    assert first == second


def test_a_missing_value_is_a_gap_and_not_nought(tmp_path: Path) -> None:
    shown = chart([line("MXNet", SIZES, [9, 9, 9, None, 9, 9, 9, 9, None]), line("PyTorch", SIZES, [3] * 9)])
    (svg,) = figures.draw(shown, tmp_path / "a", ("svg",))
    assert [len(part) for part in stretches(svg, 0)] == [3, 4]
    assert [len(part) for part in stretches(svg, 1)] == [9]
    assert all(y < stretches(svg, 1)[0][0][1] for part in stretches(svg, 0) for _, y in part)


def test_batch_sizes_are_evenly_spaced_on_the_logarithmic_axis_and_epochs_on_a_linear_one(tmp_path: Path) -> None:
    for shown in (three(), three((1, 2, 3, 4), x_scale=Scale.LINEAR)):
        (svg,) = figures.draw(shown, tmp_path / "a", ("svg",))
        xs = [x for x, _ in stretches(svg, 1)[0]]
        steps = [right - left for left, right in itertools.pairwise(xs)]
        assert steps == pytest.approx([steps[0]] * len(steps), abs=0.01)


def test_bars_reach_from_low_to_high_and_a_point_without_an_interval_has_none() -> None:
    shown = line("PyTorch", (4, 8), (10.0, 5.0), low=(8.0, 5.5), high=(11.0, 6.0))
    (bars,) = drawn(chart([shown])).axes[0].collections
    assert isinstance(bars, LineCollection)
    ends = [tuple(float(y) for _, y in segment) for segment in bars.get_segments()]
    assert ends == [pytest.approx((8, 11)), pytest.approx((5.5, 6))]
    shown = line("PyTorch", (4, 8), (10.0, 5.0), low=(None, 5.5), high=(None, 6.0))
    (bars,) = drawn(chart([shown])).axes[0].collections
    assert isinstance(bars, LineCollection)
    assert [len(segment) for segment in bars.get_segments()] == [0, 2]
    (axes,) = drawn(three((4, 8))).axes
    assert len({tuple(one.get_transform().transform(one.get_xydata())[0][:1]) for one in axes.lines}) == 1


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("names", [NAMES, MANY])
def test_bars_of_one_batch_size_stand_side_by_side_within_the_width_of_a_point(
    names: tuple[str, ...], scale: Scale
) -> None:
    barred = [line(name, (4, 8), (10.0, 5.0), low=(8.0, 4.0), high=(11.0, 6.0)) for name in names]
    (axes,) = drawn(chart(barred, x_scale=scale)).axes
    points = [one for one in axes.lines if one.get_linestyle() != "None"]
    places = [float(one.get_transform().transform(one.get_xydata())[0][0]) for one in points]
    assert len(set(places)) == len(names)
    narrowest = min(one.get_markersize() for one in points) / 72 * axes.figure.dpi
    assert max(places) - min(places) == pytest.approx(narrowest)
    bars = [one for one in axes.collections if isinstance(one, LineCollection)]
    assert [float(bar.get_transform().transform(bar.get_segments()[0])[0][0]) for bar in bars] == pytest.approx(places)


@pytest.mark.parametrize("sizes", [(127, 128, 129), tuple(range(509, 516)), (100, 127, 128, 129, 156)])
def test_neighbouring_batch_sizes_have_one_place_each_and_every_place_its_label(
    sizes: tuple[float, ...], tmp_path: Path
) -> None:
    shown = three(sizes, x_scale=Scale.ORDINAL)
    figure = drawn(shown)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == [f"{size:g}" for size in sizes]
    assert "Batch size (evenly spaced)" in [text.get_text() for text in figure.texts]
    (svg,) = figures.draw(shown, tmp_path / "a", ("svg",))
    xs = [x for x, _ in stretches(svg, 1)[0]]
    assert [right - left for left, right in itertools.pairwise(xs)] == pytest.approx([xs[1] - xs[0]] * (len(xs) - 1))


def accuracies(*values: float, **more: Any) -> Chart:
    settings: dict[str, Any] = {"y_label": "Test accuracy, %", "full_scale": 100.0, "from_zero": False} | more
    return chart([line("PyTorch", (4, 8), values[:2]), line("MXNet", (4, 8), values[2:])], **settings)


def test_an_axis_that_need_not_start_at_nought_has_the_range_of_the_data_in_every_panel_and_says_so() -> None:
    axes = drawn(accuracies(90.0, 98.0, 92.0, 95.0)).axes[0]
    low, high = axes.get_ylim()
    assert 89 < low < 90 and 98 < high < 99
    assert axes.get_ylabel() == "Test accuracy, %\n(axis does not start at 0)"
    assert len(axes.lines) == 4, "two series, and the zigzag on its gap"
    panels = [accuracies(90.0, 98.0, 92.0, 95.0).panels[0].series] * 3
    figure = drawn(chart(*panels, titles=NAMES, from_zero=False))
    assert [len(axes.lines) for axes in figure.axes] == [4, 4, 4]
    low, high = drawn(chart([line("PyTorch", (4,), (95.0,))], from_zero=False)).axes[0].get_ylim()
    assert (low, high) == pytest.approx((94.05, 95.95))


@pytest.mark.parametrize("size", FIGURE_SIZES.values(), ids=list(FIGURE_SIZES))
@pytest.mark.parametrize(
    "label", ["Test accuracy, %", "Energy an image of the package, J", "Peak resident in the window"]
)
def test_the_name_of_the_value_axis_is_whole_and_no_higher_than_its_panel(label: str, size: Size) -> None:
    panels = [accuracies(90.0, 98.0, 92.0, 95.0).panels[0].series] * 5
    shown = chart(*panels, titles=MANY[:5], from_zero=False, y_label=label)
    named = [axes for axes in drawn(shown, Layout(size)).axes if axes.get_ylabel()]
    assert named
    for axes in named:
        assert " ".join(axes.get_ylabel().split()) == f"{label} (axis does not start at 0)"
        assert axes.yaxis.label.get_window_extent().height <= axes.get_window_extent().height


@pytest.mark.parametrize("values", [(10.0, 98.0, 92.0, 95.0), (19.0, 98.0, 92.0, 95.0)])
def test_an_axis_starts_at_nought_where_the_data_use_four_fifths_of_it(values: tuple[float, ...]) -> None:
    axes = drawn(accuracies(*values)).axes[0]
    assert axes.get_ylim() == (0, 100)
    assert axes.get_ylabel() == "Test accuracy, %" and len(axes.lines) == 2


def test_an_axis_starts_at_nought_or_below_and_a_long_bar_does_not_press_the_points_down() -> None:
    # other axes start at nought however little of them the data use
    assert drawn(accuracies(90.0, 98.0, 92.0, 95.0, from_zero=True)).axes[0].get_ylim() == (0, 100)
    # a long bar does not press the points down
    shown = line("PyTorch", (4, 8), (10.0, 5.0), low=(-900.0, 4.0), high=(1000.0, 6.0))
    bottom, top = drawn(chart([shown])).axes[0].get_ylim()
    assert (bottom, 10 < top < 20) == (0, True)
    # a value below nought is shown
    assert drawn(chart([line("PyTorch", (4, 8), (-5.0, 10.0))])).axes[0].get_ylim()[0] < -5
    # an axis of epochs has whole numbers even for one
    axes = drawn(chart([line("MXNet", (1,), (0.5,))], x_scale=Scale.LINEAR)).axes[0]
    assert [tick for tick in axes.get_xticks() if 0.5 <= tick <= 1.5] == [1]


def test_bars_and_published_series_lie_in_the_range_and_it_ends_at_the_full_scale() -> None:
    measured = line("PyTorch", (4, 8), (97.0, 98.0), low=(80.0, 97.0), high=(130.0, 99.0))
    published = line("PyTorch, published table", (4, 8), (60.0, 70.0), "pytorch", SeriesKind.PUBLISHED_TABLE)
    for series, lowest in (([measured], 80.0), ([measured, published], 60.0)):
        low, high = drawn(chart(series, full_scale=100.0, from_zero=False)).axes[0].get_ylim()
        assert lowest - 5 < low < lowest and high == 100
    higher = line("PyTorch", (4, 8), (97.0, 101.0))
    assert 101 < drawn(chart([higher], full_scale=100.0, from_zero=False)).axes[0].get_ylim()[1] < 103


@pytest.mark.parametrize(("highest", "top"), [(40.0, 100.0), (100.0, 100.0), (130.0, 137.8)])
def test_a_share_is_shown_against_the_whole_and_one_above_it_is_not_cut_off(highest: float, top: float) -> None:
    ends = drawn(chart([line("PyTorch", (4, 8), (highest, 10.0))], full_scale=100.0)).axes[0].get_ylim()
    assert ends == pytest.approx((0, top))


def test_a_logarithmic_value_axis_has_numbers_that_can_be_read() -> None:
    axes = drawn(three(top=700.0, y_log=True)).axes[0]
    assert axes.get_yscale() == "log"
    low, high = axes.get_ylim()
    numbers = [tick.label1.get_text() for tick in axes.yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    assert numbers == ["20", "50", "100", "200", "500"]
    assert axes.get_ylabel() == "Speed, images/s (logarithmic)"


def test_numbers_of_many_decades_do_not_lie_upon_each_other() -> None:
    wide = chart([line("PyTorch", SIZES, [10.0 ** (place - 3) for place in range(len(SIZES))])] * 1, y_log=True)
    for layout in map(Layout, FIGURE_SIZES.values()):
        axes = drawn(wide, layout).axes[0]
        low, high = axes.get_ylim()
        ticks = [tick for tick in axes.yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
        boxes = sorted((tick.label1.get_window_extent() for tick in ticks), key=lambda box: float(box.y0))
        assert len(boxes) >= 3
        assert all(below.y1 <= above.y0 for below, above in itertools.pairwise(boxes)), layout


def test_the_published_lies_behind_and_is_paler_with_the_marker_of_its_framework() -> None:
    kinds = (SeriesKind.MEASURED, SeriesKind.PUBLISHED_TABLE, SeriesKind.PUBLISHED_CHART)
    ours, table, theirs = (
        drawn(chart([line(f"TensorFlow {kind}", (4, 8), (1, 2), "tensorflow", kind) for kind in kinds])).axes[0].lines
    )
    assert table.get_zorder() < ours.get_zorder() and theirs.get_zorder() < ours.get_zorder()
    assert {one.get_marker() for one in (ours, table, theirs)} == {"o"}
    colours = [one.get_color() for one in (ours, table, theirs)]
    assert colours == ["#d55e00", "#e69e66", "#e69e66"], "six tenths of it, and four of the paper"
    assert len({(one.get_linestyle(), one.get_markerfacecolor()) for one in (ours, table, theirs)}) == 3


def test_a_fitted_line_goes_through_points_that_no_other_joins_and_so_it_does_in_the_legend() -> None:
    points = line("MXNet", (4, 8), (1, 2), "mxnet")
    alone, fit = (
        drawn(chart([points, line("MXNet, fitted", (0, 8), (0.5, 2), "mxnet", SeriesKind.FIT)], x_scale=Scale.LINEAR))
        .axes[0]
        .lines
    )
    assert (alone.get_linestyle(), alone.get_marker()) == ("None", "^")
    assert fit.get_marker() in ("", "None")
    assert drawn(chart([points])).axes[0].lines[0].get_linestyle() == "-."
    shown = [line("MXNet", (4, 8), (1, 2), "mxnet"), line("MXNet, fitted", (0, 8), (0.5, 2), "mxnet", SeriesKind.FIT)]
    (legend,) = drawn(chart(shown, x_scale=Scale.LINEAR)).legends
    assert [text.get_text() for text in legend.get_texts()] == ["MXNet"]
    (handle,) = legend.legend_handles
    assert isinstance(handle, Line2D)
    assert (handle.get_linestyle(), handle.get_marker()) == ("-.", "^")


def test_a_stack_reaches_the_sum_of_its_parts_and_without_neighbours_is_a_bar() -> None:
    axes = drawn(stacked((4, 8, 16), (1, 2, 3), (1, 1, 1), (2, 4, 8))).axes[0]
    tops = [max(y for _, y in np.asarray(area.get_paths()[0].vertices)) for area in axes.collections]
    assert tops == [3, 4, 12]
    assert axes.get_ylim()[1] > 12
    axes = drawn(stacked((4, 8, 16, 32), (1, None, 3, 3), (1, None, 1, 1))).axes[0]
    spans = [
        (min(x for x, _ in np.asarray(path.vertices)), max(x for x, _ in np.asarray(path.vertices)))
        for area in axes.collections
        for path in area.get_paths()
    ]
    bars = [(left, right) for left, right in spans if right < 8]
    assert len(bars) == 2 and all(left < 4 < right for left, right in bars)
    assert [(left, right) for left, right in spans if right >= 8] == [(16, 32), (16, 32)]


def test_the_legend_has_every_label_once_and_kinds_of_a_framework_below_each_other() -> None:
    found = charts(*(on_gpu(result) for result in study()))["usage"]
    (legend,) = drawn(found).legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [
        *("TensorFlow", "TensorFlow, published table", "TensorFlow, published chart"),
        *("PyTorch", "PyTorch, published table", ""),
        *("MXNet", "MXNet, published table", ""),
    ]
    named = (("PyTorch", SeriesKind.MEASURED), ("TensorFlow, published table", SeriesKind.PUBLISHED_TABLE))
    figure = drawn(chart([line(name, (4,), (1,), kind=kind) for name, kind in named]))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    first, second = (text.get_window_extent() for text in legend.get_texts())
    assert [text.get_text() for text in legend.get_texts()] == [name for name, _ in named]
    assert second.x0 > first.x1 and second.y0 == first.y0


LONG = "what was measured, on which machine, with which versions and settings, when and by which commit; " * 9
CROWDS = {
    "usual": three(caption=LONG),
    "one batch size": three((64,), caption=LONG),
    "forty batch sizes": three(tuple(range(1, 41)), title=LONG[:300]),
    "forty places": three(tuple(range(100, 140)), x_scale=Scale.ORDINAL),
    "a long label of an axis that is cut": three(
        (4, 8), 95.0, NAMES[:2], y_label="Quantity with a rather long name, %", from_zero=False
    ),
    "wide batch sizes": three(tuple(2**power for power in range(24)), caption=LONG),
    "large values": three(top=1_234_567.0, y_label="A quantity with a rather long name, images/s"),
    "small values": three(top=0.00123),
    "many frameworks": three(names=MANY, caption=LONG),
    "three panels": chart(*[three(SIZES).panels[0].series] * 3, titles=NAMES, caption=LONG),
    "seven panels": chart(*[three(SIZES, names=MANY).panels[0].series] * 7, titles=MANY, caption=LONG),
    "eight panels of epochs": chart(
        *[three(tuple(range(1, 31)), 2.3).panels[0].series] * 8,
        titles=["Training, batch 1024"] * 8,
        x_scale=Scale.LINEAR,
    ),
}


LAYOUTS = {name: Layout(size) for name, size in FIGURE_SIZES.items()} | {"bare column": Layout(COLUMN, bare=True)}


@pytest.mark.slow
@pytest.mark.parametrize("name", CROWDS)
@for_each("layout", LAYOUTS.values())
def test_no_text_leaves_the_picture_or_lies_upon_another(name: str, layout: Layout) -> None:
    figure = drawn(CROWDS[name], layout)
    canvas: Any = FigureCanvasAgg(figure)  # matplotlib leaves its methods without types
    with figures.apply_style(layout.size):
        canvas.draw()
    inside = figure.bbox
    texts = [*figure.texts, *figure.legends[0].get_texts()]
    axes: Any  # its title on the left is private
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = axis.get_view_interval()
            texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        texts += [axes.yaxis.label, axes._left_title]
    boxes = [(text.get_text(), _last_lines(text)) for text in texts if text.get_visible() and text.get_text().strip()]
    shown = [(told, box) for told, box in boxes if told]
    for told, box in shown:
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= inside.x1 + 1 and box.y1 <= inside.y1 + 1, told
    for (one, a), (other, b) in itertools.combinations(shown, 2):
        overlap = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert min(overlap) <= 1, (one, other)
    for axes in figure.axes:
        assert figure.legends[0].get_window_extent().y0 >= axes.bbox.y1
        for told, box in shown:
            away = box.y0 >= axes.bbox.y1 - 1 or box.y1 <= axes.bbox.y0 + 1 or box.x1 <= axes.bbox.x0 + 1
            assert away or box.x0 >= axes.bbox.x1 - 1, (told, "lies in the axes")


def _last_lines(text: Any) -> Any:
    """Extent of the text without the empty lines above it."""
    box, lines = text.get_window_extent(), text.get_text().split("\n")
    empty = next((number for number, told in enumerate(lines) if told), 0)
    return Bbox([(box.x0, box.y0), (box.x1, box.y1 - box.height * empty / len(lines))])


def test_odd_names_are_drawn_as_they_are_and_leave_a_file_that_can_be_read(tmp_path: Path) -> None:
    odd = "фото $a$ <b>|$x & -- --> \x00\x1b \ud800"
    shown = chart([line(odd, (4, 8), (1.0, 2.0), odd)], title=odd, caption=odd, alt=odd, titles=[odd], y_label=odd)
    png, svg, _ = figures.draw(shown, tmp_path / "odd")
    assert png.stat().st_size > 5_000
    told = "".join(ElementTree.fromstring(svg.read_text(encoding="utf-8")).itertext())
    assert "фото $a$ <b>|$x & -- --> \N{REPLACEMENT CHARACTER}" in told


@pytest.mark.parametrize(
    ("sizes", "panels", "labels"),
    [
        ([4, 8, 1024], 1, ["4", "8", "1024"]),
        ([4, 96, 100, 1024], 1, ["4", "96", "\n100", "1024"]),
        ([4, 100, 101, 102, 103, 1024], 1, ["4", "100", "\n101", "\n\n102", "1024"]),
        ([64], 1, ["64"]),
        (list(SIZES), 3, ["4", "8", "16", "32", "64", "128", "\n256", "512", "\n1024"]),
        ([64], 3, ["64"]),
    ],
)
def test_labels_of_close_batch_sizes_do_not_overlap_and_what_has_no_room_has_no_tick(
    sizes: list[float], panels: int, labels: list[str]
) -> None:
    several = chart(*[three(tuple(sizes)).panels[0].series] * panels)
    assert [label.get_text() for label in drawn(several).axes[0].get_xticklabels()] == labels


@for_each("panels, columns", [(1, 1), (2, 2), (3, 3), (4, 4), (5, 3), (6, 3), (7, 4), (8, 4), (9, 3), (10, 4), (13, 4)])
def test_panels_stand_in_rows_as_full_as_can_be(panels: int, columns: int) -> None:
    assert figures.count_columns(panels, 4) == columns


@pytest.mark.parametrize(("size", "smallest", "largest"), [(COLUMN, 7, 9), (PAGE, 7, 10), (SLIDE, 11, 22)])
def test_type_is_that_of_print_at_each_size(size: Size, smallest: float, largest: float) -> None:
    figure = drawn(CROWDS["three panels"], Layout(size))
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()]
    assert min(text.get_fontsize() for text in texts) == smallest
    assert max(text.get_fontsize() for text in texts) == largest
    assert figure.get_figwidth() == size.width


def test_many_panels_wrap_in_a_column() -> None:
    axes = drawn(CROWDS["seven panels"], Layout(COLUMN)).axes
    assert [len({round(getattr(one.get_position(), side), 3) for one in axes}) for side in ("x0", "y0")] == [2, 4]


@pytest.mark.parametrize("name", CROWDS)
def test_a_slide_is_16_to_9_whatever_it_shows(name: str) -> None:
    width, height = drawn(CROWDS[name], Layout(SLIDE)).get_size_inches()
    assert width / height == pytest.approx(16 / 9)
    assert width >= SLIDE.width


def test_a_bare_figure_keeps_legend_and_axes_but_has_no_words_of_ours_around_them() -> None:
    usual, bare = (drawn(three(caption=LONG), Layout(COLUMN, bare)) for bare in (False, True))
    assert [text.get_text() for text in bare.texts] == ["Batch size (logarithmic)"]
    assert "Training speed, images/s" in [text.get_text() for text in usual.texts]
    assert bare.axes[0].get_ylabel() == usual.axes[0].get_ylabel() == "Speed, images/s"
    assert [text.get_text() for text in bare.legends[0].get_texts()] == list(NAMES)
    assert bare.get_figheight() < usual.get_figheight()
