"""Cells compared with a baseline: adjacent batch sizes, or any if asked for; columns in another mode."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stored import ended, make, numbers, run, store, study, trial

from reports import build, contrast, export
from reports.condition_text import ABSENT
from reports.table import Table
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status


def speeds(batch_size: int, values: Sequence[float], framework: str = "pytorch") -> list[TrialResult]:
    return [
        trial(framework, batch_size, repeat, figures={"images_per_s": Figure(value, "worker")})
        for repeat, value in enumerate(values)
    ]


def contrasts(folder: Path, baseline: int | None = None) -> list[Table]:
    made = build.build_report([folder], baseline_batch=baseline)
    return [table for chapter in made.chapters for table in chapter.tables if table.name == contrast.BATCH_SIZES.name]


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_each_batch_size_stands_beside_the_baseline_paired_by_repeat_so_that_a_slow_repeat_falls_out(
    tmp_path: Path,
) -> None:
    """Every repeat has another speed; at 64 each is 0.9 times that at 128, give or take a percent."""
    base = [1000, 700, 1300]
    half = [900, 0.89 * 700, 0.91 * 1300]
    (table,) = contrasts(store(tmp_path, *speeds(128, base), *speeds(64, half), *speeds(256, base)), 128)
    row = table.tidy.set_index("batch_size").loc[64]
    logs = [math.log(one / other) for one, other in zip(half, base, strict=True)]
    mean = sum(logs) / 3
    error = (sum((log - mean) ** 2 for log in logs) / 2 / 3) ** 0.5
    assert row["speed_ratio"] == pytest.approx(math.exp(mean))
    assert row["high"] == pytest.approx(math.exp(mean + 4.302653 * error), rel=1e-5)  # t(0.975, 2)
    t = abs(mean) / error
    assert row["p_corrected"] == pytest.approx(2 * (1 - t / (2 + t * t) ** 0.5))  # of two, the smaller p
    assert texts(table) == [
        ["PyTorch", "64", "128", "0.900 [0.875, 0.925] slower", "3", f"{row['p_corrected']:.2g}"],
        ["PyTorch", "256", "128", "1.000 [0.988, 1.012]", "3", "1"],
    ]


def test_p_is_corrected_within_a_framework_and_not_for_the_others(tmp_path: Path) -> None:
    base, other = [100, 101, 99], [97, 98.5, 95.5]
    alone = [*speeds(128, base), *speeds(64, other)]
    more = [*speeds(128, base, "mxnet"), *speeds(64, other, "mxnet"), *speeds(32, base, "mxnet")]
    (table,) = contrasts(store(tmp_path, *alone, *more), 128)
    p = table.tidy.set_index(["framework", "batch_size"])["p_corrected"]
    assert p["mxnet", 64] == pytest.approx(2 * p["pytorch", 64])


def test_one_repeat_is_of_this_run_alone_and_a_size_without_a_counterpart_is_a_dash(tmp_path: Path) -> None:
    (table,) = contrasts(store(tmp_path, *speeds(127, [95]), *speeds(128, [100])))
    assert texts(table) == [["PyTorch", "127", "128", "0.950", "1", ABSENT]]
    assert "in this run" in table.below[0]
    dead = ended(Status.OUT_OF_MEMORY, "killed at 4 GiB", batch_size=129)
    (table,) = contrasts(store(tmp_path / "2", *speeds(128, [100]), dead))
    assert [cell.text for cell in table.rows[0]] == ["PyTorch", "129", "128", ABSENT, "0", ABSENT]
    assert list(table.notes) == [contrast.NO_PAIR]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([127, 128, 129], {127: 128, 129: 128}),
        ([4, 8, 16, 32, 64, 128, 256, 512, 1024], {}),
        ([100, 109], {109: 100}),
        ([100, 110], {}),
        ([31, 32, 33, 100, 101], {31: 32, 33: 32, 101: 100}),
        ([1, 2, 3], {}),
    ],
)
def test_neighbours_stand_beside_the_power_of_two_among_them_else_the_smallest(
    sizes: list[int], expected: dict[int, int]
) -> None:
    assert contrast.map_neighbours(sizes) == expected


def test_a_report_has_such_a_table_of_neighbours_or_where_it_is_asked_for(tmp_path: Path) -> None:
    results = store(tmp_path, *study(2))
    assert contrasts(results) == []
    (table,) = contrasts(results, 32)
    assert len(table.rows) == 3 * 8
    results = store(tmp_path / "2", *speeds(127, [95]), *speeds(128, [100]))
    ran = run(results, "--baseline-batch", 64)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert "--baseline-batch 64: no trial has that batch size; there are 127 and 128" in ran.stderr
    assert not (results / "report").exists()


def test_the_table_is_printed_and_written_as_csv(tmp_path: Path) -> None:
    results = store(tmp_path, *speeds(127, [95, 96]), *speeds(128, [100, 101]))
    ran = run(results, "--format", "csv", "--tables", "--baseline-batch", 127)
    assert ran.returncode == 0
    assert contrast.BATCH_SIZES.title in ran.stdout
    (row,) = numbers(results / "report" / f"{contrast.BATCH_SIZES.name}.csv")
    assert (row["batch_size"], row["baseline_batch_size"], row["n"]) == ("128", "127", "2")
    export.write(build.build_report([results]), tmp_path / "page", ("html", "md", "json", "latex", "parquet"))


@pytest.mark.parametrize(("sizes", "printed"), [((127, 128, 129), True), ((125, 126, 127, 128, 129, 130), False)])
def test_a_terminal_shows_a_short_table_and_of_a_longer_one_where_it_is(
    sizes: tuple[int, ...], printed: bool, tmp_path: Path
) -> None:
    results = store(tmp_path, *itertools.chain.from_iterable(speeds(size, [100 + size, 101 + size]) for size in sizes))
    ran = run(results, "--format", "json")
    assert ran.returncode == 0
    lines = [line for line in ran.stdout.splitlines() if line.startswith(contrast.BATCH_SIZES.title)]
    rows = "" if printed else f": {len(sizes) - 1} rows, in the report."
    assert lines == [f"{contrast.BATCH_SIZES.title}{rows}"]


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
        ["PyTorch @bfloat16", "Training speed, times the default", "0.50"],
        ["PyTorch @bfloat16", "Host memory, times the default", "1.00"],
        ["PyTorch @bfloat16", "Test accuracy, points", "-2.00"],
        ["PyTorch @tuned", "Training speed, times the default", "2.00"],
        ["PyTorch @tuned", "Host memory, times the default", "1.00"],
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
