from __future__ import annotations

import itertools
import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from stored import ended, on_gpu, store, study, trial
from written import make

from reports import captions
from reports.conditions import sections
from reports.figures import _tick_labels
from reports.frameworks import styles
from workloads.trial import Figure, Status

CHARTS = ("usage", "memory", "accuracy", "speed")


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Report of a study in which MXNet has no value at batch 64 and 1024."""
    results = tmp_path_factory.mktemp("results")
    kept = [r for r in study() if (r.spec.framework, r.spec.batch_size) not in (("mxnet", 64), ("mxnet", 1024))]
    make(store(results, *kept, ended(Status.OUT_OF_MEMORY, "full", "mxnet", 1024)), results / "report")
    return results / "report"


def line(svg: Path, framework: str) -> list[list[tuple[float, float]]]:
    """The unbroken stretches of a framework's line, each as its (x, y) in points, y downwards."""
    found = re.search(rf'<g id="line-{framework}">\s*<path d="([^"]+)"', svg.read_text(encoding="utf-8"))
    assert found is not None
    stretches = [part for part in re.split(r"(?=M )", found[1]) if part.strip()]
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", part)] for part in stretches]


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_there_sharp_and_not_blank(charts: Path, name: str) -> None:
    png = (charts / f"{name}.png").read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    assert width >= 7 * 150
    assert height >= 4 * 150
    assert len(png) > 20_000
    assert f"({name}.png)" in (charts / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CHARTS)
def test_every_framework_has_a_line_of_its_own(charts: Path, name: str) -> None:
    lines = [line(charts / f"{name}.svg", framework) for framework in ("tensorflow", "pytorch", "mxnet")]
    assert [sum(len(stretch) for stretch in found) for found in lines] == [9, 9, 7]
    assert lines[0] != lines[1]


def test_a_missing_value_is_a_gap_and_not_zero(charts: Path) -> None:
    svg = charts / "memory.svg"
    assert [len(stretch) for stretch in line(svg, "mxnet")] == [4, 3]
    assert [len(stretch) for stretch in line(svg, "pytorch")] == [9]
    lowest = max(y for stretch in line(svg, "tensorflow") for _, y in stretch)
    assert all(y < lowest for stretch in line(svg, "mxnet") for _, y in stretch)


def test_batch_sizes_are_evenly_spaced_on_the_logarithmic_axis(charts: Path) -> None:
    xs = [x for x, _ in line(charts / "usage.svg", "pytorch")[0]]
    steps = [right - left for left, right in itertools.pairwise(xs)]
    assert steps == pytest.approx([steps[0]] * 8, abs=0.01)


def test_no_two_frameworks_look_alike_without_colour() -> None:
    looks = styles(["tensorflow", "pytorch", "mxnet", "jax", "numpy", "paddle", "tinygrad"]).values()
    assert len({look.marker for look in looks}) == len({look.colour for look in looks}) == 7
    known = list(styles(["tensorflow", "pytorch", "mxnet", "jax"]).values())
    assert len({look.line for look in known}) == 4


def test_repeats_show_bars_and_one_trial_shows_none(tmp_path: Path) -> None:
    make(store(tmp_path / "one", *study()), tmp_path / "one")
    make(store(tmp_path / "three", *study(3)), tmp_path / "three")
    one, three = ((tmp_path / name / "usage.svg").read_text().count("LineCollection") for name in ("one", "three"))
    assert (one, three) == (0, 6)  # bars of three frameworks, in the chart and in its legend


def test_the_caption_says_what_the_bars_are_and_only_where_there_are_any() -> None:
    one, three = (captions.chart_caption(sections(study(repeats))[0][0]) for repeats in (1, 3))
    assert "Median of up to 3 repeats, bars from the lowest to the highest" in three
    assert "bars" not in one
    for told in ("2 cores, 2 threads", "PyTorch 2.13.0", "TF32 off", "seed 0", "Commit afa2864", "none set", "0.25"):
        assert told in one


def test_a_value_above_full_scale_is_drawn_inside_the_axes(tmp_path: Path) -> None:
    over = {"cpu_percent": Figure(130.0, "s")}
    make(store(tmp_path, trial("pytorch", 4, figures=over), trial("pytorch", 8)), tmp_path)
    ys = [y for _, y in line(tmp_path / "usage.svg", "pytorch")[0]]
    assert min(ys) > 40  # below title and legend


def test_the_same_results_give_the_same_files(tmp_path: Path) -> None:
    results = store(tmp_path, *(on_gpu(result) for result in study()))
    for name in ("a", "b"):
        make(results, tmp_path / name)
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("a", "b"))
    assert first == second


def test_odd_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    make(store(tmp_path, replace(trial(dataset="фото $a$ <b>|$x"))), tmp_path)
    assert (tmp_path / "accuracy.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("sizes", "labels"),
    [
        ([4, 8, 1024], ["4", "8", "1024"]),
        ([4, 96, 100, 1024], ["4", "96", "\n100", "1024"]),
        ([4, 100, 101, 102, 103, 1024], ["4", "100", "\n101", "\n\n102", "", "1024"]),
        ([64], ["64"]),
    ],
)
def test_labels_of_close_batch_sizes_do_not_overlap(sizes: list[int], labels: list[str]) -> None:
    assert _tick_labels(sizes) == labels
