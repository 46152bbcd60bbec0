"""Sections that differ in the number of devices, or of batches of an update."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import varied
from stored import Made, make, store, trial

from reports import build, export
from reports.section_axes import NORMALISED
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status

OLD: dict[str, Any] = {"environment": "old", "facts": trial().facts | {"framework_version": "2.12.0"}}


def scaled(framework: str, devices: int, speed: float, repeat: int = 0, **changes: Any) -> TrialResult:
    figures = {"images_per_s": Figure(speed, "worker")}
    return trial(framework, 64, repeat, devices=devices, figures=figures, **changes)


def told(tmp_path: Path, *trials: TrialResult) -> Made:
    return make(store(tmp_path, *trials), tmp_path / "report")


def test_efficiency_is_the_speed_over_that_of_so_many_single_devices(tmp_path: Path) -> None:
    made = told(
        tmp_path,
        *(scaled("pytorch", count, speed) for count, speed in ((1, 1000), (2, 1500), (4, 2000), (8, 2000))),
        scaled("mxnet", 1, 500), scaled("mxnet", 2, 1100),
        scaled("tensorflow", 2, 700),  # its speed on one device is unknown
    )  # fmt: skip
    (table,) = (table for table in made.report.across if table.name == "scaling-64")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["PyTorch", "1", "1000", "1"],
        ["PyTorch", "2", "1500", "0.750"],
        ["PyTorch", "4", "2000", "0.500"],
        ["PyTorch", "8", "2000", "0.250"],
        ["MXNet", "1", "500", "1"],
        ["MXNet", "2", "1100", "1.10"],
    ]
    assert "at an efficiency of 1/8 dividing costs nothing" in made.markdown
    assert "2.95, 2.87, 2.86 minutes at 255, 256, 257 images per card" in made.markdown
    headings = [line for line in made.markdown.splitlines() if line.startswith("## ") and line[3].isdigit()]
    assert len(headings) == 4 and any("devices one" in line for line in headings)


@pytest.mark.slow
def test_speed_by_devices_is_the_first_chart_of_the_page_with_a_panel_for_each_size(tmp_path: Path) -> None:
    pairs = [(size, count) for size in (16, 64) for count in (1, 2)]
    speeds = {"images_per_s": Figure(1000.0, "worker")}
    trials = [trial("mxnet", size, devices=count, figures=speeds) for size, count in pairs]
    made = told(tmp_path, *trials)
    (chart,) = made.report.charts_across
    assert (chart.name, chart.x_name, chart.y_label) == ("scaling-speed", "Devices", "Training speed, images/s")
    assert [panel.title for panel in chart.panels] == ["16 images on each device", "64 images on each device"]
    assert [(series.label, series.x, series.y) for series in chart.panels[1].series] == [
        ("MXNet", (1.0, 2.0), (1000.0, 1000.0))
    ]
    assert "MXNet 1,000 at device count 1" in chart.alt and "CPU" in chart.provenance
    export.write(made.report, tmp_path / "page", ("html",))
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert page.index('id="s0-scaling-speed-chart"') < page.index("<h3>Findings</h3>") < page.index('id="across"')
    assert page.index('id="across"') < page.index('id="s1-speed-chart"'), "a section's charts stay with it"


def test_repeats_are_paired_with_an_interval_and_one_number_of_devices_scales_nothing(tmp_path: Path) -> None:
    ones = [scaled("pytorch", 1, speed, number) for number, speed in enumerate((1000, 800, 1250))]
    twos = [scaled("pytorch", 2, 1.5 * speed, number) for number, speed in enumerate((1010, 800, 1240))]
    told(tmp_path, *ones, *twos)
    with (tmp_path / "report" / "scaling-64.csv").open() as file:
        (row,) = (row for row in csv.DictReader(file) if row["devices"] == "2")
    assert float(row["efficiency"]) == pytest.approx(0.75, rel=0.01)
    assert 0.70 < float(row["low"]) < float(row["efficiency"]) < float(row["high"]) < 0.80
    made = told(tmp_path / "2", scaled("pytorch", 2, 1000), scaled("mxnet", 1, 500))
    assert not [table for table in made.report.across if table.name.startswith("scaling")]


def test_each_software_of_a_framework_has_its_own_efficiency_and_says_its_version(tmp_path: Path) -> None:
    made = told(
        tmp_path,
        *(scaled("pytorch", count, speed, **OLD) for count, speed in ((1, 1000), (2, 1800))),
        *(scaled("pytorch", count, speed, environment="new") for count, speed in ((1, 2000), (2, 3600))),
        scaled("mxnet", 1, 500),
        scaled("mxnet", 2, 900),
    )
    (table,) = (table for table in made.report.across if table.name == "scaling-64")
    assert sorted([cell.text for cell in row] for row in table.rows) == [
        ["MXNet", "1", "500", "1"],
        ["MXNet", "2", "900", "0.900"],
        ["PyTorch, version 2.12.0", "1", "1000", "1"],
        ["PyTorch, version 2.12.0", "2", "1800", "0.900"],
        ["PyTorch, version 2.13.0", "1", "2000", "1"],
        ["PyTorch, version 2.13.0", "2", "3600", "0.900"],
    ]
    with (tmp_path / "report" / "scaling-64.csv").open() as file:
        tidy = [(row["framework"], row["software"]) for row in csv.DictReader(file) if row["devices"] == "2"]
    assert sorted(tidy) == [("mxnet", ""), ("pytorch", "version 2.12.0"), ("pytorch", "version 2.13.0")]


MIB = 2.0**20


def split(framework: str, count: int, size: int, ms: float, mib: float, **changes: Any) -> TrialResult:
    figures = {
        "images_per_s": Figure(1000 * count * size / ms, "worker"),
        "step_time_s": Figure(ms / 1000, "worker"),
        "host_memory_bytes": Figure(mib * MIB, "resident size"),
        "allocator_peak_bytes": Figure(None, "the framework", reason="it does not tell"),
    }
    return trial(framework, size, accumulate=count, figures=figures, **changes)


SPLITS = (
    split("pytorch", 1, 64, 100, 400),
    split("pytorch", 4, 16, 125, 300),
    split("mxnet", 1, 64, 50, 500),
    split("mxnet", 4, 16, 80, 250),
    split("mxnet", 2, 64, 90, 500),  # another update
)


def test_the_splits_of_one_update_are_a_table_of_what_each_costs(tmp_path: Path) -> None:
    made = told(tmp_path, *SPLITS)
    (table,) = (table for table in made.report.across if table.name == "accumulation-64")
    rows = [[cell.text for cell in row] for row in table.rows]
    assert [row[:4] + row[4:5] + row[6:] for row in rows] == [
        ["PyTorch", "1 x 64", "640", "100", "400", "1.00", "1.00"],
        ["PyTorch", "4 x 16", "512", "125", "300", "1.25", "0.75"],
        ["MXNet", "1 x 64", "1280", "50.0", "500", "1.00", "1.00"],
        ["MXNet", "4 x 16", "800", "80.0", "250", "1.60", "0.50"],
    ]
    assert {row[5].notes for row in table.rows} == {("unknown: it does not tell",)}
    assert table.head[-2:] == ("Step time, of 1 x 64", "Host memory, of 1 x 64")
    assert "## Accumulation: updates of 64 images in parts" in made.markdown
    with (tmp_path / "report" / "accumulation-64.csv").open() as file:
        tidy = list(csv.DictReader(file))
    assert {(row["framework"], row["accumulate"], row["batch_size"]) for row in tidy} == {
        ("pytorch", "1", "64"), ("pytorch", "4", "16"), ("mxnet", "1", "64"), ("mxnet", "4", "16")
    }  # fmt: skip


def test_memory_speed_and_accuracy_by_parts_are_charts_of_one_condition_each(tmp_path: Path) -> None:
    other = [replace(each, spec=varied(each.spec, epochs=7)) for each in SPLITS[:2]]
    charts = told(tmp_path, *SPLITS, *other).report.charts_across
    assert [chart.name for chart in charts] == [
        f"accumulation-{name}-{n}" for n in (1, 2) for name in ("memory", "speed", "accuracy")
    ]
    one, several = charts[0], charts[3]
    assert [(series.label, series.x, series.y) for series in several.panels[0].series] == [
        ("PyTorch", (1.0, 4.0), (400.0, 300.0)),
        ("MXNet", (1.0, 4.0), (500.0, 250.0)),
    ]
    assert "updates of 64 images" in several.title and several.title != one.title
    assert told(tmp_path / "alone", *SPLITS[:1]).report.charts_across == ()


def test_charts_over_the_series_lead_only_a_page_whose_sections_are_all_in_them(tmp_path: Path) -> None:
    dead = split("pytorch", 16, 4, 1, 1, status=Status.OUT_OF_MEMORY, reason="no room")
    whole = told(tmp_path / "whole", *SPLITS[:4], dead).report
    assert [chart.name for chart in whole.leading] == [
        "accumulation-memory", "accumulation-speed", "accumulation-accuracy"
    ]  # fmt: skip
    for number, other in enumerate((trial("pytorch", 64, epochs=7), trial("pytorch", 128))):
        partly = told(tmp_path / f"partly {number}", *SPLITS[:4], other).report
        assert partly.charts_across and partly.leading == ()


@pytest.mark.slow
def test_a_point_of_a_chart_over_sections_leads_to_the_trials_of_its_own_machine(tmp_path: Path) -> None:
    """Trials of one study have the same ids on every machine."""
    other = trial().machine | {"cpu_model": "Another CPU"}
    away = [replace(each, machine=other, started_at="2025-11-23T10:00:00+00:00") for each in SPLITS[:2]]
    folders = [store(tmp_path / "a", *SPLITS[:2]), store(tmp_path / "b", *away)]
    made = build.build_report(folders)
    first, second = (chart for chart in made.charts_across if "memory" in chart.name)
    assert not first.cells & second.cells
    assert {*first.series[0].trials} == {*second.series[0].trials}
    export.write(made, tmp_path / "page", ("html",))
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    drawn = [re.findall(r'href="#(cell-\d+)"', page.split(f'id="s0-{chart.name}-chart"')[1].split("</figure>")[0])
             for chart in (first, second)]  # fmt: skip
    assert all(drawn) and {*drawn[0]}.isdisjoint(drawn[1])


def test_versions_of_one_framework_are_rows_of_the_table_and_no_lines_that_look_alike(tmp_path: Path) -> None:
    old = [scaled("pytorch", count, 1000, **OLD) for count in (1, 2)]
    made = told(tmp_path, *old, *(scaled("pytorch", count, 2000, environment="new") for count in (1, 2)))
    assert made.report.charts_across == () and "scaling-64" in {table.name for table in made.report.across}


def test_each_software_is_divided_by_its_own_whole_update_and_is_named_by_what_differs(tmp_path: Path) -> None:
    """One version with other packages: the environment is what tells them apart."""
    new = {"environment": "new"}
    made = told(
        tmp_path,
        split("pytorch", 1, 64, 100, 400),
        split("pytorch", 4, 16, 125, 300),
        split("pytorch", 1, 64, 200, 800, **new),
        split("pytorch", 4, 16, 250, 600, **new),
    )
    (table,) = (table for table in made.report.across if table.name == "accumulation-64")
    rows = [[cell.text for cell in row] for row in table.rows]
    assert sorted((row[0], row[1], *row[6:]) for row in rows) == [
        ("PyTorch, environment e1", "1 x 64", "1.00", "1.00"),
        ("PyTorch, environment e1", "4 x 16", "1.25", "0.75"),
        ("PyTorch, environment new", "1 x 64", "1.00", "1.00"),
        ("PyTorch, environment new", "4 x 16", "1.25", "0.75"),
    ]
    with (tmp_path / "report" / "accumulation-64.csv").open() as file:
        assert {row["software"] for row in csv.DictReader(file)} == {"environment e1", "environment new"}


def test_what_is_accumulated_stands_in_the_conditions_and_apart_from_what_is_not(tmp_path: Path) -> None:
    made = told(tmp_path, *SPLITS[:2])
    assert len(made.report.chapters) == 2
    headings = {chapter.heading.rpartition("; ")[2] for chapter in made.report.chapters}
    assert headings == {"accumulation none", "accumulation 4 batches per update"}
    alone = told(tmp_path / "alone", SPLITS[0])
    assert "ccumulation" not in alone.markdown


def test_a_split_that_did_not_end_well_says_so_and_one_alone_is_no_table(tmp_path: Path) -> None:
    dead = split("pytorch", 1, 64, 100, 400, status=Status.OUT_OF_MEMORY, reason="no room")
    (table,) = (table for table in told(tmp_path, dead, SPLITS[1]).report.across if "accumulation" in table.name)
    assert [[*[cell.text for cell in row][1:3], row[-1].text] for row in table.rows] == [
        ["1 x 64", "OOM", "\N{EN DASH}"],
        ["4 x 16", "512", "\N{EN DASH}"],
    ]
    alone = told(tmp_path / "alone", SPLITS[1], SPLITS[2])
    assert not [table for table in alone.report.across if "accumulation" in table.name]


def test_a_cell_with_fewer_repeats_than_another_column_has_its_n_and_the_sentence_below_explains_it(
    tmp_path: Path,
) -> None:
    def shown(name: str, *second: Status) -> list[list[str]]:
        """Return speed, step time and memory of two levels, whose second repeats of three ended so."""
        levels = ((1, 64), (4, 16))
        trials = [split("pytorch", *level, 100, 400, repeat=repeat) for level in levels for repeat in range(3)]
        for place, status in zip((1, 4), second, strict=True):
            trials[place] = replace(trials[place], status=status, reason=None if status is Status.OK else "so")
        (table,) = (table for table in told(tmp_path / name, *trials).report.across if "accumulation" in table.name)
        assert "Mean of n = 3 repeats, " in table.below[0]
        assert table.below[0].endswith(" A cell with fewer repeats has its n.")
        return [[cell.text for cell in row[2:5]] for row in table.rows]

    three = ["640 [640, 640]", "100 [100, 100]", "400 [400, 400]"]
    two = [f"{text} n=2" for text in three]
    disturbed = shown("disturbed", Status.CONTENDED, Status.CONTENDED)
    assert disturbed == [[*two[:2], three[2]]] * 2, "speed and step time are withheld, memory is not"
    assert shown("failed", Status.OK, Status.FAILED) == [three, two]


def test_batchnorm_is_told_where_batches_are_accumulated_and_nowhere_else(tmp_path: Path) -> None:
    trials = (trial(workload=name, accumulate=count) for name in ("resnet-18", "osu-cnn") for count in (1, 4))
    chapters = told(tmp_path, *trials).report.chapters
    normalised = {chapter.heading for chapter in chapters if NORMALISED in chapter.conditions}
    assert len(chapters) == 4 and len(normalised) == 1
    assert "resnet-18" in (heading := normalised.pop()) and "4 batches per update" in heading
