"""Sentences about columns that train in another profile or precision."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
from stored import store, trial
from written import make

from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status


def column(build: str, speed: float, accuracy: float, repeat: int = 0, **changes: Any) -> TrialResult:
    figures = {
        "images_per_s": Figure(speed, "worker"),
        "host_memory_bytes": Figure(400 * 2.0**20, "resident size"),
        "test_accuracy": Figure(accuracy, "worker"),
    }
    return trial(build, 32, repeat, figures=figures, **changes)


TUNED: dict[str, Any] = {"profile": "tuned"}
HALF: dict[str, Any] = {
    "precision": "bfloat16",
    "facts": {"framework_version": "2.4.6", "precision": "bfloat16", "tf32": False},
}


def test_a_column_of_another_mode_stands_beside_the_same_frameworks_default(tmp_path: Path) -> None:
    made = make(
        store(
            tmp_path,
            column("pytorch", 1000, 0.90),
            column("pytorch@tuned", 2000, 0.90, **TUNED),
            column("pytorch@bfloat16", 500, 0.88, **HALF),
            column("mxnet", 3000, 0.90),
        ),
        tmp_path / "report",
    )
    (chapter,) = made.report.chapters
    (table,) = (table for table in chapter.tables if table.name == "modes")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["PyTorch @bfloat16", "Training speed, part of the default", "0.50"],
        ["PyTorch @bfloat16", "Host memory, part of the default", "1.00"],
        ["PyTorch @bfloat16", "Test accuracy, points", "-2.00"],
        ["PyTorch @tuned", "Training speed, part of the default", "2.00"],
        ["PyTorch @tuned", "Host memory, part of the default", "1.00"],
        ["PyTorch @tuned", "Test accuracy, points", "+0.00"],
    ]
    assert "precision float32 and bfloat16 (@bfloat16)" in made.markdown
    assert "profile default and tuned (@tuned)" in made.markdown


def test_of_repeats_the_same_seeds_are_compared_with_the_interval_of_their_mean(tmp_path: Path) -> None:
    pairs = ((1000, 2000), (1100, 2310), (900, 1710))
    trials = [column("pytorch", usual, 0.9, repeat) for repeat, (usual, _) in enumerate(pairs)]
    trials += [column("pytorch@tuned", fast, 0.9, repeat, **TUNED) for repeat, (_, fast) in enumerate(pairs)]
    lonely = column("pytorch@tuned", 9999, 0.9, 3, **TUNED)  # no column to compare it with
    make(store(tmp_path, *trials, lonely), tmp_path / "report")
    with (tmp_path / "report" / "modes.csv").open(newline="") as file:
        (speed,) = [row for row in csv.DictReader(file) if row["quantity"] == "speed"]
    assert speed["n"] == "3" and float(speed["mean"]) == pytest.approx((2.0 * 2.1 * 1.9) ** (1 / 3))
    logs = [math.log(ratio) for ratio in (2.0, 2.1, 1.9)]
    mean = sum(logs) / 3
    deviation = math.sqrt(sum((log - mean) ** 2 for log in logs) / 2)
    assert float(speed["low"]) == pytest.approx(math.exp(mean - 4.302653 * deviation / math.sqrt(3)), rel=1e-6)


def test_there_is_no_such_table_without_another_mode_or_without_the_default_beside_it(tmp_path: Path) -> None:
    for name, trials in {
        "one mode": [column("pytorch", 1000, 0.9), column("mxnet", 900, 0.9)],
        "no default": [column("pytorch@tuned", 2000, 0.9, **TUNED)],
        "it failed": [
            column("pytorch", 1000, 0.9, status=Status.FAILED, reason="it broke"),
            column("pytorch@tuned", 2000, 0.9, **TUNED),
        ],
    }.items():
        made = make(store(tmp_path / name, *trials), tmp_path / f"report of {name}")
        assert all(table.name != "modes" for chapter in made.report.chapters for table in chapter.tables), name
