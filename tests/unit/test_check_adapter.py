"""Rungs of `make check-adapter` that need no environment: each says in one line what is wrong, and where to look."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import PROJECT, ROOT
from copied import add_framework
from each import for_each

from runner.project import Project
from tools.check_adapter import Fallen, Ladder

NAME = "fourth"


def make_ladder(folder: Path, adapters: Path, name: str = NAME, **suite: Any) -> Ladder:
    """Rungs that write below `folder`, with as much of a suite as they ask for."""
    project = Project(ROOT, folder / "environments", adapters)
    asked: dict[str, Any] = {"PROJECT": project, "known_deviations": lambda framework: {}} | suite
    return Ladder(SimpleNamespace(**asked), name, folder)


@pytest.fixture
def ladder(tmp_path: Path) -> Ladder:
    """Rungs of the referee under another name, whose modules import each other."""
    add_framework(tmp_path / "adapters", NAME, referee="false")
    for path in (tmp_path / "adapters" / NAME).glob("*.py"):
        path.write_text(path.read_text().replace("adapters.numpy", f"adapters.{NAME}"))
    return make_ladder(tmp_path, tmp_path / "adapters")


def fall(rung: Callable[[], None]) -> tuple[str, str]:
    """(what is wrong, what to look at) of a rung that fails."""
    with pytest.raises(Fallen) as raised:
        rung()
    wrong, look_at = raised.value.args
    return wrong, look_at


@for_each("name", [*PROJECT.frameworks, "minimal"])
def test_every_definition_of_the_project_and_of_its_example_passes_the_first_rung(name: str, tmp_path: Path) -> None:
    make_ladder(tmp_path, ROOT / "examples" / "adapters", name).definition()


@pytest.mark.parametrize(
    ("pattern", "new", "said"),
    [
        (r"requires = .*", "", "[cpu] of environment.toml lacks requires"),
        (r'pins = """.*?"""', 'pins = """\n"""', "[cpu] of environment.toml lacks pins"),
        (r"\Z", "\n[cuda]\n", "[cuda] of environment.toml lacks requires and pins"),
    ],
    ids=["requires", "pins", "both"],
)
def test_a_definition_that_installs_nothing_stops_at_the_first_rung(
    ladder: Ladder, pattern: str, new: str, said: str
) -> None:
    ladder.definition()
    path = ladder.project.definition(NAME)
    flags = re.DOTALL if "pins" in pattern else 0
    path.write_text(re.sub(pattern, lambda _: new, path.read_text(), count=1, flags=flags))
    wrong, look_at = fall(ladder.definition)
    assert wrong == said and "python tools/pin.py REQUIREMENT..." in look_at


def test_a_kind_that_comes_with_its_base_image_needs_no_pins(ladder: Ladder) -> None:
    with ladder.project.definition(NAME).open("a") as file:
        file.write('\n[cuda-nvidia]\nbase = "image"\n')
    ladder.definition()


def test_a_faulty_file_of_known_deviations_stops_at_the_first_rung(tmp_path: Path, ladder: Ladder) -> None:
    def refuse(framework: str) -> None:
        raise AssertionError(f"{framework}: no such case")

    refusing = make_ladder(tmp_path, tmp_path / "adapters", known_deviations=refuse)
    wrong, look_at = fall(refusing.definition)
    assert wrong == f"{NAME}: no such case" and "Known deviations" in look_at


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"x = 1\ndef (:\n", "line 2"), (b"name = 'caf\xe9'\n", "can't decode"), (b"\xef\xbb\xbfx = 1\n", "")],
    ids=["no Python", "no UTF-8", "with the mark of its encoding"],
)
def test_a_file_that_python_cannot_read_is_named(
    content: bytes, said: str, ladder: Ladder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests" / "imports")
    path = ladder.project.folder(NAME) / "layers.py"
    path.write_bytes(content)
    if not said:
        ladder.imports()
        return
    wrong, look_at = fall(ladder.imports)
    assert wrong.startswith(f"{path}: ") and said in wrong and "UTF-8" in look_at


def end_trials(monkeypatch: pytest.MonkeyPatch, **endings: str) -> None:
    """Let the runner store a trial of each framework with this status, and report success."""

    def run(command: list[str], cwd: Path) -> SimpleNamespace:
        results = Path(command[command.index("--results") + 1])
        for framework, status in endings.items():
            folder = results / "trials" / f"{framework}-cpu"
            folder.mkdir(parents=True, exist_ok=True)
            result = {"spec": {"cell": {"framework": framework}}, "status": status, "reason": "a loss is no number"}
            (folder / "result.json").write_text(json.dumps(result))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)


def test_a_trial_that_diverged_or_ran_out_of_memory_fails_the_last_rung_though_the_run_did_not(
    ladder: Ladder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in ("diverged", "out_of_memory"):
        end_trials(monkeypatch, numpy="ok", fourth=status)
        wrong, look_at = fall(ladder.trial)
        assert wrong == f"the trial ended {status}: a loss is no number" and f"{NAME}-cpu" in look_at
    for status in ("ok", "contended"):
        end_trials(monkeypatch, numpy="diverged", fourth=status)
        ladder.trial()


def test_a_referee_that_gives_no_answer_is_no_fault_of_the_adapter(tmp_path: Path, ladder: Ladder) -> None:
    def answer(who: str, case: object) -> dict[str, Any]:
        if who != NAME:
            raise AssertionError("numpy-cpu is not made")
        return {}

    found = SimpleNamespace(folder=tmp_path, of=answer)
    suite: dict[str, Any] = {
        "CASES": {"plain": SimpleNamespace(name="plain", twin="plain")},
        "Found": lambda folder, cases: found,
        "settings": SimpleNamespace(TRUTH="truth"),
    }
    asking = make_ladder(tmp_path, tmp_path / "adapters", **suite)
    wrong, look_at = fall(lambda: asking.conform(["plain"]))
    assert (wrong, look_at) == ("numpy-cpu is not made", "the referee's environment")
