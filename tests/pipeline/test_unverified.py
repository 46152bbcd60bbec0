"""The gate from the command line to the tables: frameworks with a mistake in them beside one without."""

from __future__ import annotations

import json
import re

import pytest
from copied import add_framework, copy_project, run_in

from runner.gate import GATE
from workloads.trial import Check, Status, TrialResult

WRONG = ("doubled", "dimmed")
COMMAND = (
    *("--framework", "numpy", *WRONG, "--device", "cpu", "--isolation", "here"),
    *("--batch-size", 128, "--epochs", 1, "--window", 0.5, "--threads", 1),
)


def add_mistaken(project, name, build):
    """The referee, but for a line that changes what it is asked to build."""
    add_framework(project, name, label=f'"{name}"')
    (project / "adapters" / name / "adapter.py").write_text(
        f"""\
from dataclasses import replace
from adapters.numpy import adapter

class Adapter(adapter.Adapter):
    def build(self, workload, optimizer, weights, seed):
        {build}
        super().build(workload, optimizer, weights, seed)
"""
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = copy_project(tmp_path_factory.mktemp("project"))
    add_mistaken(project, "doubled", "optimizer = replace(optimizer, learning_rate=2 * optimizer.learning_rate)")
    add_mistaken(project, "dimmed", "workload = replace(workload, scale=1 / 256)")
    return project


@pytest.fixture(scope="module")
def gated(project, tmp_path_factory):
    """(results folder, what the run printed, its exit code)."""
    results = tmp_path_factory.mktemp("results")
    done = run_in(project, *COMMAND, "--results", results)
    return results, done.stdout + done.stderr, done.returncode


def results_of(folder):
    """{framework: its result}"""
    stored = [TrialResult.from_json(json.loads(path.read_text())) for path in folder.glob("trials/*/result.json")]
    return {result.spec.framework: result for result in stored}


@pytest.mark.parametrize(
    ("framework", "told"),
    [
        ("doubled", "the first gradients agree, the loss of step 2 differs by "),
        ("dimmed", "first layer that differs: conv1, its output by "),
    ],
)
def test_a_framework_with_a_mistake_is_unverified_and_told_where_it_begins_and_by_how_much(gated, framework, told):
    results, printed, code = gated
    result = results_of(results)[framework]
    assert result.status == Status.UNVERIFIED
    figures = r"\d\.\de[+-]\d\d \(allowed \de-0\d\)"
    assert re.fullmatch(f"differs from the referee: {told}{figures}", result.reason)
    assert code == 1
    assert f"{result.spec.id}: unverified: {result.reason}" in printed


def test_the_right_framework_stays_ok_beside_wrong_ones(gated):
    results, printed, _ = gated
    right = results_of(results)["numpy"]
    assert (right.status, right.reason) == (Status.OK, None), printed
    assert right.checks[-1] == Check(GATE, True, "held against the referee")
    assert "3 trials: 1 ok, 2 unverified" in printed


def test_the_tables_leave_an_unverified_trial_out_and_say_so(gated):
    results, *_ = gated
    report = results / "report"
    found = results_of(results)
    for name in ("speed", "accuracy", "memory"):
        rows = dict(re.findall(r"(?m)^\| (\w+) +\| +(.+?) \|$", (report / f"{name}.md").read_text()))
        assert {rows[framework] for framework in WRONG} == {"unverified"}, name
        assert re.match(r"\d", rows["numpy"]), name
    text = (report / "report.md").read_text()
    for framework in WRONG:
        assert found[framework].figures["images_per_s"].value > 0, "the raw figure is kept"
        assert f"- {found[framework].spec.id}: unverified: differs from the referee: " in text


def test_running_again_repeats_the_unverified_trials_and_asks_the_referee_no_more(project, gated):
    results, *_ = gated
    before = results_of(results)
    referee = {path: path.stat().st_mtime_ns for path in results.glob("referee/*/events.jsonl")}
    assert len(referee) == 2
    done = run_in(project, *COMMAND, "--results", results)
    assert done.returncode == 1
    assert "1 of 3 trials are finished" in done.stdout
    after = results_of(results)
    assert after["numpy"] == before["numpy"]
    for framework in WRONG:
        assert after[framework].reason == before[framework].reason
        assert after[framework].figures["images_per_s"] != before[framework].figures["images_per_s"]
    assert {path: path.stat().st_mtime_ns for path in results.glob("referee/*/events.jsonl")} == referee
