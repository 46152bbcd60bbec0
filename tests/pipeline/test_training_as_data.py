"""Optimizers, schedules and augmentation by the real command line: one study, every framework the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENT, REAL_FRAMEWORKS, TINY, by_cell
from copied import add_examples, run_in

from workloads.records.check_name import LATE_NAMES, CheckName

ASKED = ("--device", "cpu", "--batch-size", 16, "--epochs", 2, "--window", 0.3, *PATIENT)
NUMPY = (*TINY, *ASKED, "--framework", "numpy", "--isolation", "here")
TRAINING = ("--optimizer", "adamw", "--schedule", "cosine", "--warm-up", 0.2, "--augment", "flip-crop")


def test_two_schedules_are_two_tables_and_each_is_judged_at_its_own_rates(tmp_path: Path, forgetful: Path) -> None:
    results = tmp_path / "results"
    for more in ((), ("--schedule", "one-cycle"), ("--schedule", "step", "--weight-decay", 0.01)):
        done = run_in(forgetful, *NUMPY, "--optimizer", "nesterov", *more, "--results", results)
        assert done.returncode == 0, done.stdout + done.stderr
    report = (results / "report" / "report.md").read_text()
    assert "learning rate 0.01, one-cycle schedule" in report
    assert "learning rate 0.01, step schedule, weight decay 0.01" in report
    assert sum(line.startswith("## ") and line[3].isdigit() for line in report.splitlines()) == 3
    (rates, other) = sorted((results / "inputs").glob("rates-b16-*.npy"))
    assert np.load(rates).shape == np.load(other).shape == (8,)
    stored = [json.loads(path.read_text()) for path in results.glob("trials/*/result.json")]
    assert [result["status"] for result in stored] == ["ok"] * 3
    planned = run_in(forgetful, *NUMPY, "--optimizer", "nesterov", "--plan", "--results", results).stdout
    assert "0 trials to run" in planned and planned.count("finished") == 1, planned


def test_a_rate_scaled_with_the_batch_size_is_one_table_of_all_batch_sizes(tmp_path: Path, forgetful: Path) -> None:
    results = tmp_path / "results"
    asked = (*TINY, *ASKED[:2], "--batch-size", 8, 32, *ASKED[4:], "--framework", "numpy", "--isolation", "here")
    scaled = ("--scale-learning-rate", "linear", "--base-batch-size", 8, "--learning-rate", 0.005)
    done = run_in(forgetful, *asked, *scaled, "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = by_cell(results)
    assert {result["status"] for result in cells.values()} == {"ok"}
    for (_, batch_size), result in cells.items():
        (rate,) = set(np.load(results / result["spec"]["inputs"]["rates"]["path"]).tolist())
        assert rate == np.float32(0.005 * batch_size / 8)
    report = (results / "report" / "report.md").read_text()
    assert "learning rate 0.005 x batch size / 8" in report
    assert sum(line.startswith("## ") and line[3].isdigit() for line in report.splitlines()) == 1


def test_each_split_of_an_update_is_a_row_of_one_table_and_the_gate_holds_all_of_them(
    tmp_path: Path, forgetful: Path
) -> None:
    results, command = tmp_path / "results", add_examples(forgetful) / "accumulation.sh"
    asked = (*TINY, "--device", "cpu", "--framework", "numpy", "--isolation", "here", "--epochs", 2, "--window", 0.3)
    done = subprocess.run(
        [command, "48", *map(str, (*asked, *PATIENT, "--schedule", "cosine", "--results", results))],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    stored = [json.loads(path.read_text()) for path in sorted(results.glob("trials/*/result.json"))]
    splits = [(result["spec"]["task"]["accumulate"], result["spec"]["cell"]["batch_size"]) for result in stored]
    assert sorted(splits) == [(1, 48), (2, 24)]  # 48 in 4 parts would be 12 images each
    for result in stored:
        assert [epoch["steps"] for epoch in result["epochs"]] == [2, 2]  # of 64 images: 48 and 16
        assert all(check["passed"] for check in result["checks"] if check["name"] in (CheckName.GATE, *LATE_NAMES))
        assert result["first_losses"] == pytest.approx(stored[0]["first_losses"], rel=1e-5)
    report = (results / "report" / "report.md").read_text()
    assert "Accumulation: updates of 48 images in parts" in report and "accumulation 2 batches per update" in report
    (rates,) = (results / "inputs").glob("rates-b48-*.npy")
    assert np.load(rates).shape == (4,)


@pytest.mark.real
@pytest.mark.parametrize(
    ("feed", "modes", "told"),
    [
        ("host", ("", "@tuned"), "in every step: the speed is with"),
        ("device", ("",), "before each epoch: the speed is without"),
    ],
)
def test_every_framework_is_given_the_same_rates_and_images_and_the_gate_holds_them_to_it(
    feed: str, modes: tuple[str, ...], told: str, tmp_path: Path, forgetful: Path
) -> None:
    results, profiles = tmp_path / "results", [mode.lstrip("@") or "default" for mode in modes]
    asked = (*ASKED, *TRAINING, "--dataset", "digits-64", "--feed", feed, "--profile", *profiles)
    done = run_in(forgetful, *asked, "--framework", "all", "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = by_cell(results)
    columns = {name for name, _ in cells}
    assert columns == {f"{name}{mode}" for name in REAL_FRAMEWORKS for mode in modes}
    assert {result["status"] for result in cells.values()} == {"ok"}
    (inputs,) = {str(result["spec"]["inputs"]) for result in cells.values()}
    assert "rates" in inputs and "augmentation" in inputs
    names = (CheckName.GATE, CheckName.END_UPDATES)
    for result in cells.values():
        assert [check["passed"] for check in result["checks"] if check["name"] in names] == [True, True]
        assert result["figures"]["augment_s"]["value"] > 0
    assert f"flip-crop, {told} its cost" in (results / "report" / "report.md").read_text()
