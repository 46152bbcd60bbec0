"""Two columns of one results folder: builds, modes or frameworks, paired by repeat."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from stored import store, trial
from test_report_compare import cell, repeats, run

from reports.comparing.comparison import compare_columns
from workloads.records.job import OF_THE_CALLER

OLD = "pytorch@old"
OWN: dict[str, Any] = {
    "isolation": OF_THE_CALLER,
    "environment": "aaaa-bbbb",
    "facts": trial().facts | {"framework_version": "2.9.0", "packages": {"torch": "2.9.0"}},
}


def builds(tmp_path: Path) -> Path:
    """Store repeats of very different speeds; the old build's are all 0.9 times the other's."""
    new, old = [1000.0, 700.0, 1300.0], [900.0, 0.89 * 700, 0.91 * 1300]
    return store(tmp_path / "results", *repeats(new), *repeats(old, OLD, **OWN), *repeats([500.0, 501, 502], "mxnet"))


def test_a_build_is_held_against_another_and_its_speeds_are_paired_by_repeat(tmp_path: Path) -> None:
    found = compare_columns(builds(tmp_path), ("pytorch", OLD))
    assert {one.framework for one in found.cells} == {"pytorch"}
    speed = cell(found, "speed")
    logs = [math.log(0.9), math.log(0.89), math.log(0.91)]
    mean = sum(logs) / 3
    error = (sum((log - mean) ** 2 for log in logs) / 2 / 3) ** 0.5
    assert speed.effect[0] == pytest.approx(math.exp(mean))
    assert speed.effect[2] == pytest.approx(math.exp(mean + 4.302653 * error), rel=1e-5)  # t(0.975, 2)
    assert (speed.median_a, speed.median_b) == (1000, 900)
    assert len(speed.trials) == 6
    assert ("PyTorch version", "2.13.0", "2.9.0") in found.pairs[0].pair.differences
    assert ("PyTorch packages", "numpy 1.26.4, torch 2.13.0", "torch 2.9.0") in found.pairs[0].pair.differences


def test_the_page_says_which_column_is_a_and_which_is_b(tmp_path: Path) -> None:
    results = builds(tmp_path)
    ran = run(results, "--frameworks", "pytorch", OLD, "--fail-on-regression", "5%")
    assert ran.returncode == 1
    assert f"- A: PyTorch in {results}: 3 trials" in ran.stdout
    assert f"- B: PyTorch @old in {results}: 3 trials" in ran.stdout
    assert "Training speed: PyTorch @old is 0.900 [" in ran.stdout
    assert " times as fast as PyTorch, geometric mean" in ran.stdout
    data = json.loads(run(results, "--frameworks", "pytorch", OLD, "--format", "json").stdout)
    assert (data["a"]["column"], data["b"]["column"]) == ("pytorch", OLD)


def test_two_frameworks_or_their_builds_are_compared_under_both_names(tmp_path: Path) -> None:
    found = compare_columns(builds(tmp_path), ("mxnet", "pytorch"))
    both = "PyTorch against MXNet"
    assert {(one.framework, one.label) for one in found.cells} == {(both, both)}
    assert ("framework's version", "1.9.1", "2.13.0") in found.pairs[0].pair.differences
    assert cell(found, "speed", both).effect[0] == pytest.approx((1000 * 700 * 1300 / 500 / 501 / 502) ** (1 / 3))
    found = compare_columns(builds(tmp_path / "2"), ("mxnet", OLD))
    assert {(one.framework, one.label) for one in found.cells} == {2 * ("PyTorch old against MXNet",)}


def test_what_one_column_alone_has_is_named(tmp_path: Path) -> None:
    results = store(tmp_path / "r", *repeats([1, 2]), *repeats([1, 2], OLD, **OWN), *repeats([1, 2], batch_size=64))
    page = run(results, "--frameworks", "pytorch", OLD).stdout
    assert "Only in PyTorch, not compared: PyTorch at batch size 64." in page
    junit = run(results, "--frameworks", "pytorch", OLD, "--format", "junit").stdout
    assert "PyTorch, batch size 64: only in PyTorch" in junit and "only in A" not in page + junit
    results = store(tmp_path / "2" / "r", *repeats([100, 101, 102]), *repeats([100, 101], OLD, **OWN))
    speed = cell(compare_columns(results, ("pytorch", OLD)), "speed")
    assert speed.notes == ("left out because they have no counterpart: 1 of the repeats",)


def test_bad_columns_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    results = builds(tmp_path)
    for arguments, told in [
        ((results, "--frameworks", "pytorch", "jax"), f"no trial of jax in {results}; there are pytorch, pytorch@old,"),
        ((results, "--frameworks", "pytorch", "pytorch"), "the same twice"),
        ((results, results, "--frameworks", "pytorch", OLD), "two folders are given"),
        ((results,), "B is missing: give two results folders, or one with --frameworks"),
    ]:
        ran = run(*arguments)
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), arguments
        assert told in ran.stderr
