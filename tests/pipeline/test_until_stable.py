"""--until-stable from the command line: the end of repeats, the messages, and a second run that goes on from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENT, TINY, run_runner
from copied import copy_project, ignore_neighbours, run_in, without_reports

COMMAND = (
    *TINY,
    *PATIENT,
    *("--framework", "numpy", "--isolation", "here", "--device", "cpu", "--threads", 1),
    *("--batch-size", 32, "--epochs", 1, "--window", 0.2),
)


def repeats(results: Path) -> dict[int, str]:
    """{repeat: checksum of its initial weights}."""
    specs = [json.loads(path.read_text())["spec"] for path in results.glob("trials/*/result.json")]
    return {spec["draw"]["repeat"]: spec["inputs"]["weights"]["sha256"] for spec in specs}


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, Callable[[float], None]]:
    """A copy that never finds a cell stable, until the returned function sets how wide an interval may be. No cell
    drifts."""
    project = copy_project(tmp_path / "project")
    module = project / "runner" / "stable.py"
    original = module.read_text()

    def tolerate(share: float) -> None:
        changed = original.replace("\nTOLERATED = 0.02 ", f"\nTOLERATED = {share} ")
        changed, quiet = changed.replace("\nDRIFT_ERROR = 0.05\n", "\nDRIFT_ERROR = 1e-12\n"), changed
        assert original != changed != quiet
        module.write_text(changed)

    tolerate(0)
    without_reports(project)
    ignore_neighbours(project)
    return project, tolerate


def test_repeats_stop_where_they_should_and_do_not_start_again(
    project: tuple[Path, Callable[[float], None]], tmp_path: Path
) -> None:
    (folder, tolerate), results = project, tmp_path / "results"
    done = run_in(folder, *COMMAND, "--until-stable", 6, "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "numpy batch 32: limit reached, ±" in done.stdout and " % after 6 repeats" in done.stdout
    first = repeats(results)
    assert sorted(first) == [*range(6)] and len(set(first.values())) == 6, "repeats share their initial weights"

    done = run_in(folder, *COMMAND, "--until-stable", 7, "--results", results)
    assert done.returncode == 0 and "5 of 5 trials are finished" in done.stdout, done.stdout + done.stderr
    assert " % after 7 repeats" in done.stdout
    again = repeats(results)
    assert sorted(again) == [*range(7)] and first.items() <= again.items()

    tolerate(100)
    done = run_in(folder, *COMMAND, "--until-stable", "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "numpy batch 32: stable after 7 repeats, ±" in done.stdout
    assert "± of a stable cell contains the true mean, by simulation, in" in " ".join(done.stdout.split())
    assert repeats(results) == again
    (cell,) = json.loads((results / "stable.json").read_text())["cells"]
    assert (cell["framework"], cell["batch_size"], cell["repeats"], cell["ended"]) == ("numpy", 32, 7, "stable")


def test_the_plan_does_not_give_an_open_number_for_certain(tmp_path: Path) -> None:
    done = run_runner(*COMMAND, "--until-stable", "--plan", "--results", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "5 trials to run" in done.stdout
    assert "single repeats until stable, at most 10 in all" in done.stdout


def test_a_limit_below_the_repeats_is_refused(tmp_path: Path) -> None:
    for arguments, least in (((), 6), (("--repeat", 8), 8)):
        done = run_runner(*COMMAND, *arguments, "--until-stable", 5, "--results", tmp_path / "results")
        assert done.returncode == 2
        assert f"--until-stable 5: must be {least} or more" in done.stderr and len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "results").exists()
