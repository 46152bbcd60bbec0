"""A comparison as JSON, JUnit XML and a page: the same numbers and exit codes, whatever is asked for."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from stored import MACHINE, ended, store, trial
from test_report_compare import LATER, folders, in_runs, repeats, run, runs

from reports.comparing import comparison_tables
from reports.comparing.command import ENDINGS, FORMATS, GatedComparison
from reports.comparing.comparison import compare
from reports.drawing.traces import build_traces, compute_y_span
from workloads.records.status import Status

EVIL = "<script>alert(1)</script> \x07 ]]> & \ud800"


def mixed(tmp_path: Path) -> tuple[Path, Path]:
    """Store PyTorch slower by a tenth, MXNet unchanged, TensorFlow with one repeat, and a cell that only A has."""
    a = [*repeats([100, 101, 102]), *repeats([200, 201, 202], "mxnet"), *repeats([50], "tensorflow")]
    b = [*repeats([90, 91, 92], **LATER), *repeats([200, 201, 202], "mxnet", **LATER)]
    return runs(tmp_path, [*a, *repeats([100, 101], batch_size=64)], [*b, *repeats([50], "tensorflow", **LATER)])


@pytest.mark.parametrize("gate", [(), ("--fail-on-regression", "5%")])
def test_the_exit_code_and_what_is_told_of_the_gate_are_the_same_with_each_format(
    tmp_path: Path, gate: tuple[str, ...]
) -> None:
    sides = mixed(tmp_path)
    told = [run(*sides, *gate, "--format", name) for name in FORMATS]
    assert {(ran.returncode, ran.stderr) for ran in told} == {(1 if gate else 0, told[0].stderr)}
    assert len({ran.stdout for ran in told}) == len(FORMATS)


def test_json_holds_every_number_with_a_schema_version_and_null_where_one_is_unknown(tmp_path: Path) -> None:
    a, b = mixed(tmp_path)
    data = json.loads(run(a, b, "--fail-on-regression", "5%", "--format", "json").stdout)
    assert (data["schema_version"], data["a"]["path"], data["b"]["trials"]) == (1, str(a), 7)
    assert (data["gate"]["outcome"], data["gate"]["exit_code"]) == ("regression", 1)
    (pair,) = data["pairs"]
    found = compare(a, b)
    assert len(pair["cells"]) == len(found.cells)
    for told, cell in zip(pair["cells"], found.cells, strict=True):
        numbers = (cell.median_a, *cell.effect, cell.p_worse)
        expected = [None if math.isnan(number) else pytest.approx(number) for number in numbers]
        assert [told[name] for name in ("median_a", "value", "low", "high", "p_worse_adjusted")] == expected
        assert told["trials"] == list(cell.trials)
    assert pair["only_a"] == [{"framework": "pytorch", "batch_size": 64}]
    means = [(mean["framework"], mean["quantity"], mean["cells"]) for mean in pair["geometric_means"]]
    assert means[:2] == [(None, "speed", 2), ("tensorflow", "speed", 1)]


def counts(element: ElementTree.Element) -> tuple[int, ...]:
    return tuple(int(element.attrib[name]) for name in ("tests", "failures", "errors", "skipped"))


def test_junit_has_a_case_for_each_cell_and_mean_with_failures_for_losses_and_skipped_for_what_cannot_be_told(
    tmp_path: Path,
) -> None:
    root = ElementTree.fromstring(run(*mixed(tmp_path), "--format", "junit").stdout)
    assert root.tag == "testsuites"
    (suite,) = root
    cases = {(case.attrib["classname"], case.attrib["name"]): case for case in suite}
    assert len(cases) == len(suite)  # each has another name
    kinds = {name: [child.tag for child in case if child.tag != "system-out"] for name, case in cases.items()}
    pytorch, tensorflow = (f"batchwise.compare.{name}" for name in ("pytorch", "tensorflow"))
    assert kinds[pytorch, "speed, batch size 32"] == kinds[pytorch, "speed, mean over its batch sizes"] == ["failure"]
    assert kinds["batchwise.compare.mxnet", "speed, batch size 32"] == []
    assert kinds[tensorflow, "speed, batch size 32"] == kinds[pytorch, "batch size 64"] == ["skipped"]
    failure = cases[pytorch, "speed, batch size 32"].find("failure")
    assert failure is not None and failure.attrib["type"] == "regression"
    assert "PyTorch, batch size 32: speed worse by 9.9 % [" in failure.attrib["message"]
    number = [sum(kind in each for each in kinds.values()) for kind in ("failure", "skipped")]
    assert counts(suite) == counts(root) == (len(cases), number[0], 0, number[1])
    assert all(case.attrib.keys() >= {"name", "classname", "time"} for case in suite)


@pytest.mark.parametrize(
    ("speeds", "code"), [([100, 101, 102, 101], 0), ([80, 81, 82, 81], 1), ([80, 125, 95, 107], 2)]
)
def test_with_the_gate_junit_fails_and_skips_as_the_exit_code_says(
    tmp_path: Path, speeds: list[float], code: int
) -> None:
    sides = runs(tmp_path, repeats([100, 101, 102, 101]), repeats(speeds, **LATER))
    ran = run(*sides, "--fail-on-regression", "5%", "--format", "junit")
    _, failures, _, skipped = counts(ElementTree.fromstring(ran.stdout))
    assert ran.returncode == code
    assert (failures > 0, failures == 0 and skipped > 0) == (code == 1, code == 2)


def test_the_page_is_a_report_s_headed_by_what_changed_and_loads_nothing(tmp_path: Path) -> None:
    page = run(*mixed(tmp_path), "--format", "html").stdout
    assert "Training speed: b is 0.949 [" in page
    assert page.count('<svg role="group"') == 2  # speed and memory
    assert (
        '<h4 id="s1-compare-speed-chart-title">Training speed, b against a: times as fast (more is better)</h4>' in page
    )
    assert 'id="s1-compare-speed"' in page and 'id="trials"' not in page
    assert page.count("<script>") == page.count("<script") == 1
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)
    assert "default-src 'none'" in html.unescape(page)
    page = FORMATS["html"](GatedComparison(compare(*mixed(tmp_path / "2")), None, False, None))
    (heading,) = re.findall(r"<h1>(.*?)</h1>", page)
    assert re.fullmatch(
        r"Training speed: b is 0\.9\d+ \[[\d., ]+\] times as fast as a, geometric mean over \d+ cells", heading
    )


def test_the_charts_have_a_point_for_each_cell_and_a_line_at_1(tmp_path: Path) -> None:
    found = compare(*mixed(tmp_path))
    speed, memory = comparison_tables.charts_of(found)
    assert (speed.line_at, memory.line_at) == (1.0, 1.0)
    known = [cell for cell in found.cells if cell.quantity.name == "speed"]
    assert {series.key: series.y for series in speed.series} == {cell.framework: (cell.effect[0],) for cell in known}
    assert speed.alt.startswith("Training speed, b against a: a point for each framework and batch size. b is 0.949")
    assert "takes" in memory.alt
    ends = compute_y_span(speed, build_traces(speed))
    assert ends[0] < 1.0 <= ends[1]


def test_out_holds_every_format_whichever_is_printed_and_names_from_outside_break_none(tmp_path: Path) -> None:
    ran = run(*mixed(tmp_path), "--out", tmp_path / "out", "--format", "junit")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {*ENDINGS.values(), "compare.csv", "compare-frameworks.csv"}
    assert (tmp_path / "out" / "compare.xml").read_text() == ran.stdout.removesuffix("\n")
    b = [ended(Status.FAILED, EVIL, machine=MACHINE | {"cpu_model": EVIL}, facts=trial().facts)]
    sides = folders(tmp_path / "2", repeats([100]), b)
    out = tmp_path / "2" / "out"
    assert run(*sides, "--out", out).returncode == 0
    assert "<script>alert" not in (out / "compare.html").read_text()
    ElementTree.fromstring((out / "compare.xml").read_text())
    json.loads((out / "compare.json").read_text())


def test_the_sides_have_the_ends_of_their_folders_names_by_which_they_differ(tmp_path: Path) -> None:
    a, b = (
        store(tmp_path / "old" / "quick", *repeats([1, 2])),
        store(tmp_path / "new_" / "quick", *repeats([3, 4], **LATER)),
    )
    text = run(a, b).stdout
    assert text.startswith("# Batchwise: new\\_/quick against old/quick\n")
    speed = r"\*\*Training speed: new\\_/quick is [\d.]+ \[[\d., ]+\] times as fast as old/quick in these runs, "
    assert re.search(speed, text)
    assert "## Training speed, new\\_/quick against old/quick: times as fast" in text
    same = run(a, a).stdout
    assert same.startswith("# Batchwise: B against A\n") and "Training speed: B is 1.0" in same


def test_no_line_of_what_differs_is_longer_than_120_columns_and_every_word_of_it_is_there(tmp_path: Path) -> None:
    versions = [{f"package-number-{place}": f"1.{place}.{side}" for place in range(30)} for side in (0, 1)]
    facts = [trial().facts | {"packages": each} for each in versions]
    sides = folders(
        tmp_path, repeats([1, 2], facts=facts[0], environment="a" * 64),
        repeats([1, 2], facts=facts[1], environment="b" * 64, **LATER)
    )  # fmt: skip
    table = run(*sides).stdout.partition("## What differs")[2].partition("\n## ")[0]
    assert "PyTorch packages" in table
    assert max(map(len, table.splitlines())) <= 120
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    for side, column in ((0, 1), (1, 2)):
        told = " ".join(row[column] for row in rows)
        assert ", ".join(f"{name} {version}" for name, version in sorted(versions[side].items())) in told


def test_series_of_one_task_that_differ_in_another_condition_have_names_of_their_own(tmp_path: Path) -> None:
    sides = [[*repeats([1, 2], **more), *repeats([3, 4], threads=1, **more)] for more in ({}, LATER)]
    found = compare(*folders(tmp_path, *sides))
    titles = [each.pair.title for each in found.pairs]
    assert len(titles) == len(set(titles)) == 2
    assert all(", threads " in title for title in titles)


def test_no_regression_names_the_smallest_loss_that_would_have_been_found_in_every_format(tmp_path: Path) -> None:
    speeds = [100, 102, 98, 101]
    sides = runs(tmp_path, repeats(speeds), repeats(speeds, **LATER))
    told = {name: run(*sides, "--fail-on-regression", "9%", "--format", name) for name in FORMATS}
    assert {ran.returncode for ran in told.values()} == {0}
    data = json.loads(told["json"].stdout)
    (cell,) = (cell for cell in data["pairs"][0]["cells"] if cell["quantity"] == "speed")
    percent = cell["smallest_loss_found_percent"]
    assert 1 < percent < 9
    assert data["smallest_loss_found_percent"]["single_cell"]["speed"] == percent
    assert data["smallest_loss_found_percent"]["framework_mean"].keys() == {"speed", "memory", "accuracy"}
    assert data["a"]["runs"] == 4
    words = "80 % of such comparisons would have found a loss in a single cell of accuracy "
    assert words in told["md"].stdout and words in html.unescape(told["html"].stdout)
    assert f"{words}9.0 points, memory 9.0 %, speed 9.0 %, and" in told["md"].stderr, "none below 9 % is asked about"
    cases = {case.attrib["name"]: case for case in ElementTree.fromstring(told["junit"].stdout).iter("testcase")}
    out = cases["speed, batch size 32"].findtext("system-out") or ""
    assert out.startswith("b against a: 1.000 [") and out.endswith(f"would have found a loss of {percent:.1f} %")


def test_with_several_sections_each_regression_names_its_own_in_tables_and_gate(tmp_path: Path) -> None:
    def side(folder: Path, factor: float, status: Status, **more: Any) -> Path:
        speeds = [100.0, 100.3, 99.8, 100.1, 99.7]
        two = repeats(speeds, **more), repeats([factor * speed for speed in speeds], threads=1, **more)
        failed = [ended(status, "killed", batch_size=64, repeat=each, **more) for each in range(5)]
        failed = [replace(result, facts=two[0][0].facts) for result in failed]
        return in_runs(folder, [*two[0], *two[1], *failed])

    a, b = side(tmp_path / "a", 1, Status.OK), side(tmp_path / "b", 0.8, Status.OUT_OF_MEMORY, **LATER)
    found = compare(a, b)
    slower, failing = (
        next(each.pair.title for each in found.pairs if end in each.pair.title) for end in ("threads 1", "threads 2")
    )
    (table,) = (table for table in comparison_tables.build_tables(found) if table.name == "regressions")
    assert table.head[0] == "Section" and {len(row) for row in table.rows} == {len(table.head)}
    assert {(row[0].text, row[3].text.split(",")[0]) for row in table.rows} == {(slower, "speed"), (failing, "status")}
    ran = run(a, b, "--fail-on-regression", "5%")
    lines = [line for line in ran.stderr.splitlines() if ", batch size " in line]
    assert [line.split(": PyTorch")[0] for line in lines] == [f"reports: {failing}", f"reports: {slower}"]
