"""The trade-off: speed against memory and accuracy, a point per framework and batch size, and the Pareto front."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from each import for_each
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from stored import charts, ended, on_gpu, study, trial

from reports.charts import Chart, ChartSeries, SeriesKind
from reports.drawing import figures, inline
from reports.drawing.sizes import COLUMN, SLIDE, Layout
from reports.frameworks import choose_styles
from reports.pareto import find_front
from reports.web.parts import PagePart, choose_front
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status

MORE_AND_MORE, LESS_AND_MORE = (1, 1), (-1, 1)


@pytest.mark.parametrize(
    ("values", "better", "front"),
    [
        ({}, MORE_AND_MORE, []),
        ({"a": (1, 1)}, LESS_AND_MORE, ["a"]),
        ({"a": (1, 1), "b": (2, 2), "c": (3, 1)}, MORE_AND_MORE, ["b", "c"]),
        ({"a": (1, 1), "b": (2, 2), "c": (3, 1)}, LESS_AND_MORE, ["a", "b"]),
        ({"c": (3, 1), "b": (2, 2), "a": (1, 3)}, MORE_AND_MORE, ["a", "b", "c"]),
        ({"a": (2, 2), "b": (2, 2), "c": (1, 1)}, MORE_AND_MORE, ["a", "b"]),  # equal pairs beat neither
        ({"a": (2, 1), "b": (2, 2)}, MORE_AND_MORE, ["b"]),  # as good in one, better in the other
        ({"a": (2, None), "b": (None, 9), "c": (1, 1)}, MORE_AND_MORE, ["c"]),
        ({"a": (2, None)}, MORE_AND_MORE, []),
    ],
)
def test_the_front_is_what_nothing_else_is_at_least_as_good_as_in_both(
    values: dict[str, tuple[float | None, float | None]], better: tuple[int, int], front: list[str]
) -> None:
    assert find_front(values, better) == front


def cell(framework: str, size: int, speed: float | None, mib: float | None, percent: float = 50.0) -> TrialResult:
    def known(value: float | None, factor: float) -> Figure:
        return Figure(None, "", reason="not told") if value is None else Figure(value * factor, "measured")

    figures = {"images_per_s": known(speed, 1), "host_memory_bytes": known(mib, 2**20)}
    return trial(framework, size, figures=figures | {"test_accuracy": Figure(percent / 100, "worker")})


def of_kind(chart: Chart, kind: SeriesKind) -> list[ChartSeries]:
    return [series for series in chart.series if series.kind is kind]


THREE = (
    cell("pytorch", 32, 100, 500, 60),
    cell("pytorch", 64, 200, 900, 62),
    cell("mxnet", 32, 150, 600, 70),
    cell("mxnet", 64, 140, 700, 61),
)


def test_points_are_cells_in_the_order_of_their_batch_sizes_and_the_front_is_of_all_frameworks() -> None:
    found = charts(*THREE)
    memory, accuracy = found["speed-memory"], found["speed-accuracy"]
    points = {series.key: series for series in of_kind(memory, SeriesKind.CELL)}
    assert (points["mxnet"].names, points["mxnet"].x, points["mxnet"].y) == (("32", "64"), (600, 700), (150, 140))
    assert points["pytorch"].trials == tuple((result.spec.id,) for result in THREE[:2])
    front = {series.key: series.names for series in of_kind(memory, SeriesKind.FRONT)}
    assert front == {"pytorch": ("32", "64"), "mxnet": ("32",)}
    (edge,) = of_kind(memory, SeriesKind.FRONT_LINE)  # to the right as slow as before, then up to the next
    assert list(zip(edge.x, edge.y, strict=True)) == [(500, 100), (600, 100), (600, 150), (900, 150), (900, 200)]
    (edge,) = of_kind(accuracy, SeriesKind.FRONT_LINE)  # (62, 200) and (70, 150): down, then to the right
    assert list(zip(edge.x, edge.y, strict=True)) == [(62, 200), (62, 150), (70, 150)]
    assert "On the Pareto front, of 4 cells: PyTorch 32 (500 MiB, 100 images/s); MXNet 32" in memory.alt
    assert memory.lead == "Up and left is better. Line, filled: Pareto front." and "left out" not in memory.caption
    assert accuracy.lead.startswith("Up and right is better") and memory.caption.startswith(memory.lead)


def test_cells_with_an_unknown_value_are_left_out_and_counted() -> None:
    dead = ended(Status.OUT_OF_MEMORY, "no room", "pytorch", 128)
    found = charts(*THREE, dead, cell("mxnet", 128, 300, None, 40))
    assert found["speed-memory"].lead.endswith("front. 2 of 6 cells left out: value unknown.")
    assert found["speed-accuracy"].lead.endswith("front. 1 of 6 cells left out: value unknown.")
    assert {x for series in of_kind(found["speed-memory"], SeriesKind.CELL) for x in series.x} == {500, 600, 700, 900}


def test_there_is_no_trade_off_of_one_batch_size_or_of_an_unknown_quantity() -> None:
    assert not {"speed-memory", "speed-accuracy"} & {*charts(THREE[0], THREE[2])}
    unknown = charts(cell("pytorch", 32, 100, None), cell("pytorch", 64, 200, 700))
    assert "speed-memory" not in unknown and "speed-accuracy" in unknown


def written(chart: Chart, layout: Layout) -> tuple[Any, list[Text]]:
    with figures.apply_style(layout.size):
        figure = figures.draw_figure(chart, layout)
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
    (axes,) = figure.axes
    return axes, list(axes.texts)


@for_each("layout", [Layout(SLIDE), Layout(COLUMN, bare=True)])
def test_no_name_of_a_point_lies_upon_another_or_leaves_the_axes_and_the_front_has_all(layout: Layout) -> None:
    found = charts(*study())
    for chart in (found["speed-memory"], found["speed-accuracy"]):
        axes, texts = written(chart, layout)
        boxes = [text.get_window_extent() for text in texts]
        for one, other in itertools.combinations(boxes, 2):
            assert (
                min(one.x1, other.x1) - max(one.x0, other.x0) < 1 or min(one.y1, other.y1) - max(one.y0, other.y0) < 1
            )
        assert all(box.x0 > axes.bbox.x0 and box.x1 < axes.bbox.x1 + 2 for box in boxes)
        ids = {text.get_gid() for text in texts}
        cells = {(each.key, name): f"panel-0-name-{index}-{place}" for index, each in enumerate(chart.series)
                 if each.kind is SeriesKind.CELL for place, name in enumerate(each.names)}  # fmt: skip
        front = [(each.key, name) for each in of_kind(chart, SeriesKind.FRONT) for name in each.names]
        assert front and {cells[one] for one in front} <= ids
        assert len(ids) > 0.7 * len(cells), "few are left out"


def test_a_name_without_room_is_left_out() -> None:
    crowd = [cell("pytorch", size, 100 + size / 1e6, 500 + size / 1e6) for size in range(1, 40)]
    alone = cell("mxnet", 1, 200, 900)
    _, texts = written(charts(*crowd, alone)["speed-memory"], Layout(COLUMN, bare=True))
    assert 2 < len(texts) < 40


def test_in_the_page_each_point_says_its_values_leads_to_its_trials_and_has_its_switch() -> None:
    chart = charts(*THREE)["speed-memory"]
    looks = choose_styles(chart.frameworks)
    switches = {name: number for number, name in enumerate(looks)}
    addresses: dict[tuple[str, ...], str] = {
        (result.spec.id,): f"#cell-{number}" for number, result in enumerate(THREE)
    }
    layout = Layout(COLUMN, bare=True)
    drawing = inline.Drawing(chart, layout, "s1-speed-memory-chart", "c1", looks, switches, addresses)
    picture, points = ElementTree.fromstring(inline.draw(drawing))
    titles = [place[0].text for place in points]
    assert "MXNet, batch size 64\nHost memory, MiB: 700\nTraining speed, images/s: 140" in titles
    assert "PyTorch, batch size 64\nHost memory, MiB: 900\nTraining speed, images/s: 200\non the Pareto front" in titles
    links = {link.get("aria-label"): (link.get("href"), link.get("data-f")) for link in points.iter("a")}
    assert links["MXNet, 32"] == ("#cell-2", str(switches["mxnet"])) and len(links) == 4
    texts = {(group.get("data-f"), text.text) for group in picture.iter("g") for text in group.findall("text")}
    assert {("0", "32"), ("0", "64"), ("1", "32")} <= texts
    drawn = ElementTree.tostring(picture, encoding="unicode")
    assert "var(--text)" in drawn


def test_the_first_charts_are_of_the_headline_and_the_trade_offs_or_else_their_quantities() -> None:
    def chosen(about: str, *names: str) -> list[str]:
        return [part.name for part in choose_front({name: PagePart(name, name, name) for name in names}, about)]

    every = ("speed", "memory", "accuracy", "usage", "speed-memory", "speed-accuracy")
    assert chosen("", *every) == chosen("speed", *every) == ["speed", "speed-memory", "speed-accuracy"]
    assert chosen("accuracy", *every) == ["accuracy", "speed-memory", "speed-accuracy"]
    assert chosen("", "speed", "memory", "accuracy") == ["speed", "memory", "accuracy"]
    assert chosen("accuracy", "speed", "memory", "accuracy", "speed-memory") == ["accuracy", "speed-memory"]
    assert chosen("learning-rates", "usage") == []


def test_on_a_gpu_it_is_the_memory_of_the_gpu() -> None:
    found = charts(*(on_gpu(trial("pytorch", size)) for size in (32, 64)))["speed-memory"]
    assert (found.x_name, found.heading) == ("GPU memory, MiB", "Training speed against GPU memory")
