"""Custom builds, by the real command line and real interpreters; two of one framework: test_examples.py."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from conftest import PATIENT, TINY, by_cell, run_runner
from copied import copy_project, run_in

from reports import build
from workloads.records.job import OF_THE_CALLER

SHORT = (*TINY, *PATIENT, "--device", "cpu", "--batch-size", 256, "--epochs", 1, "--window", 0.3)


def test_a_build_under_its_frameworks_name_needs_no_environment_and_is_another_trial(tmp_path: Path) -> None:
    """A copy of the project without environments is used; the interpreter is that of these tests."""
    project = copy_project(tmp_path / "project")
    results = tmp_path / "results"
    asked = ("--framework", "numpy", *SHORT, "--results", results)
    plan = ("--python", f"numpy={sys.executable}", "--plan")
    assert "numpy: numpy referee" in run_in(project, *map(str, (*asked, *plan))).stdout
    done = run_in(project, *map(str, (*asked, "--python", f"numpy={sys.executable}")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list((project / ".envs").glob("*-cpu"))  # the report's charts keep a cache of fonts there
    (own,) = by_cell(results).values()
    assert own["spec"]["installation"]["isolation"] == OF_THE_CALLER
    pinned = run_in(project, *map(str, (*asked, "--plan"))).stdout
    assert "1 trial to run" in pinned  # what is stored is not of the pinned environment
    shutil.rmtree(project)
    assert build.build_report([results]).chapters  # without the interpreter's machine


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
