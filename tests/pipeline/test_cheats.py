"""Adapters that are correct at first and wrong later, each run together with the correct ones: the gate sees each.

Run with -s to print the table of errors and the checks that caught them: docs/evidence/cheats.md has it.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import PROJECT, REAL_FRAMEWORKS, ROOT
from copied import copy_project, ignore_neighbours, replace_in, report_in, run_in, without_memory_workers

from runner.environments.definition import read
from workloads.records.check_name import COUNTS, LATE_NAMES, CheckName
from workloads.records.end_evidence import END_FILE, EVALUATED_FILE, EVALUATION_FILE, MIDDLE_FILE
from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored_events import read_events

CHEATS = {path.stem: path for path in sorted((ROOT / "tests" / "conformance" / "broken" / "late").glob("*.py"))}
# Eleven full batches of the digits and one of 29; two epochs are 24 steps. The window begins in the third.
CONDITIONS = (
    *("--device", "cpu", "--workload", "lenet-5", "--batch-size", 128, "--epochs", 3, "--window", 1.2),
    *("--threads", 1),
)
SEEN_OF_THE_RIGHT = {
    CheckName.END_EVALUATION,
    CheckName.END_LOSSES,
    CheckName.END_UPDATES,
    CheckName.MIDDLE,
    CheckName.LAST_EVALUATION,
    CheckName.LAST_LOSS,
    CheckName.NOTHING_LEFT,
    CheckName.POSSIBLE,
    CheckName.TIMES,
    CheckName.CALLS_ADD_UP,
}


def announced(path: Path) -> tuple[str, set[str]]:
    """(framework, checks that must fail), read, not imported: its framework is not here."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            framework, failed_checks = ast.literal_eval(node.value)
            return framework, failed_checks
    raise AssertionError(f"{path} does not say what it breaks")


def add_cheat(project: Path, name: str) -> None:
    """Make an adapter's folder, with the environment of its real framework."""
    framework, _ = announced(CHEATS[name])
    folder = project / "adapters" / name
    folder.mkdir()
    shutil.copy(CHEATS[name], folder / "adapter.py")
    definition = PROJECT.definition(framework).read_text()
    (folder / "environment.toml").write_text(re.sub(r"(?m)^label = .*$", f'label = "{name}"', definition))
    share_environment(project, name, framework)


def share_environment(project: Path, name: str, framework: str) -> None:
    """Link the framework's environment, which must be ready, or the runner would make it where the link leads."""
    assert read(PROJECT, framework, "cpu").state == "ready", f"the environment of {framework} is not ready: make setup"
    (project / ".envs" / f"{name}-cpu").symlink_to(read(PROJECT, framework, "cpu").folder.resolve())


def cut_epochs_however_fast_they_are(project: Path) -> None:
    """Let the copy take one step per call, and no segment for too short."""
    worker = project / "adapters" / "worker"
    replace_in(worker / "trainer.py", "CALL_S = 0.1 ", "CALL_S = 0.0 ")
    replace_in(worker / "steady.py", "SHORTEST_S, FEWEST_CALLS = 0.3, 3", "SHORTEST_S, FEWEST_CALLS = 0.0, 3")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, TrialResult], Path, str]:
    """({framework: its result}, results folder, what was printed)."""
    project, results = copy_project(tmp_path_factory.mktemp("project")), tmp_path_factory.mktemp("results")
    (project / ".envs").mkdir()
    for framework in REAL_FRAMEWORKS:
        share_environment(project, framework, framework)
    for name in CHEATS:
        add_cheat(project, name)
    without_memory_workers(project)
    report_in(project, "md")
    ignore_neighbours(project)
    cut_epochs_however_fast_they_are(project)
    done = run_in(project, "--framework", *REAL_FRAMEWORKS, *CHEATS, *CONDITIONS, "--results", results)
    assert done.returncode == 1, done.stdout + done.stderr
    stored = [TrialResult.from_json(json.loads(path.read_text())) for path in results.glob("trials/*/result.json")]
    return {result.spec.cell.framework: result for result in stored}, results, done.stdout


def failed(result: TrialResult) -> dict[str, str]:
    """{check: its detail}, for the gate's failed checks and those that leave no number."""
    return {
        check.name: check.detail
        for check in result.checks
        if not check.passed and check.name in (CheckName.GATE, *COUNTS, *LATE_NAMES)
    }


@pytest.mark.parametrize("name", CHEATS)
def test_the_gate_of_a_normal_run_catches(
    name: str, judged: tuple[dict[str, TrialResult], Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    results, _, printed = judged
    framework, expected = announced(CHEATS[name])
    result, caught = results[name], failed(results[name])
    with capsys.disabled():
        for check, detail in caught.items():
            print(f"\n| {name} | {framework} | {check} | {detail} |", end="")
    assert result.status is Status.UNVERIFIED, printed
    assert expected <= caught.keys()
    assert result.reason in {*caught.values(), *(f"{check}: {detail}" for check, detail in caught.items())}
    assert f"{result.spec.id}: unverified: {result.reason}" in printed


@pytest.mark.parametrize("framework", REAL_FRAMEWORKS)
def test_a_right_framework_stays_ok_beside_them_and_was_looked_at_in_every_way(
    framework: str, judged: tuple[dict[str, TrialResult], Path, str]
) -> None:
    results, _, printed = judged
    result = results[framework]
    assert (result.status, result.reason) == (Status.OK, None), printed
    passed = {check.name for check in result.checks if check.passed}
    assert passed >= {CheckName.GATE, *SEEN_OF_THE_RIGHT}


@pytest.mark.parametrize("name", [*REAL_FRAMEWORKS, "nothing_waits"])
def test_it_was_looked_at_behind_a_segment_of_an_epoch(
    name: str, judged: tuple[dict[str, TrialResult], Path, str]
) -> None:
    results, folder, printed = judged
    events = {event["event"]: event for event in read_events(folder / "trials" / results[name].spec.id / EVENTS_FILE)}
    (_, ended_ns), *_ = events[Event.WINDOW_ENDED]["segments"]
    assert ended_ns < events[Event.EPOCH_TRAINED]["t_ns"], printed


def test_the_tables_leave_what_was_caught_out_and_name_it(judged: tuple[dict[str, TrialResult], Path, str]) -> None:
    results, folder, _ = judged
    report = (folder / "report" / "report.md").read_text()
    for name in CHEATS:
        assert f"- {results[name].spec.id}: unverified: {results[name].reason}" in report
    speeds = dict(re.findall(r"(?m)^\| (\w+) +\| +(.+?) \|$", (folder / "report" / "speed.md").read_text()))
    assert {speeds[name] for name in CHEATS} == {"unverified"}


def test_nothing_large_is_left_of_a_probe(judged: tuple[dict[str, TrialResult], Path, str]) -> None:
    _, folder, _ = judged
    saved = END_FILE, MIDDLE_FILE, EVALUATED_FILE, EVALUATION_FILE.format(epoch="*")
    assert not [file for name in saved for file in folder.glob(f"trials/*/{name}")]
