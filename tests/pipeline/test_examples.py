"""Each file of examples/ by the real command line, with real frameworks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import photographs
import pytest
from conftest import PATIENT, PROJECT, REAL_FRAMEWORKS, ROOT, TINY, bare_environment, by_cell
from copied import add_examples, run_in

from reports import load, parity
from reports.batch_size import answers
from reports.conditions import group_into_sections
from runner.environments.definition import read
from workloads.records.check_name import CheckName
from workloads.records.job import OF_THE_CALLER

EXAMPLES = ROOT / "examples"
CHECKED = {CheckName.GATE, CheckName.END_EVALUATION}  # not the last updates: all is learnt, they are rounding

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 480 and 120 JPEGs of several modes and sizes."""
    folder = tmp_path_factory.mktemp("data") / "photos"
    photographs.write(folder, 480, 120)
    return folder


@pytest.fixture
def on_photos(photos: Path, forgetful: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return the command, with the data set of `photos`."""
    return partial(run_in, forgetful, "--dataset", photos)


def assert_trusted(result: dict[str, Any]) -> None:
    """Check that it ended well and passed the gate without remarks."""
    assert (result["status"], result["reason"]) == ("ok", None)
    assert names_of_passed(result) >= CHECKED


def names_of_passed(result: dict[str, Any]) -> set[str]:
    """Names of the checks of a result that passed."""
    return {check["name"] for check in result["checks"] if check["passed"]}


@pytest.mark.parametrize(
    ("workload", "framework", "training", "accuracy"),
    [
        # One framework is enough for what is learnt: the conformance suite shows that all compute these layers alike.
        (EXAMPLES / "my_cnn.py", "pytorch", ("--epochs", 5, "--optimizer", "adamw", "--learning-rate", 0.003), 0.9),
        ("vit-tiny", "mxnet", ("--epochs", 3, "--optimizer", "adam", "--learning-rate", 0.0005), 0.8),
    ],
    ids=["a narrow ResNet-18", "the vision transformer"],
)
def test_a_folder_of_jpegs_is_learnt_and_the_gate_stays_on(
    workload: Path | str, framework: str, training: tuple[object, ...], accuracy: float,
    on_photos: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path,
) -> None:  # fmt: skip
    done = on_photos(
        "--framework", framework, "--device", "cpu", "--workload", workload, *training,
        "--schedule", "cosine", "--batch-size", 32, "--window", 1, *PATIENT, "--results", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = by_cell(tmp_path).values()
    assert_trusted(result)
    assert result["epochs"][-1]["images"] == 480
    assert result["epochs"][-1]["test_accuracy"] >= accuracy  # three kinds: guessing gives 0.33
    report = (tmp_path / "report" / "report.md").read_text()
    assert f"{Path(workload).stem.replace('_', '-')} on photos" in report
    assert "images 480 to train on and 120 to test with" in report and "fit stretch" in report


def test_the_study_runs_as_it_is_written(tmp_path: Path, unreported: Path) -> None:
    """One framework: PyTorch trains its network in the test above, and all train by this rule and schedule in
    test_training_as_data.py."""
    done = run_in(
        unreported,
        "--study", EXAMPLES / "my_study.toml", "--framework", "tensorflow", "--device", "cpu", "--epochs", 1,
        "--batch-size", 128, "--window", 0.5, *PATIENT, "--results", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (cell,) = by_cell(tmp_path).items()
    assert cell[0] == ("tensorflow", 128)
    assert_trusted(cell[1])
    assert cell[1]["spec"]["task"]["optimizer"]["name"] == "adamw"


def test_two_builds_of_one_framework_are_two_rows_of_one_report_each_checked(tmp_path: Path, forgetful: Path) -> None:
    python = read(PROJECT, "pytorch", "cpu").interpreter
    command = [
        add_examples(forgetful) / "two_builds.sh", "pytorch", python, python, *TINY, "--device", "cpu",
        "--batch-size", "16", "--epochs", "1", "--window", "0.5", *PATIENT, "--results", tmp_path,
    ]  # fmt: skip
    run = partial(subprocess.run, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    done = run(command)
    assert done.returncode == 0, done.stdout + done.stderr
    cells, builds = by_cell(tmp_path), {"pytorch@stable", "pytorch@other"}
    assert set(cells) == {(build, 16) for build in builds}
    for (build, _), result in cells.items():
        assert_trusted(result)
        assert_checked_as_build_of(result, str(python))
        assert build in done.stdout
    report = (tmp_path / "report" / "report.md").read_text()
    assert "| PyTorch @stable " in report and "| PyTorch @other " in report
    speed = (tmp_path / "report" / "speed.md").read_text()
    assert "stable" in speed and "other" in speed
    (section,), _ = group_into_sections(load.read(tmp_path).results)
    pairs = parity.compare(section)[["framework_a", "framework_b"]].to_numpy()
    assert [set(pair) for pair in pairs] == [builds]
    assert run([*command, "--plan"]).stdout.count("finished") == 2


def test_a_model_of_pytorch_is_imported_proven_and_trained_in_every_framework_and_given_a_batch_size(
    forgetful: Path,
) -> None:
    """The commands of the page, on few images; the search with a short window and in the model's own framework alone,
    for it takes a minute in each."""
    page = (add_examples(forgetful) / "import_my_model.md").read_text()
    described, trained, searched = (line.split() for line in re.findall(r"^ {7}(\S.+)$", page, re.MULTILINE))
    photographs.write(forgetful / "photos", 9, 6)
    run = partial(
        subprocess.run, cwd=forgetful, env=bare_environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=900,
    )  # fmt: skip
    layers = run(described)
    assert layers.returncode == 0 and "blocks.2.shortcut.1" in layers.stdout, layers.stdout + layers.stderr
    searched[searched.index("--window") + 1] = "0.2"
    searched[searched.index("--framework") + 1] = "pytorch"
    proof = r"^my-torch-net: the imported network is your model: forward \S+, gradients \S+, three updates \S+ of"
    for command in (trained, searched):
        done = run([*command, "--device", "cpu"])
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(proof, done.stdout, re.MULTILINE)
        assert (forgetful / command[command.index("--results") + 1] / "report" / "report.md").exists()
    cells = by_cell(forgetful / "results" / "my-model")
    assert set(cells) == {(framework, 16) for framework in REAL_FRAMEWORKS}
    for result in cells.values():
        assert_trusted(result)
        assert CheckName.SOURCE in names_of_passed(result)
    stored = answers.read(forgetful / "results" / "my-batch-size")
    assert stored is not None
    (found,) = stored.frameworks
    assert found.framework == "pytorch" and found.fastest and found.fastest.batch_size in range(1, 10)


def assert_checked_as_build_of(result: dict[str, Any], python: str) -> None:
    """Check that it ran with this interpreter, was compared with the referee, and says what the build is."""
    assert result["spec"]["installation"]["isolation"] == OF_THE_CALLER
    gate = [check for check in result["checks"] if check["name"] == CheckName.GATE]
    assert gate[0]["passed"] and gate[0]["detail"].startswith("compared with the referee")
    facts = result["machine"]["interpreter"]
    assert facts["path"] == python and "Build settings" in facts["configuration"]
    assert result["facts"]["packages"]["torch"] == result["facts"]["framework_version"]
