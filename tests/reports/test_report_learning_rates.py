"""Accuracy by learning rate and batch size: the sections that make a map, and the shades of its cells."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import varied
from stored import store, trial

from reports import build, export, learning_rates
from reports.conditions import group_into_sections
from reports.drawing import inline
from reports.table import SHADES
from reports.web.page import list_drawings
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.spec import OptimizerSpec

RATES = (0.001, 0.01, 0.1)


def trials(rule: Any = "momentum", rates: tuple[float, ...] = RATES, **changes: Any) -> list[TrialResult]:
    """Two frameworks at two batch sizes, 10 points more at each next rate."""
    return [
        trial(framework, size, optimizer=OptimizerSpec.named(rule, rate), figures=accuracy(place, size), **changes)
        for framework in ("pytorch", "mxnet")
        for size in (16, 64)
        for place, rate in enumerate(rates)
    ]


def accuracy(place: int, size: int) -> dict[str, Figure]:
    return {"test_accuracy": Figure(0.5 + 0.1 * place - size / 1000, "worker")}


def test_rates_of_one_rule_are_the_rows_of_a_map_for_each_framework() -> None:
    found, _ = group_into_sections([*trials(), *trials("adam")])
    adam, momentum = learning_rates.build_tables(found)
    assert (adam.name, momentum.name) == ("learning-rates-adam", "learning-rates-momentum")
    assert momentum.head == ("Framework", "Learning rate / batch size", "16", "64")
    assert [[cell.text for cell in row] for row in momentum.rows] == [
        ["PyTorch", "0.001", "48.40", "43.60"],
        ["PyTorch", "0.01", "58.40", "53.60"],
        ["PyTorch", "0.1", "68.40", "63.60"],
        ["MXNet", "0.001", "48.40", "43.60"],
        ["MXNet", "0.01", "58.40", "53.60"],
        ["MXNet", "0.1", "68.40", "63.60"],
    ]
    assert len(momentum.tidy) == 12 and set(momentum.tidy["learning_rate"]) == set(RATES)


def test_shades_go_from_the_lowest_to_the_highest_of_the_cells() -> None:
    (table,) = learning_rates.build_tables(group_into_sections(trials())[0])
    assert [table.shade(cell.number) for cell in table.rows[0][2:]] == [2, 0]
    assert [table.shade(cell.number) for cell in table.rows[2][2:]] == [SHADES, 7]
    assert table.shade(None) is None


@pytest.mark.slow
def test_a_page_shades_each_map_and_charts_it_with_a_panel_per_batch_size_and_a_point_per_rate(tmp_path: Path) -> None:
    chart, *more = learning_rates.build_charts(group_into_sections(trials())[0])
    assert not more and chart.name == "learning-rates-momentum" and chart.x_name == "Learning rate"
    assert [panel.title for panel in chart.panels] == ["Batch 16", "Batch 64"]
    first = chart.panels[0].series[0]
    assert (first.key, first.x) == ("pytorch", RATES) and first.y == pytest.approx((48.4, 58.4, 68.4))
    assert all(len(series.trials) == len(RATES) for series in chart.series)
    export.write(build.build_report([store(tmp_path, *trials())]), tmp_path / "page", ("html", "md", "png", "csv"))
    assert (tmp_path / "page" / "learning-rates-momentum.png").exists()
    assert (tmp_path / "page" / "learning-rates-momentum.csv").exists()
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    shades = re.findall(r'style="--heat:(\d)"[^>]*><a [^>]*>(68\.4|43\.6)', page)
    assert sorted(shades) == [("0", "43.6")] * 2 + [(str(SHADES), "68.4")] * 2
    assert page.index('id="s0-learning-rates-momentum-chart"') < page.index('id="section-1"')
    assert "](learning-rates-momentum.png)" in (tmp_path / "page" / "report.md").read_text(encoding="utf-8")


def test_a_batch_size_at_which_no_rate_gave_a_value_keeps_its_panel_in_the_page(tmp_path: Path) -> None:
    full: dict[str, Any] = {"status": Status.OUT_OF_MEMORY, "reason": "no room", "figures": {}}
    tried = [replace(each, **full) if each.spec.cell.batch_size == 64 else each for each in trials()]
    made = build.build_report([store(tmp_path, *tried)])
    (drawing,) = (each for each in list_drawings(made) if each.chart.name == "learning-rates-momentum")
    assert [panel.title for panel in drawing.chart.panels] == ["Batch 16", "Batch 64"]
    picture = inline.draw(drawing)
    assert "Batch 64" in picture and picture.count("<title>Learning rate: ") == len(RATES), "those of batch 16"


def test_a_framework_of_two_versions_is_in_no_map_with_both() -> None:
    first, *others = (trials(rates=(rate,)) for rate in RATES)
    without = [each for each in first if each.spec.cell.framework == "pytorch"]
    newer = [replace(each, spec=varied(each.spec, environment="new")) for each in others[0]]
    found = group_into_sections([*without, *others[0], *newer, *others[1]])[0]
    assert len(found) == 4, "the rate in the middle has a section for each version"
    (chart,) = learning_rates.build_charts(found)
    shown = [found[number - 1] for number in {number for number, *_ in chart.cells}]
    assert len(shown) == 3 and {section.software["pytorch"].environment for section in shown} == {"e1"}


def test_two_rates_are_no_map_and_other_threads_or_epochs_are_in_none() -> None:
    assert learning_rates.build_tables(group_into_sections(trials(rates=RATES[:2]))[0]) == []
    two, other = trials(rates=RATES[:2]), trials(rates=RATES[2:], epochs=3)
    assert learning_rates.build_tables(group_into_sections([*two, *other])[0]) == []
    assert learning_rates.build_tables(group_into_sections([*two, *trials(rates=RATES[2:], threads=1)])[0]) == []
