"""`python -m reports RESULTS --target-accuracy SHARE`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from stored import ended, numbers, rows, run, store, trial

from reports import build
from workloads.records.figures import TARGET_TIME
from workloads.records.result import Epoch, TrialResult, select_epochs
from workloads.records.status import Status


def trained(framework: str, *accuracies: float, repeat: int = 0, batch_size: int = 32) -> TrialResult:
    """A trial whose epochs took 1.5 s each."""
    epochs = [Epoch(1.5, 10, 320, 0.5, 0.2, 0.5, accuracy) for accuracy in accuracies]
    return replace(trial(framework, batch_size, repeat), epochs=epochs)


def test_epochs_count_up_to_the_first_that_reached_it_whatever_came_behind() -> None:
    epochs = trained("pytorch", 0.5, 0.9, 0.8, 0.95).epochs
    assert [len(select_epochs(epochs, share)) for share in (0.4, 0.9, 0.91, 0.96)] == [1, 2, 4, 0]


def test_the_time_of_training_up_to_the_target_is_a_table_that_names_it(tmp_path: Path) -> None:
    results = store(
        tmp_path, trained("pytorch", 0.5, 0.9), trained("mxnet", 0.9, 0.8), trained("pytorch", 0.9, batch_size=64)
    )
    done = run(results, "--target-accuracy", 0.9, "--format", "md", "csv", "--tables")
    assert done.returncode == 0 and "Training time up to a test accuracy of 90 %, s" in done.stdout
    table = rows(results / "report" / "target-time.md")
    assert table == {"Framework / batch size": ["32", "64"], "PyTorch": ["3.00", "1.50"], "MXNet": ["1.50", "not run"]}


def test_a_cell_of_which_a_repeat_did_not_reach_it_has_no_time_and_says_so(tmp_path: Path) -> None:
    """Otherwise it would be the time of those that did."""
    lucky = [trained("pytorch", 0.9, repeat=0), trained("pytorch", 0.5, 0.625, repeat=1)]
    fallen = ended(Status.FAILED, "it fell", "mxnet", repeat=1)
    results = store(tmp_path, *lucky, trained("mxnet", 0.9), fallen)
    assert run(results, "--target-accuracy", 0.9, "--format", "md", "csv").returncode == 0
    cells = {row["framework"]: row for row in numbers(results / "report" / "target-time.csv")}
    assert (cells["pytorch"]["status"], cells["pytorch"]["n"]) == ("unknown", "0")
    assert "not reached: repeat 1 reached 62.50 %" in cells["pytorch"]["notes"]
    assert (cells["mxnet"]["status"], cells["mxnet"]["median"]) == ("ok", "1.5"), (
        "a crash is no training that fell short"
    )


def test_a_repeat_that_falls_short_on_another_machine_takes_no_time_away(tmp_path: Path) -> None:
    here = [trained("pytorch", 0.9, repeat=repeat) for repeat in range(2)]
    away = [trained("pytorch", 0.9 - 0.3 * repeat, repeat=repeat) for repeat in range(2)]
    away = [replace(each, machine=each.machine | {"cpu_model": "Another CPU"}) for each in away]
    folders = [store(tmp_path / "here", *here), store(tmp_path / "away", *away)]
    sections = build.build_report(folders, target_accuracy=0.85).sections
    times = [[result.figures[TARGET_TIME.name].value for result in section.results] for section in sections]
    assert sorted(times, key=str) == [[1.5, 1.5], [None, None]]


def test_a_target_that_no_trial_reached_is_a_line_and_without_one_there_is_no_such_table(tmp_path: Path) -> None:
    results = store(tmp_path, trained("pytorch", 0.5))
    done = run(results, "--target-accuracy", 0.99, "--format", "md", "csv", "--tables")
    assert "test accuracy of 99 %" in done.stdout and "not reached: repeat 0 reached 50.00 %" in done.stdout
    assert not (results / "report" / "target-time.csv").exists()
    results = store(tmp_path / "2", trained("pytorch", 0.9))
    assert "up to a test accuracy" not in run(results, "--format", "md", "csv").stdout


@pytest.mark.parametrize("share", ["0", "1.5", "90", "nan", "much"])
def test_a_target_that_is_no_share_is_refused_in_a_line(
    share: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = store(tmp_path, trained("pytorch", 0.9))
    if share == "much":
        with pytest.raises(SystemExit, match="2"):
            run(results, "--target-accuracy", share)
    else:
        done = run(results, "--target-accuracy", share)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1) and "--target-accuracy" in done.stderr
    assert not (results / "report").exists()
