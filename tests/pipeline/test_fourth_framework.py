"""Another framework is one folder and nothing else: the referee under another name, outside of the checkout."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path

import pytest
from conftest import PROJECT, ROOT, TINY, by_cell, run_runner
from copied import add_framework, run_in

from runner.environments import venv
from runner.environments.definition import read
from runner.project import Project
from tools import check_adapter

LABEL = "Fourth (four)"
UP_TO_PLAIN_SGD, DROPOUT = 4, 8  # rungs


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    """The folder of `--adapters`; "fourth" in it is a rival, whose modules import each other."""
    folder = tmp_path / "adapters"
    add_framework(folder, "fourth", label=f'"{LABEL}"', referee="false")
    for path in (folder / "fourth").glob("*.py"):
        path.write_text(path.read_text().replace("adapters.numpy", "adapters.fourth"))
    return folder


@pytest.fixture
def rungs(adapters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[check_adapter.Rung]:
    """Rungs of "fourth", in the referee's environment."""
    for folder in ("conformance", "imports"):
        monkeypatch.syspath_prepend(ROOT / "tests" / folder)
    suite = import_module("suite")
    referee = read(PROJECT, "numpy", "cpu")
    assert referee.state == "ready", "make setup"
    environments = tmp_path / "environments"
    environments.mkdir()
    for name in ("numpy", "fourth"):
        (environments / f"{name}-cpu").symlink_to(referee.folder.resolve())
    monkeypatch.setattr(suite, "PROJECT", Project(ROOT, environments, adapters))
    return check_adapter.Ladder(suite, "fourth", tmp_path).rungs()


def add_to(adapters: Path, body: str) -> None:
    """Append a class with these lines that is otherwise the adapter."""
    with (adapters / "fourth" / "adapter.py").open("a") as file:
        file.write(f"\n\nclass Changed(Adapter):\n{body}\n\nAdapter = Changed\n")


def test_the_list_shows_it(adapters: Path) -> None:
    done = run_runner("--list", "--adapters", adapters)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("  fourth "))
    assert "not part of all" in line and "referee" not in line
    assert str(adapters / "fourth") in done.stdout  # its line may be wrapped before the path


def test_a_trial_passes_the_gate_and_its_report_shows_its_label(
    adapters: Path, tmp_path: Path, forgetful: Path
) -> None:
    done = run_in(
        forgetful,
        *("--adapters", adapters, "--framework", "fourth", "--isolation", "here", "--device", "cpu", *TINY),
        *("--batch-size", 64, "--epochs", 1, "--window", 0.3, "--results", tmp_path / "results"),
    )
    cell = by_cell(tmp_path / "results")["fourth", 64]
    assert cell["status"] == "ok", done.stdout + done.stderr
    assert cell["machine"]["framework_label"] == LABEL
    assert LABEL in (tmp_path / "results" / "report" / "report.md").read_text()


@pytest.mark.real
def test_it_climbs_to_plain_sgd_and_no_other_case_is_run(
    rungs: Iterator[check_adapter.Rung], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_adapter.climb(islice(rungs, UP_TO_PLAIN_SGD)) == 0, capsys.readouterr().out
    written = {path.stem for path in tmp_path.rglob("*.npz")}
    assert written == {"plain-sgd"}


@pytest.mark.real
def test_it_begins_at_the_rung_that_is_named_makes_the_referee_and_says_how_far_it_is(
    rungs: Iterator[check_adapter.Rung], adapters: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    made: list[str] = []
    monkeypatch.setattr(check_adapter, "PROGRESS_S", 0.2)
    monkeypatch.setattr(venv, "make", lambda environment, say: made.append(environment.framework))
    assert check_adapter.climb(islice(rungs, DROPOUT), DROPOUT) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    assert made == ["fourth", "numpy"]
    assert [f"{number}. " in printed and "skipped" in printed for number in range(4, DROPOUT)] == [True] * 4
    assert printed.count("skipped") == 4 and f"{DROPOUT}. Dropout and StochasticDepth: passed" in printed
    assert re.search(r"^   \d of 4 computed, \d+ s$", printed, re.MULTILINE)
    assert "Each rung that ran passed." in printed


@pytest.mark.real
@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (  # no trace at all: each probe draws the masks that the next step will draw
            "    def probe(self, images, labels):\n"
            "        state = self.generator.bit_generator.state\n"
            "        probe = super().probe(images, labels)\n"
            "        self.generator.bit_generator.state = state\n"
            "        return probe",
            "",
        ),
        (
            "    def new_pass(self, training):\n"
            "        self.generator = np.random.Generator(np.random.PCG64(3))\n"
            "        return super().new_pass(training)",
            "their masks are the same",
        ),
    ],
    ids=["the same masks in every probe", "the same masks in every step"],
)
def test_dropout_draws_new_masks_in_every_step_and_a_probe_may_leave_the_generator_as_it_was(
    adapters: Path, rungs: Iterator[check_adapter.Rung], capsys: pytest.CaptureFixture[str], body: str, wrong: str
) -> None:
    add_to(adapters, body)
    assert check_adapter.climb(islice(rungs, DROPOUT), DROPOUT) == int(bool(wrong))
    assert wrong in capsys.readouterr().out


@pytest.mark.real
@pytest.mark.parametrize(
    ("body", "said", "look_at"),
    [
        ("    def predict(self, images):\n        raise NotImplementedError('predict')", "Error: predict", "traceback"),
        (
            "    def predict(self, images):\n        return super().predict(images) + 1",
            "plain-sgd: forward: ",
            "scale of",
        ),
        (
            "    def probe(self, images, labels):\n"
            "        probe = super().probe(images, labels)\n"
            "        return Probe(probe.loss, dict(reversed(probe.outputs.items())), probe.gradients)",
            "layers: Probe.outputs is in a different order: dense2 is where conv1 belongs",
            "workload.walk()",
        ),
        (
            "    def probe(self, images, labels):\n"
            "        probe = super().probe(images, labels)\n"
            "        return Probe(2 * probe.loss, probe.outputs, probe.gradients)",
            "losses: the loss of probe() differs by ",
            "probe(), step 1: ",
        ),
        (
            "    def read(self, handle):\n        return super().read(handle)[:-1]",
            "losses: read() gives ",
            "each row of `order` is one step",
        ),
        ("    def synchronize(self):\n        self.workload.layers", "no attribute 'workload'", "traceback"),
        (  # the gate's probe subtracts them, which ends the process
            "    def weights(self):\n        return {key: array.T for key, array in super().weights().items()}",
            "plain-sgd: structure: weights [",
            "canonical layouts",
        ),
        (
            "    def snapshot(self):\n        raise RuntimeError('no snapshot')",
            "RuntimeError: no snapshot",
            "traceback",
        ),
    ],
    ids=[
        "half-written",
        "another forward pass",
        "another order",
        "another loss in the probe",
        "too few losses",
        "synchronize needs a model",
        "another layout",
        "an end that no array shows",
    ],
)
def test_it_stops_at_the_first_check_that_fails_and_says_what_to_look_at(
    adapters: Path,
    rungs: Iterator[check_adapter.Rung],
    capsys: pytest.CaptureFixture[str],
    body: str,
    said: str,
    look_at: str,
) -> None:
    add_to(adapters, body)
    assert check_adapter.climb(rungs) == 1
    printed = capsys.readouterr().out
    assert "3. the environment is made, its smoke import passes: passed" in printed
    assert "4. the plain network with plain SGD: NOT YET" in printed
    assert said in printed and look_at in printed.split("look at: ")[1]
    assert "5. " not in printed


@pytest.mark.real
def test_a_bad_definition_or_import_stops_it_before_anything_is_made(
    adapters: Path, rungs: Iterator[check_adapter.Rung], capsys: pytest.CaptureFixture[str]
) -> None:
    with (adapters / "fourth" / "layers.py").open("a") as file:
        file.write("import torch\n")
    assert check_adapter.climb(rungs) == 1
    printed = capsys.readouterr().out
    assert "2. imports: NOT YET" in printed and "layers.py" in printed and "imports torch" in printed
    definition = adapters / "fourth" / "environment.toml"
    definition.write_text(definition.read_text().replace("smoke = ", "smokes = "))
    ladder = check_adapter.Ladder(sys.modules["suite"], "fourth", adapters)
    assert check_adapter.climb(ladder.rungs()) == 1
    assert "fourth/environment.toml: unknown key 'smokes'; did you mean 'smoke'?" in capsys.readouterr().out


@pytest.mark.real
def test_every_case_of_the_suite_is_in_one_rung_and_every_check_says_what_to_look_at(
    rungs: Iterator[check_adapter.Rung], tmp_path: Path
) -> None:
    suite = sys.modules["suite"]
    chosen = check_adapter.Ladder(suite, "fourth", tmp_path).cases()
    assert all(chosen.values())
    assert chosen[check_adapter.PLAIN] == ["plain-sgd"]
    assert chosen[check_adapter.DROPOUT] == ["dropout", "stochastic-depth"]
    of_default = (case.name for case in suite.CASES.values() if case.profile == "default")  # it has no other
    assert sorted(name for names in chosen.values() for name in names) == sorted(of_default)
    assert check_adapter.LOOK_AT.keys() == suite.CHECKS.keys() | suite.DROPOUT_CHECKS.keys()


def test_the_command_says_what_is_wrong_with_a_definition_that_nothing_can_read(tmp_path: Path) -> None:
    (tmp_path / "fourth").mkdir()
    (tmp_path / "fourth" / "environment.toml").write_text("label = 4\n")
    command = [sys.executable, "-m", "tools.check_adapter", "fourth", "--adapters", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "1. the definition can be read: NOT YET" in done.stdout and "'label' must be a str" in done.stdout


def test_an_unknown_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_adapter.main(["nobodys"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
