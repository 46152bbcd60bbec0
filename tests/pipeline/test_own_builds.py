"""Builds of the caller's, by the real command line and real interpreters."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from conftest import PATIENT, PROJECT, TINY, by_cell, run_runner
from copied import copy_project, run_in

from reports import build, load, parity
from reports.conditions import sections
from runner.environments.definition import read
from workloads.records.check_name import CheckName
from workloads.records.job import OF_THE_CALLER

SHORT = (*TINY, *PATIENT, "--device", "cpu", "--batch-size", 256, "--epochs", 1, "--window", 0.3)
TORCH = read(PROJECT, "pytorch", "cpu").interpreter


def held(result: dict[str, object]) -> list[str]:
    """Whom its framework was held against."""
    checks: list[dict[str, object]] = result["checks"]  # type: ignore[assignment]
    return [str(check["detail"]) for check in checks if check["name"] == CheckName.GATE and check["passed"]]


@pytest.mark.real
def test_two_builds_of_one_framework_stand_in_one_report_each_with_its_row_and_its_checks(
    tmp_path: Path, forgetful: Path
) -> None:
    asked = [
        "--framework",
        "pytorch@a",
        "pytorch@b",
        "--python",
        f"pytorch@a={TORCH}",
        "--python",
        f"pytorch@b={TORCH}",
    ]
    done = run_in(forgetful, *asked, *SHORT, "--results", tmp_path)
    cells = by_cell(tmp_path)
    assert set(cells) == {("pytorch@a", 256), ("pytorch@b", 256)}, done.stdout + done.stderr
    for (name, _), result in cells.items():
        assert result["status"] in ("ok", "contended"), result["reason"]  # on a machine that others use, too
        assert result["spec"]["installation"]["isolation"] == OF_THE_CALLER
        assert result["status"] == "contended" or held(result)[0].startswith("held against the referee")
        facts = result["machine"]["interpreter"]
        assert facts["path"] == str(TORCH) and "Build settings" in facts["configuration"]
        assert result["facts"]["packages"]["torch"] == result["facts"]["framework_version"]
        assert name in done.stdout
    markdown = (tmp_path / "report" / "report.md").read_text()
    assert "| PyTorch @a " in markdown and "| PyTorch @b " in markdown
    (section,), _ = sections(load.read(tmp_path).results)
    assert [tuple(pair) for pair in parity.compare(section)[["framework_a", "framework_b"]].to_numpy()] == [
        ("pytorch@a", "pytorch@b")
    ]
    assert run_in(forgetful, *asked, *SHORT, "--results", tmp_path, "--plan").stdout.count("finished") == sum(
        result["status"] == "ok" for result in cells.values()
    )


def test_a_build_under_its_frameworks_name_needs_no_environment_and_is_another_trial(tmp_path: Path) -> None:
    """In a copy of the project without environments; the interpreter is that of these tests."""
    project = copy_project(tmp_path / "project")
    results = tmp_path / "results"
    asked = ("--framework", "numpy", *SHORT, "--results", results)
    plan = ("--python", f"numpy={sys.executable}", "--plan")
    assert "numpy: numpy referee" in run_in(project, *map(str, (*asked, *plan))).stdout
    done = run_in(project, *map(str, (*asked, "--python", f"numpy={sys.executable}")))
    assert done.returncode == 0 or "contended" in done.stdout, done.stdout + done.stderr
    assert not list((project / ".envs").glob("*-cpu"))  # the report's charts keep a cache of fonts there
    (own,) = by_cell(results).values()
    assert own["spec"]["installation"]["isolation"] == OF_THE_CALLER
    pinned = run_in(project, *map(str, (*asked, "--plan"))).stdout
    assert "1 trial to run" in pinned  # what is stored is not of the pinned environment
    shutil.rmtree(project)
    assert build.report([results]).chapters  # without the interpreter's machine


def test_all_others_are_as_without_it(tmp_path: Path) -> None:
    asked = (
        "--framework",
        "all",
        "numpy",
        "--python",
        f"numpy={sys.executable}",
        "--python",
        f"numpy@b={sys.executable}",
    )
    done = run_runner(*asked, *SHORT, "--results", tmp_path / "results", "--plan")
    names = {line.split()[1] for line in done.stdout.splitlines() if "  batch " in line}
    assert names == {"mxnet", "numpy", "numpy@b", "pytorch", "tensorflow"}, done.stdout + done.stderr


def test_the_list_and_the_plan_name_the_builds(tmp_path: Path) -> None:
    done = run_runner("--list", "--python", f"numpy@mine={sys.executable}")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("  numpy@mine"))
    assert "numpy referee" in line and sys.executable in line
