"""Search for a framework's Python: PATH, pyenv, uv; stand-ins are scripts that answer as a Python would."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import PROJECT

from runner.environments.definition import Environment, EnvironmentUnavailable, read
from runner.environments.venv import find_interpreter

WANTED = "3.99"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Environment:
    """An environment that asks for a Python that no machine has, on a machine with empty PATH and pyenv."""
    from dataclasses import replace

    for name in ("bin", "pyenv"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return replace(read(PROJECT, "mxnet", "cpu"), python=WANTED)


def script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_python_on_the_path_is_found(environment: Environment, tmp_path: Path) -> None:
    script(tmp_path / "bin" / "python3", "echo 3.8")
    found = script(tmp_path / "bin" / f"python{WANTED}", f"echo {WANTED}")
    assert find_interpreter(environment, print) == found


def test_python_without_venv_or_of_another_version_is_not_taken(environment: Environment, tmp_path: Path) -> None:
    script(tmp_path / "bin" / f"python{WANTED}", "exit 1")
    script(tmp_path / "pyenv" / "versions" / f"{WANTED}.1" / "bin" / "python", "echo 3.8")
    with pytest.raises(EnvironmentUnavailable, match=r"MXNet needs Python 3\.99 with venv"):
        find_interpreter(environment, print)


def test_python_of_pyenv_is_found(environment: Environment, tmp_path: Path) -> None:
    found = script(tmp_path / "pyenv" / "versions" / f"{WANTED}.1" / "bin" / "python", f"echo {WANTED}")
    assert find_interpreter(environment, print) == found


def test_uv_is_asked_to_fetch_one(environment: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetched = tmp_path / "fetched" / "python"
    install = (
        f'/bin/mkdir -p {fetched.parent}; printf "#!/bin/sh\\necho {WANTED}\\n" > {fetched}; /bin/chmod 755 {fetched}'
    )
    script(tmp_path / "bin" / "uv", f'case "$2" in install) {install};; find) echo {fetched};; esac')
    assert find_interpreter(environment, print) == str(fetched)
    assert "asking uv to fetch one" in capsys.readouterr().out
