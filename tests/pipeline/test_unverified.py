"""The gate from the command line to the tables: frameworks with a mistake in them together with one without."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import PATIENT, TINY, by_cell
from copied import add_framework, copy_project, ignore_neighbours, report_in, run_in, without_reports
from mistaken import DOUBLED, add_mistaken

from workloads.records.check_name import JUDGE, CheckName
from workloads.records.result import Check, TrialResult
from workloads.records.status import Status
from workloads.weights import DISTURBANCES

WRONG = ("doubled", "dimmed")
CONDITIONS = (
    *(*TINY, *PATIENT, "--device", "cpu", "--isolation", "here"),
    *("--batch-size", 16, "--epochs", 1, "--window", 0.5, "--threads", 1),
)
COMMAND = ("--framework", "numpy", *WRONG, *CONDITIONS)


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    add_mistaken(folder, *DOUBLED)
    add_mistaken(folder, "dimmed", "workload = replace(workload, scale=1 / 256)")
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that reports as text and to which no neighbour matters."""
    copied = copy_project(tmp_path_factory.mktemp("project"))
    report_in(copied, "md")
    ignore_neighbours(copied)
    return copied


@pytest.fixture(scope="module")
def gated(project: Path, adapters: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    """(results folder, what the run printed, its exit code)."""
    results = tmp_path_factory.mktemp("results")
    done = run_in(project, *COMMAND, "--adapters", adapters, "--results", results)
    return results, done.stdout + done.stderr, done.returncode


def results_of(folder: Path) -> dict[str, TrialResult]:
    """{framework: its result}."""
    stored = [TrialResult.from_json(json.loads(path.read_text())) for path in folder.glob("trials/*/result.json")]
    return {result.spec.cell.framework: result for result in stored}


@pytest.mark.parametrize(
    ("framework", "told"),
    [
        ("doubled", "the first gradients agree, the change of dense1/bias over 1 step differs by "),
        ("dimmed", "first layer that differs: conv1, its output by "),
    ],
)
def test_a_framework_with_a_mistake_is_unverified_and_told_where_it_begins_and_by_how_much(
    gated: tuple[Path, str, int], framework: str, told: str
) -> None:
    results, printed, code = gated
    result = results_of(results)[framework]
    assert result.status == Status.UNVERIFIED
    figures = r"\d\.\de[+-]\d\d \(allowed \de-0\d\)"
    assert re.fullmatch(f"differs from the referee: {told}{figures}", result.reason or "")
    assert code == 1
    assert f"{result.spec.id}: unverified: {result.reason}" in printed


def test_the_right_framework_stays_ok_beside_wrong_ones(gated: tuple[Path, str, int]) -> None:
    results, printed, _ = gated
    right = results_of(results)["numpy"]
    assert (right.status, right.reason) == (Status.OK, None), printed
    assert right.checks[-1] == Check(CheckName.GATE, True, "compared with the referee", (JUDGE,))
    assert "3 trials: 1 ok, 2 unverified" in printed


def test_the_tables_leave_an_unverified_trial_out_and_say_so(gated: tuple[Path, str, int]) -> None:
    results, *_ = gated
    report = results / "report"
    found = results_of(results)
    for name in ("speed", "accuracy", "memory"):
        rows = dict(re.findall(r"(?m)^\| ([\w ]+?) +\| +(.+?) \|$", (report / f"{name}.md").read_text()))
        assert {rows[framework] for framework in WRONG} == {"unverified"}, name
        assert re.match(r"\d", rows["numpy referee"]), name
    text = (report / "report.md").read_text()
    for framework in WRONG:
        assert (found[framework].figures["images_per_s"].value or 0) > 0, "the raw figure is kept"
        assert f"- {found[framework].spec.id}: unverified: differs from the referee: " in text


def test_running_again_repeats_the_unverified_trials_and_asks_the_referee_no_more(
    project: Path, adapters: Path, gated: tuple[Path, str, int]
) -> None:
    results, *_ = gated
    before = results_of(results)
    probes = {path: path.stat().st_mtime_ns for path in results.glob("probes/*/events.jsonl")}
    names = [path.parent.name for path in probes]
    of_the_referee = 2 + DISTURBANCES
    assert sorted(name.split("-")[0] for name in names) == ["dimmed", "doubled", *["numpy"] * of_the_referee]
    done = run_in(project, *COMMAND, "--adapters", adapters, "--results", results)
    assert done.returncode == 1
    assert "1 of 3 trials are finished" in done.stdout
    after = results_of(results)
    assert after["numpy"] == before["numpy"]
    for framework in WRONG:
        assert after[framework].reason == before[framework].reason
        assert after[framework].figures["images_per_s"] != before[framework].figures["images_per_s"]
    assert {path: path.stat().st_mtime_ns for path in results.glob("probes/*/events.jsonl")} == probes


PROBED = "probed.txt"  # a line for each probe that began
DIES, RAISES = "os.kill(os.getpid(), signal.SIGKILL)", 'raise ValueError("the probe fell")'


@pytest.fixture(scope="module")
def silent(project: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int, str]:
    """Frameworks whose probe fails, at two batch sizes: (results folder, what was printed, exit code, PROBED)."""
    adapters, results = tmp_path_factory.mktemp("silent"), tmp_path_factory.mktemp("results")
    for name, ends in (("dying", DIES), ("raising", RAISES)):
        add_framework(adapters, name, label=f'"{name}"')
        (adapters / name / "adapter.py").write_text(
            f"""\
import os
import signal
from adapters.numpy import adapter

class Adapter(adapter.Adapter):
    def probe(self, images, labels):
        with open({str(adapters / PROBED)!r}, "a") as file:
            print("{name}", file=file)
        {ends}
"""
        )
    done = run_in(
        project, *TINY, *PATIENT, "--adapters", adapters, "--framework", "dying", "numpy", "raising", "--device", "cpu",
        "--isolation", "here", "--batch-size", 32, 64, "--epochs", 1, "--window", 0.3, "--threads", 1,
        "--results", results,
    )  # fmt: skip
    return results, done.stdout + done.stderr, done.returncode, (adapters / PROBED).read_text()


def test_a_framework_whose_probe_dies_or_raises_is_unverified_and_the_run_goes_on(
    silent: tuple[Path, str, int, str],
) -> None:
    results, printed, code, _ = silent
    cells = by_cell(results)
    reasons = {"dying": "the worker was killed by SIGKILL", "raising": "ValueError: the probe fell"}
    for (name, size), result in cells.items():
        if name == "numpy":
            assert (result["status"], result["reason"]) == ("ok", None), size
            continue
        told = f"its framework's probe gave no evidence: failed: {reasons[name]}"
        assert result["status"] == "unverified" and result["reason"].startswith(told)
        assert "(log: probes/" in result["reason"], "where its log is, in the results folder"
    assert cells.keys() == {(name, size) for name in ("dying", "numpy", "raising") for size in (32, 64)}
    assert all(result["figures"]["images_per_s"]["value"] > 0 for result in cells.values()), "a figure was lost"
    assert code == 1 and "6 trials: 2 ok, 4 unverified" in printed
    assert "Traceback" not in printed


def test_the_named_folder_has_what_became_of_each_probe_and_each_was_tried_once(
    silent: tuple[Path, str, int, str],
) -> None:
    results, _, _, probed = silent
    assert sorted(probed.split()) == ["dying", "raising"]
    for name in ("dying", "raising"):
        (folder,) = results.glob(f"probes/{name}-*")
        assert '"probed"' not in (folder / "events.jsonl").read_text()
        assert ("ValueError: the probe fell" in (folder / "log.txt").read_text()) == (name == "raising")


def test_two_commands_into_one_folder_are_told_what_one_command_is(tmp_path: Path) -> None:
    """There is no referee: one against one, both are in doubt, the one that was finished too."""
    project = copy_project(tmp_path / "project")
    without_reports(project)
    add_mistaken(project / "adapters", *DOUBLED)
    gate = project / "runner" / "gate" / "trial_end.py"
    text, count = re.subn(r"(?m)^REFEREE_MULTIPLY_ADDS = .*$", "REFEREE_MULTIPLY_ADDS = 0", gate.read_text())
    assert count == 1
    gate.write_text(text)

    def run(results: Path, *frameworks: str) -> tuple[int, dict[str, tuple[Status, str | None, Check]]]:
        """(exit code, {framework: what the gate says of its result})."""
        done = run_in(project, "--framework", *frameworks, *CONDITIONS, "--results", results)
        found = results_of(results)
        return done.returncode, {name: (one.status, one.reason, one.checks[-1]) for name, one in found.items()}

    apart, together = tmp_path / "apart", tmp_path / "together"
    alone = "nothing to compare with: no other framework; without the referee: the workload is too large for it"
    assert run(apart, "numpy") == (0, {"numpy": (Status.OK, None, Check(CheckName.GATE, False, alone))})
    measured = results_of(apart)["numpy"]
    code, told = run(apart, "doubled")
    assert (code, told) == run(together, "numpy", "doubled")
    assert code == 1
    for name, other in (("numpy", "doubled"), ("doubled", "numpy")):
        status, reason, check = told[name]
        assert status == Status.UNVERIFIED and reason and check == Check(CheckName.GATE, False, reason, (other,))
        assert reason.startswith(
            f"differs from {other}: the first gradients agree, the change of dense1/bias over 1 step differs by "
        )
    rewritten = results_of(apart)["numpy"]
    assert replace(rewritten, status=measured.status, reason=measured.reason, checks=measured.checks) == measured
