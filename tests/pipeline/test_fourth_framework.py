"""Another framework is one folder and nothing else: the referee under another name, outside of the checkout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path

import pytest
from conftest import PROJECT, ROOT, TINY, by_cell, run_runner
from copied import add_framework

from runner.environments.definition import read
from runner.project import Project
from tools import check_adapter

LABEL = "Fourth (four)"
UP_TO_PLAIN_SGD = 4  # rungs


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
    """Of "fourth", in the referee's environment."""
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
    """Lines of a class that is the adapter but for them."""
    with (adapters / "fourth" / "adapter.py").open("a") as file:
        file.write(f"\n\nclass Changed(Adapter):\n{body}\n\nAdapter = Changed\n")


def test_the_list_shows_it(adapters: Path) -> None:
    done = run_runner("--list", "--adapters", adapters)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("  fourth "))
    assert str(adapters / "fourth") in line and "referee" not in line


def test_a_trial_passes_the_gate_and_its_report_shows_its_label(adapters: Path, tmp_path: Path) -> None:
    done = run_runner(
        *("--adapters", adapters, "--framework", "fourth", "--isolation", "here", "--device", "cpu", *TINY),
        *("--batch-size", 64, "--epochs", 1, "--window", 0.3, "--results", tmp_path / "results"),
    )
    cell = by_cell(tmp_path / "results")["fourth", 64]
    assert cell["status"] in ("ok", "contended"), done.stdout + done.stderr  # on a machine that others use, too
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
            "layers: Probe.outputs is ordered otherwise: dense2 stands where conv1 belongs",
            "workload.walk()",
        ),
    ],
    ids=["half-written", "another forward pass", "another order"],
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
    assert "3. the environment is made, its smoke import passes: holds" in printed
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
    assert "fourth/environment.toml: 'smoke' is missing" in capsys.readouterr().out


@pytest.mark.real
def test_every_case_of_the_suite_is_in_one_rung_and_every_check_says_what_to_look_at(
    rungs: Iterator[check_adapter.Rung], tmp_path: Path
) -> None:
    suite = sys.modules["suite"]
    chosen = check_adapter.Ladder(suite, "fourth", tmp_path).cases()
    assert all(chosen.values())
    assert chosen[check_adapter.PLAIN] == ["plain-sgd"] and chosen[check_adapter.DROPOUT] == ["dropout"]
    of_default = (case.name for case in suite.CASES.values() if case.profile == "default")  # it has no other
    assert sorted(name for names in chosen.values() for name in names) == sorted(of_default)
    assert check_adapter.LOOK_AT.keys() == suite.CHECKS.keys() | suite.DROPOUT_CHECKS.keys()


def test_an_unknown_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_adapter.main(["nobodys"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
