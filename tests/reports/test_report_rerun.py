"""A submitted trial that is run again: which endings contradict it, and which software it is compared with."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored import run, store, trained, trial

from reports.submitting.agreement import compare_rerun
from reports.submitting.labels import Label, find_file
from reports.submitting.verification import Submission
from runner.environments import definition
from runner.project import Project
from tools import verify_submission
from tools.submission_rerun import CannotRun, explain_other_software, run_again
from workloads.records.check_name import CheckName
from workloads.records.figures import PRODUCT, Figure
from workloads.records.result import Check, TrialResult
from workloads.records.status import Status


def packages(framework: str) -> dict[str, str]:
    """The versions that would run here, in the spelling of the packages themselves."""
    required = (each.partition("==") for each in definition.read(Project.of_this_code(), framework, "cpu").requires)
    return {name.replace("-", "_"): version for name, _, version in required}


def of_these_packages(framework: str = "pytorch", **others: str) -> TrialResult:
    made = trial(framework, threads=1)  # any machine has as many
    return replace(made, facts=made.facts | {"packages": packages(framework) | others})


def ending(again: TrialResult, asked: list[str]) -> Callable[..., Any]:
    """A runner that stores this result, and adds its command line to `asked`."""

    def ran(command: list[str], **_: object) -> Any:
        asked.extend(command)
        store(Path(command[command.index("--results") + 1]), again)
        return subprocess.CompletedProcess(command, 1, "", "")

    return ran


@pytest.mark.parametrize("status", [Status.DIVERGED, Status.UNVERIFIED])
def test_a_rerun_that_ends_otherwise_contradicts_the_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: Status
) -> None:
    submitted, file = trial(), tmp_path / "mine.tar.xz"
    again = replace(submitted, status=status, reason="made up")
    line = f"status: submitted: ok; run again: {status} (made up)"
    agreement = compare_rerun(submitted, again)
    assert (agreement.label, agreement.findings) == (Label.CLAIMED, (line,))
    file.write_bytes(b"archive")
    monkeypatch.setattr(verify_submission, "verify_submission", lambda file: Submission("1 trial", (submitted,)))
    monkeypatch.setattr(verify_submission, "run_again", lambda submitted, folder: again)
    assert verify_submission.main([str(file)]) == 1
    assert f"{submitted.spec.id}: {line}\n" in capsys.readouterr().out and not find_file(file).exists()


@pytest.mark.parametrize(
    ("status", "failed", "is_compared"),
    [
        (Status.DIVERGED, None, True),
        (Status.UNVERIFIED, CheckName.CORES, True),
        (Status.UNVERIFIED, CheckName.GATE, False),  # without evidence: its framework's probe failed here
        (Status.CONTENDED, None, False),
        (Status.OUT_OF_MEMORY, None, False),
        (Status.TIMEOUT, None, False),
        (Status.FAILED, None, False),
    ],
)
def test_a_rerun_that_a_fault_of_this_machine_ended_contradicts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status, failed: CheckName | None, is_compared: bool
) -> None:
    submitted, asked = of_these_packages(), list[str]()
    checks = [Check(failed, False, "made up")] if failed else []
    again = replace(submitted, status=status, reason="made up", checks=checks)
    monkeypatch.setattr(subprocess, "run", ending(again, asked))
    if is_compared:
        assert run_again(submitted, tmp_path / "rerun").status is status
    else:
        with pytest.raises(CannotRun, match=f"here it ended {status}: made up"):
            run_again(submitted, tmp_path / "rerun")
    assert asked[asked.index("--retry") + 1 :] == ["contended", "unverified"]


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mxnet"])
def test_a_trial_of_the_packages_of_here_is_run_again_and_one_of_others_is_not(framework: str, tmp_path: Path) -> None:
    assert explain_other_software(of_these_packages(framework)) is None
    here = packages(framework)["numpy"]
    other = of_these_packages(framework, numpy="1.0.0")
    assert explain_other_software(other) == f"its numpy is 1.0.0, here {here}"
    with pytest.raises(CannotRun, match=r"its numpy is 1\.0\.0, here"):
        run_again(other, tmp_path / "rerun")
    silent = replace(other, facts={})
    assert "is not reported, here" in (explain_other_software(silent) or "")


def test_losses_that_a_submission_leaves_out_are_compared_with_nothing_and_earn_no_label() -> None:
    losses: list[float | None] = [2.3, 2.2, 2.1, 2.0]
    again = trained(trial(figures={PRODUCT.name: Figure(1e11, "a product")}, first_losses=losses), (0.5, 0.6, 0.7))
    assert compare_rerun(again, again).label is Label.RERUN
    agreement = compare_rerun(replace(again, first_losses=losses[:1]), again)
    assert agreement.label is Label.CLAIMED and agreement.findings == ("first_losses: submitted: 1 of 4 steps",)


def test_another_version_of_the_framework_earns_no_label() -> None:
    measured = trial(figures={PRODUCT.name: Figure(1e11, "a product of matrices")}, first_losses=[2.3])
    submitted = trained(measured, (0.5, 0.6, 0.7))
    assert compare_rerun(submitted, submitted).label is Label.RERUN
    older = replace(submitted, facts=submitted.facts | {"framework_version": "2.12.0"})
    agreement = compare_rerun(older, submitted)
    assert (agreement.label, agreement.findings) == (Label.CLAIMED, ())
    assert agreement.note == "not compared: its framework_version is '2.12.0', here '2.13.0'"


def test_a_submission_cannot_have_the_name_of_a_publications_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.tar.xz"
    ran = run("submit", store(tmp_path / "mine", trial()), "--out", file)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1) and "not be results.tar.xz" in ran.stderr
    file.write_bytes(b"archive")
    assert verify_submission.main([str(file)]) == 2
    line = capsys.readouterr().err
    assert line.endswith("; rename it\n") and line.count("\n") == 1
