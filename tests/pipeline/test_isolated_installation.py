"""The caller's settings of pip and Python do not reach an environment, except the sources of packages."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import PATIENT, PROJECT, ROOT, TINY, by_cell, run_runner
from copied import add_framework
from installed import command, make, marker, pin, wheel

from runner import compare
from runner.cluster import away
from runner.environments import installers
from runner.environments.definition import read
from runner.project import Project
from workloads.program import AGAIN, HARMLESS, build_environment

POISON = "raise SystemExit('a file of the caller was imported')\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with no environment, and "mine", which needs the one package of a folder of wheels."""
    (tmp_path / "environments").mkdir()
    (tmp_path / "wheels").mkdir()
    project = Project(PROJECT.root, tmp_path / "environments", tmp_path / "adapters")
    add_framework(tmp_path / "adapters", "mine", smoke="\"import asked; assert asked.VERSION == '1.0'\"")
    pin(project, "mine", wheel(tmp_path / "wheels", "asked", "1.0"))
    return project


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, str]:
    """Settings of a caller; each broke an installation, or the Python that it makes, when set alone."""
    poisoned = tmp_path / "poisoned"
    poisoned.mkdir()
    for name in ("numpy", "asked", "pip", "venv", "sitecustomize", "usercustomize"):
        (poisoned / f"{name}.py").write_text(POISON)
    pip = {
        "USER": "1", "TARGET": str(tmp_path / "target"), "PREFIX": str(tmp_path / "prefix"), "NO_BINARY": ":all:",
        "CONSTRAINT": str(tmp_path / "no such file"), "DRY_RUN": "1", "QUIET": "3", "REQUIRE_VIRTUALENV": "1",
        "PYTHON": "/nowhere/python", "ROOT": str(tmp_path / "root"), "NO_DEPS": "0", "REQUIREMENT": "/nowhere.txt",
    }  # fmt: skip
    python = {
        "PATH": str(poisoned), "USERBASE": str(poisoned), "WARNINGS": "error", "OPTIMIZE": "2", "SAFEPATH": "1",
        "STARTUP": str(poisoned / "numpy.py"), "UTF8": "0", "HASHSEED": "7", "NOUSERSITE": "", "DEVMODE": "1",
    }  # fmt: skip
    named = {f"PIP_{name}": value for name, value in pip.items()}
    return named | {f"PYTHON{name}": value for name, value in python.items()}


def without_uv(folder: Path) -> str:
    """Return a PATH on which uv fails: pip is tested here."""
    (folder / "uv").write_text("#!/bin/sh\nexit 2\n")
    (folder / "uv").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_an_environment_is_made_under_any_settings_of_pip_and_python_and_asks_where_they_say(
    project: Project, hostile: dict[str, str], tmp_path: Path
) -> None:
    """PYTHONPATH and PYTHONHOME cannot be given to the Python that calls `make` here: they are in the next test."""
    said = {name: value for name, value in hostile.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    places = {"PIP_FIND_LINKS": str(tmp_path / "wheels"), "PIP_NO_INDEX": "1", "PATH": without_uv(tmp_path)}
    done = make(project, "mine", **said, **places)
    assert done.returncode == 0, done.stderr + (project.environments / "mine-cpu.log").read_text()
    assert marker(project, "mine").exists()
    assert (read(project, "mine", "cpu").site_packages / "asked.py").is_file()
    assert not any((tmp_path / name).exists() for name in ("target", "prefix", "root"))


def test_an_environment_is_made_in_a_folder_with_modules_of_the_names_that_it_needs(
    project: Project, hostile: dict[str, str], tmp_path: Path
) -> None:
    """A clone of PyTorch has a folder `torch`."""
    python, *words = command(project, "mine")
    places = {"PIP_FIND_LINKS": str(tmp_path / "wheels"), "PIP_NO_INDEX": "1", "PATH": without_uv(tmp_path)}
    done = subprocess.run(
        [python, "-P", *words],
        cwd=tmp_path / "poisoned", env=os.environ | places | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + (project.environments / "mine-cpu.log").read_text()
    assert marker(project, "mine").exists()


def test_a_program_of_ours_that_another_one_starts_is_ours_in_any_folder(
    hostile: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 is that of our program for a word that it does not know; the caller's file ends with 1."""
    for name in ("runner", "reports"):
        (tmp_path / "poisoned" / f"{name}.py").write_text(POISON)
    monkeypatch.chdir(tmp_path / "poisoned")
    request: Any = SimpleNamespace(project=PROJECT, results=tmp_path / "results")
    (request.results / "a" / "trials" / "one").mkdir(parents=True)
    assert compare._measure(["--no-such-option"], PROJECT.root, None) == 2
    study = away.begin_study(request, ["--no-such-option"], "a", "node")
    printed = study.communicate()[0]
    assert study.end() == 2, printed
    away.report_types(request, ["a"])
    words = ["import", "net.py:make_model", "--out", str(tmp_path / "net.json")]
    importing = [sys.executable, "-P", "-m", "workloads", *words]
    assert subprocess.run(importing, env=build_environment(os.environ, ROOT)).returncode == 2
    told = capfd.readouterr()
    assert "a file of the caller was imported" not in told.out + told.err


@pytest.mark.parametrize("home", [True, False], ids=["the user's file", "PIP_CONFIG_FILE"])
def test_a_file_of_pips_says_where_packages_come_from_and_nothing_else(
    project: Project, home: bool, tmp_path: Path
) -> None:
    file = tmp_path / "home" / ".config" / "pip" / "pip.conf"
    file.parent.mkdir(parents=True)
    file.write_text(
        f"[global]\nquiet = 3\nfind-links =\n  {tmp_path / 'nothing here'}\n  {tmp_path / 'wheels'}\n"
        "[install]\nuser = true\nno-binary = :all:\nno-index = true\n"
    )
    variables = {"HOME": str(tmp_path / "home")} if home else {"PIP_CONFIG_FILE": str(file)}
    bare = {name: "" for name in os.environ if name.startswith("PIP_")}
    bare |= {"XDG_CONFIG_HOME": "", "PATH": without_uv(tmp_path)}
    done = make(project, "mine", **bare | variables)
    assert done.returncode == 0, done.stderr + (project.environments / "mine-cpu.log").read_text()
    assert marker(project, "mine").exists()


def test_what_pip_cannot_read_is_a_failed_installation_with_pips_own_words(project: Project, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("user = true, without a section\n")
    done = make(project, "mine", PIP_CONFIG_FILE=str(tmp_path / "pip.conf"))
    assert done.returncode != 0 and "InstallationFailed: pip cannot read its settings: " in done.stderr
    assert "pip.conf" in done.stderr.splitlines()[-1]
    assert not marker(project, "mine").exists()


def test_pip_of_make_gets_the_sources_alone(hostile: dict[str, str], tmp_path: Path) -> None:
    places = {"PIP_INDEX_URL": "https://nowhere.invalid/index", "PIP_TRUSTED_HOST": "a b", "PIP_CERT": "/a cert"}
    said = {name: value for name, value in hostile.items() if name.startswith("PIP_")} | places
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(
        [sys.executable, "-m", "runner.environments.installers", "config", "list"],
        cwd=ROOT, env=bare | said | {"PIP_CONFIG_FILE": os.devnull}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        ":env:.cert='/a cert'",
        f":env:.config-file={os.devnull!r}",
        ":env:.disable-pip-version-check='1'",
        ":env:.index-url='https://nowhere.invalid/index'",
        ":env:.trusted-host='a b'",
    ]


def test_of_pips_list_the_stronger_section_holds_and_an_empty_value_sets_nothing() -> None:
    listed = (
        "For variant 'global', will try loading '/etc/pip.conf'\n:env:.index-url=''\nglobal.index-url='one'\n"
        "install.index-url='two'\nglobal.user='true'\ninstall.find-links='\\n/a\\n/b'\ndownload.no-index='1'\n"
    )
    assert installers.parse_pip_list(listed) == {"index-url": "two", "find-links": "/a /b"}


def test_of_pips_features_only_the_systems_certificates_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = "global.use-feature='\\nfast-deps\\ntruststore'\n"
    assert installers.parse_pip_list(both) == {"use-feature": "truststore"}
    assert installers.parse_pip_list(f"{both}:env:.use-feature='fast-deps'\n") == {}  # the stronger one names it not
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_USE_FEATURE", "truststore of-a-newer-pip")
    assert installers.read_pip_sources(sys.executable)["use-feature"] == "truststore"
    (tmp_path / "pip.conf").write_text("[install]\nuse-feature = truststore\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_USE_FEATURE", "of-a-newer-pip")
    assert installers.read_pip_sources(sys.executable)["use-feature"] == "truststore"


def test_a_run_under_the_callers_python_settings_imports_nothing_of_the_callers(
    hostile: dict[str, str], tmp_path: Path
) -> None:
    """Runner, sampler, worker and report run: the poisoned numpy would end each of them."""
    python = {name: value for name, value in hostile.items() if name.startswith("PYTHON")}
    (tmp_path / "poisoned" / "sitecustomize.py").write_text("")  # it is run before the first line of any program
    python["PYTHONPATH"] = f"{python['PYTHONPATH']}{os.pathsep}{ROOT}"
    said: dict[str, Any] = python  # or its values could be the paths and numbers of other arguments
    done = run_runner(
        *("--framework", "numpy", *TINY, *PATIENT, "--device", "cpu", "--batch-size", "64", "--epochs", "1"),
        *("--window", "0.3", "--results", tmp_path / "results"), **said,
    )  # fmt: skip
    assert "a file of the caller was imported" not in done.stdout + done.stderr
    assert by_cell(tmp_path / "results")["numpy", 64]["status"] in ("ok", "contended"), done.stdout + done.stderr
    assert (tmp_path / "results" / "report" / "report.html").is_file()


def test_a_program_of_ours_keeps_of_pythons_variables_those_that_change_nothing() -> None:
    said = {"PYTHONPATH": "/x", "PYTHONWARNINGS": "error", "PATH": "/bin", **dict.fromkeys(HARMLESS, "1")}
    assert build_environment(said, ROOT) == {"PYTHONPATH": str(ROOT), "PATH": "/bin", **dict.fromkeys(HARMLESS, "1")}


def checked_out(tmp_path: Path) -> Path:
    """Return a folder with a blank in its name that has the command and the project's packages, by links."""
    folder = tmp_path / "check out"
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("runner", "reports", "workloads", "adapters"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "batchwise.py").write_bytes((ROOT / "batchwise.py").read_bytes())
    (folder / ".venv" / "bin" / "batchwise").write_bytes((ROOT / "tools" / "batchwise.sh").read_bytes())
    (folder / ".venv" / "bin" / "batchwise").chmod(0o755)
    (folder / ".venv" / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / ".venv" / "bin" / "python").chmod(0o755)
    return folder


def test_the_command_runs_from_any_folder_and_by_a_link_without_the_callers_python_settings(
    hostile: dict[str, str], tmp_path: Path
) -> None:
    folder = checked_out(tmp_path)
    (tmp_path / "link").symlink_to(folder / ".venv" / "bin" / "batchwise")
    environment = os.environ | {name: value for name, value in hostile.items() if name.startswith("PYTHON")}
    for words, said in ((["--list"], "osu-cnn"), (["reports", "--help"], "python -m reports")):
        done = subprocess.run(
            [tmp_path / "link", *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0 and said in done.stdout, done.stderr
    assert subprocess.run([tmp_path / "link", "--framework"], cwd=tmp_path, capture_output=True).returncode == 2


def test_the_command_of_pip_sheds_the_callers_python_settings_before_it_imports_a_package(tmp_path: Path) -> None:
    """PYTHONPATH comes before the folder of an editable installation, so another project's package hides ours."""
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["batchwise"]
    module, _, function = entry.partition(":")
    for package in ("workloads", "runner", "reports"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(POISON)
    script = f"import sys\nsys.path.append({str(ROOT)!r})\nfrom {module} import {function}\nsys.exit({function}())\n"
    (tmp_path / "batchwise").write_text(script)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONWARNINGS": "error"}
    for words, said in ((["--list"], "osu-cnn"), (["reports", "--help"], "python -m reports")):
        command = [sys.executable, str(tmp_path / "batchwise"), *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and said in done.stdout, done.stderr
    command = [sys.executable, str(tmp_path / "batchwise"), "--framework"]
    assert subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True).returncode == 2


def test_the_command_keeps_of_pythons_variables_those_that_change_nothing(
    hostile: dict[str, str], tmp_path: Path
) -> None:
    folder = checked_out(tmp_path)
    (folder / "runner").unlink()
    (folder / "runner").mkdir()
    (folder / "runner" / "__main__.py").write_text(
        "import os, sys\nout = sys.stdout\n"
        "print(sys.argv[1:], out.encoding, sys.dont_write_bytecode, out.write_through, sys.flags.optimize)\n"
        "print(sorted(name for name in os.environ if name.startswith('PYTHON')))\n"
    )
    kept = {"PYTHONIOENCODING": "iso8859-1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    said = {name: value for name, value in hostile.items() if name.startswith("PYTHON")} | kept
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for fatal in ({}, {"PYTHONHOME": "/nowhere", "PYTHONHASHSEED": "no number"}):
        done = subprocess.run(
            [folder / ".venv" / "bin" / "batchwise", "two words", "-c"],
            cwd=tmp_path / "poisoned", env=bare | said | fatal, capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout.splitlines() == [
            "['two words', '-c'] iso8859-1 True True 0", str(sorted([*kept, "PYTHONPATH"])),
        ], done.stderr  # fmt: skip


def test_a_program_starts_again_once_where_its_interpreter_sets_a_variable_of_python_each_time(tmp_path: Path) -> None:
    """The interpreter of nixpkgs' python3.withPackages is such a script."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexport PYTHONNOUSERSITE=true\necho start\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    program = (
        f"import os, sys\nsys.executable = {str(script)!r}\nfrom workloads import program\nprogram.start_again()\n"
        f"print({{name for name in os.environ if name.startswith(('PYTHON', {AGAIN!r}))}} - {set(HARMLESS)})\n"
    )
    for left in ({}, {AGAIN: "1"}):  # the second: set by another process
        done = subprocess.run(
            [script, "-c", program], cwd=ROOT, env=os.environ | left, capture_output=True, text=True, timeout=20
        )
        assert done.stdout.splitlines() == ["start", "start", "set()"], done.stderr
