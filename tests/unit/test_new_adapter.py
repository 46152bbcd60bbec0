"""python -m adapters new NAME."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT

from adapters.__main__ import HERE, main
from adapters.base import Adapter

VERBS = sorted(Adapter.__abstractmethods__)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert main(["new", "caffe", "--into", str(tmp_path)]) == 0
    return tmp_path / "caffe"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_every_verb_of_a_trial_is_there_with_its_promise_and_its_signature(folder: Path) -> None:
    written = module(folder / "adapter.py").Adapter
    for verb in VERBS:
        assert inspect.getdoc(getattr(written, verb)) == inspect.getdoc(getattr(Adapter, verb))
        assert inspect.signature(getattr(written, verb)) == inspect.signature(getattr(Adapter, verb))


def test_every_verb_fails_and_says_which_it_is(folder: Path) -> None:
    adapter = module(folder / "adapter.py").Adapter()
    for verb in VERBS:
        asked = [None] * (len(inspect.signature(getattr(Adapter, verb)).parameters) - 1)
        with pytest.raises(NotImplementedError, match=f"^{verb}$"):
            getattr(adapter, verb)(*asked)


def test_the_definition_has_every_key_that_the_referees_has_but_says_no_referee(folder: Path) -> None:
    written, referee = (tomllib.loads((path / "environment.toml").read_text()) for path in (folder, HERE / "numpy"))
    assert written.keys() == referee.keys() - {"referee"}
    assert written["label"] == "caffe" and written["imports"] == ["caffe"] and written["base"] == referee["base"]


def test_what_is_written_is_as_the_project_is_formatted(folder: Path) -> None:
    for words in (["check"], ["format", "--check"]):
        command: list[str | Path] = [
            Path(sys.executable).parent / "ruff",
            *words,
            "--config",
            ROOT / "pyproject.toml",
            folder,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["Caffe", "two words", "class", "../caffe", "", "pytorch", "worker"])
def test_a_name_that_cannot_be_a_folder_of_its_own_is_one_line_and_writes_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", name, "--into", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("adapters: ") and captured.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_or_cannot_be_written_is_one_line_and_left_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["new", "caffe", "--into", str(folder.parent)]) == 2
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "file").write_text("")
    assert main(["new", "caffe", "--into", str(tmp_path / "file")]) == 2
    assert "name another folder" in capsys.readouterr().err
