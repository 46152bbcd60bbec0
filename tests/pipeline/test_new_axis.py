"""A new axis of a study: how many files of the product it touches, and what follows from them without more."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from copied import copy_project, replace_in, run_in
from stored import store, trial

from workloads.conditions import SETTINGS
from workloads.records.job import Passes, Placement, Task

MOST_FILES = 6  # besides the adapters and their workers, which do something with it
# {file: (a text of it, what is added before that text)}: noise of the training images, which no framework knows.
AXIS = {
    "workloads/records/job.py": ("\n\n@dataclass(frozen=True)\nclass Passes:", "    jitter: int = 0  # percent\n"),
    "workloads/study.py": (
        "    accumulate: Count = define_key(",
        '    jitter: int = define_key(0, TRAINING, "noise that is added to the training images", "PERCENT")\n',
    ),
    "workloads/conditions.py": (
        '    Setting("optimizer", "optimizer",',
        '    Setting("jitter", "jitter", lambda percent, _: f"{percent} %", usual="none", column="percent of noise",\n'
        '            phrase="{name} of {words}"),\n',
    ),
}
# Fields that are no setting of the registry: a condition of another name says them.
SAID_OTHERWISE = {"precision", "memory_limit_bytes", "control_group", "others"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project that has the axis."""
    copy = copy_project(tmp_path_factory.mktemp("project"))
    for file, (text, added) in AXIS.items():
        replace_in(copy / file, text, added + text)
    return copy


def run_python(project: Path, *words: object) -> str:
    """Run Python in the copy and return what it prints."""
    environment = os.environ | {"PYTHONPATH": str(project)}
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_axis_touches_three_files_of_the_product_besides_the_adapters() -> None:
    assert len(AXIS) == 3 <= MOST_FILES
    assert not any(file.startswith("adapters/") for file in AXIS)


def test_the_command_line_a_study_its_series_and_the_plan_have_the_axis(project: Path, tmp_path: Path) -> None:
    shown = run_in(project, "--help-all").stdout
    assert "  --jitter PERCENT      noise that is added to the training images\n" in shown
    study = tmp_path / "noisy.toml"
    study.write_text(
        'workload = "tiny"\ndataset = "digits-64"\nframeworks = ["numpy"]\nbatch_sizes = [8]\n'
        '[[series]]\nname = "plain"\n[[series]]\nname = "noisy"\njitter = 5\n'
    )
    plan = ("--study", study, "--device", "cpu", "--isolation", "here", "--plan", "--results", tmp_path / "results")
    planned = run_in(project, *plan)
    assert planned.returncode == 0 and "2 trials to run" in planned.stdout, planned.stdout + planned.stderr
    refused = run_in(project, *plan, "--jitter", "many")
    assert refused.returncode == 2 and "--jitter: 'many' is not a whole number" in refused.stderr
    code = (
        "from pathlib import Path; from workloads.study_file import read; "
        f"print(*(part.task.jitter for part in read(Path({str(study)!r})).parts.values()))"
    )
    assert run_python(project, "-c", code) == "0 5\n"


def test_an_id_a_heading_the_lists_of_conditions_and_the_columns_have_the_axis(project: Path, tmp_path: Path) -> None:
    plain, noisy = trial("pytorch"), trial("mxnet")
    results = store(tmp_path / "results", plain, noisy)
    file = results / "trials" / noisy.spec.id / "result.json"
    stored = json.loads(file.read_text())
    stored["spec"]["task"]["jitter"] = 5
    file.write_text(json.dumps(stored))
    code = (
        "import json, sys; from workloads.records.job import TrialSpec; "
        "print(TrialSpec.from_json(json.load(open(sys.argv[1]))['spec']).id)"
    )
    ids = [
        run_python(project, "-c", code, results / "trials" / result.spec.id / "result.json").strip()
        for result in (plain, noisy)
    ]
    assert ids[0] == plain.spec.id, "what is at its default is in no id"
    assert ids[1] != noisy.spec.id

    out = tmp_path / "report"
    run_python(project, "-m", "reports", results, "--format", "md", "csv", "--out", out)
    report = (out / "report.md").read_text()
    headings = [line for line in report.splitlines() if line.startswith(("## 1. ", "## 2. "))]
    assert [heading.partition("; ")[2] for heading in headings] == ["jitter none", "jitter 5 %"]
    assert "learning rate 0.01, jitter of 5 %; batch size 32" in report, "what was run"
    assert "; jitter 5 %; optimizer SGD" in (out / "speed-2.md").read_text()
    assert "jitter" not in (out / "speed-1.md").read_text()
    with (out / "trials.csv").open() as opened:
        assert {row["framework"]: row["jitter"] for row in csv.DictReader(opened)} == {"pytorch": "0", "mxnet": "5"}
    assert "| `jitter` | percent of noise |" in run_python(project, "-m", "reports.trial_rows")


def test_every_field_of_a_trials_task_passes_and_placement_is_a_condition() -> None:
    every = {each.name for part in (Task, Passes, Placement) for each in fields(part)}
    assert {setting.field for setting in SETTINGS} == every - SAID_OTHERWISE
