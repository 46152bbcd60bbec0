"""Several devices compared with one: speed of all together, and efficiency, paired by repeat."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from stored import store, trial
from written import Made, make

from workloads.records.figures import Figure
from workloads.records.result import TrialResult


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
    (table,) = (table for table in made.report.appendix if table.name == "scaling-64")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["PyTorch", "1", "1000", "1"],
        ["PyTorch", "2", "1500", "0.750"],
        ["PyTorch", "4", "2000", "0.500"],
        ["PyTorch", "8", "2000", "0.250"],
        ["MXNet", "1", "500", "1"],
        ["MXNet", "2", "1100", "1.10"],
    ]
    assert "at an efficiency of 1/8 dividing cost nothing" in made.markdown
    assert "2.95, 2.87, 2.86 minutes at 255, 256, 257 images a card" in made.markdown
    headings = [line for line in made.markdown.splitlines() if line.startswith("## ") and line[3].isdigit()]
    assert len(headings) == 4 and any("devices one" in line for line in headings)


def test_repeats_are_paired_and_give_an_interval(tmp_path: Path) -> None:
    ones = [scaled("pytorch", 1, speed, number) for number, speed in enumerate((1000, 800, 1250))]
    twos = [scaled("pytorch", 2, 1.5 * speed, number) for number, speed in enumerate((1010, 800, 1240))]
    told(tmp_path, *ones, *twos)
    with (tmp_path / "report" / "scaling-64.csv").open() as file:
        (row,) = (row for row in csv.DictReader(file) if row["devices"] == "2")
    assert float(row["efficiency"]) == pytest.approx(0.75, rel=0.01)
    assert 0.70 < float(row["low"]) < float(row["efficiency"]) < float(row["high"]) < 0.80


def test_one_number_of_devices_alone_scales_nothing(tmp_path: Path) -> None:
    made = told(tmp_path, scaled("pytorch", 2, 1000), scaled("mxnet", 1, 500))
    assert not [table for table in made.report.appendix if table.name.startswith("scaling")]
