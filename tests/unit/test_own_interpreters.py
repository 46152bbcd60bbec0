"""--python: a custom build is checked before anything is started, and what is not one is one line."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import PROJECT

from runner.__main__ import main
from runner.environments import interpreter
from runner.environments.definition import read
from runner.environments.interpreter import BadInterpreter, Interpreter, check
from runner.request import own_code
from runner.request.parser import BadInput
from workloads.records.build import PRECISIONS, PROFILES, Column, Mode, column_of
from workloads.records.job import Placement

HERE = Placement("cpu", 1, {})
REFEREE = read(PROJECT, "numpy", "cpu")  # its framework is in the Python of these tests
OF_ANOTHER = {"version": [3, 12, 1], "implementation": "CPython", "missing": [], "packages": [], "site_packages": "/"}


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def answers(path: Path, **told: object) -> Path:
    """Write a script that answers as a Python that is not on this machine."""
    return script(path, f"echo '{json.dumps(OF_ANOTHER | told)}'")


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (["pytorch"], "give FRAMEWORK=PATH or FRAMEWORK@LABEL=PATH"),
        (["pytorch="], "give FRAMEWORK=PATH"),
        (["pytorhc=/usr/bin/python3"], "did you mean pytorch"),
        (["pytorch@=/usr/bin/python3"], "a label is 1 to 20 of a-z, 0-9, . and -, got ''"),
        (["pytorch@Nightly=/usr/bin/python3"], "got 'Nightly'"),
        (["pytorch@a/b=/usr/bin/python3"], "got 'a/b'"),
        ([f"pytorch@{'a' * 21}=/usr/bin/python3"], "a label is 1 to 20"),
        (
            ["pytorch@tuned=/usr/bin/python3"],
            "'tuned' ends like the label of a profile or precision; give another, and --profile or --precision",
        ),
        (["pytorch@a.tuned=/usr/bin/python3"], "'a.tuned' ends like the label of a profile"),
        (["pytorch@bfloat16=/usr/bin/python3"], "'bfloat16' ends like the label of a profile or precision"),
        (["pytorch@a=/usr/bin/python3", "pytorch@a=/usr/bin/python"], "--python names pytorch@a twice"),
        (["pytorch=/usr/bin/python3", "pytorch=/usr/bin/python"], "give builds of one framework labels"),
        (["mxnet=/usr/bin/python3"], "--python mxnet: --framework does not include it"),
        (["pytorch=/no/such/python"], "no such file"),
        (["pytorch=/usr/bin"], "is a folder; name the interpreter in it"),
        (["pytorch=/etc/passwd"], "cannot be executed"),
        (["pytorch=/bin/true"], "is not Python"),
        (["pytorch=/bin/echo"], "is not Python"),
        (["pytorch=/bin/false"], "failed: exit code 1"),
        ([f"pytorch={sys.executable}"], "has no torch (Python "),
    ],
)
def test_what_is_no_build_of_a_framework_is_one_line_and_nothing_is_started(
    arguments: list[str], telling: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    words = [word for argument in arguments for word in ("--python", argument)]
    assert main(["--framework", "pytorch", *words, "--device", "cpu", "--results", str(results)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("runner: --python ") or "did you mean" in line
    assert telling in line
    assert not results.exists()


def test_an_interpreter_of_this_machine_is_no_image(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--isolation", "docker", "--python", f"pytorch={sys.executable}"]) == 2
    assert "cannot run in a container" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "telling"),
    [
        ({"version": [3, 9, 7]}, r"is Python 3\.9\.7; workers need 3\.10 or newer"),
        ({"version": [2, 7, 18], "missing": None}, r"is Python 2\.7\.18"),
        ({"missing": ["numpy"]}, r"has no numpy \(Python 3\.12\.1\)"),
        ({"missing": ["torch", "numpy"]}, "has no torch and no numpy"),
        ({"version": "3.11"}, "is not Python"),
        ({"packages": 7}, "is not Python"),
        ({}, "is not Python"),  # it gives the same answer to the second question
    ],
)
def test_a_python_that_cannot_run_workers_says_what_it_lacks(
    told: dict[str, object], telling: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInterpreter, match=telling):
        check(answers(tmp_path / "python", **told), REFEREE, HERE)


def test_one_that_hangs_is_given_up_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "DESCRIBED_S", 0.5)
    with pytest.raises(BadInterpreter, match="gave no answer within 0 s"):
        check(script(tmp_path / "python", f"sleep 987 & echo $! > {tmp_path}/pid; wait"), REFEREE, HERE)
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    until = time.monotonic() + 5
    while stat.exists() and stat.read_text().split()[2] != "Z" and time.monotonic() < until:
        time.sleep(0.01)  # a signal takes effect when the process is next on a core
    assert not stat.exists() or stat.read_text().split()[2] == "Z"


def test_a_framework_that_does_not_import_or_a_link_that_leads_nowhere_says_why(tmp_path: Path) -> None:
    broken = replace(REFEREE, smoke="import numpy; raise OSError('libcudart.so.13: cannot open')")
    with pytest.raises(BadInterpreter, match=r"failed: OSError: libcudart.so.13: cannot open"):
        check(Path(sys.executable), broken, HERE)
    os.symlink(tmp_path / "gone", tmp_path / "python")
    with pytest.raises(BadInterpreter, match="no such file"):
        check(tmp_path / "python", REFEREE, HERE)


def test_a_path_is_no_part_of_what_an_interpreter_has_and_a_package_is(tmp_path: Path) -> None:
    """A virtual environment's Python is a link, by whose place it knows its packages."""
    direct = check(Path(sys.executable), REFEREE, HERE)
    wrapped = check(script(tmp_path / "python", f'exec "{sys.executable}" "$@"'), REFEREE, HERE)
    assert direct.path == Path(sys.executable) and wrapped.path == tmp_path / "python"
    assert direct.digest == wrapped.digest and direct.facts != wrapped.facts
    assert any(package.startswith("numpy==") for package in direct.packages)
    assert (direct.site_packages / "numpy").is_dir()
    one = check(Path(sys.executable), REFEREE, HERE)
    other = Interpreter(**{**vars(one), "packages": (*one.packages, "something==1.0")})
    assert one.digest != other.digest
    noisy = script(tmp_path / "python", f'echo "a module was loaded"; exec "{sys.executable}" "$@"')
    assert check(noisy, REFEREE, HERE).packages


def test_a_source_tree_that_no_package_lists_counts_by_its_own_version(tmp_path: Path) -> None:
    """A script puts it on the path. Where a package lists the framework's files, ids stay as they are."""

    def built(name: str, version: str) -> Interpreter:
        (tmp_path / name / "built").mkdir(parents=True)
        (tmp_path / name / "built" / "__init__.py").write_text(f"__version__ = {version!r}\n")
        variables = f'export PYTHONPATH="{tmp_path / name}:$PYTHONPATH"'
        return check(script(tmp_path / f"{name}.sh", f'{variables}\nexec "{sys.executable}" "$@"'), tree, HERE)

    tree = replace(REFEREE, imports=("built",), smoke="import built")
    first, again, second = built("a", "2.0+gitA"), built("b", "2.0+gitA"), built("c", "2.0+gitB")
    assert (first.owned, first.framework_version) == (False, "2.0+gitA")
    assert first.digest == again.digest != second.digest
    source, packages = tmp_path / "a" / "built" / "__init__.py", first.launcher().packages
    assert packages and source in packages.files and packages.digest() == first.digest
    source.write_text("__version__ = '2.0+gitB'\n")  # rebuilt during a run
    assert packages.digest() == second.digest
    installed = check(Path(sys.executable), REFEREE, HERE)
    assert installed.owned and installed.digest == replace(installed, framework_version="other").digest


def test_the_callers_python_variables_are_not_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('of the caller')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started = check(Path(sys.executable), REFEREE, HERE).launcher().environment(HERE)
    assert started["PYTHONPATH"] == str(PROJECT.root)
    with pytest.raises(BadInterpreter, match="your PYTHONPATH is not passed on: name a script that sets it"):
        check(Path(sys.executable), read(PROJECT, "mxnet", "cpu"), HERE)


def test_builds_stand_behind_their_framework_and_labelled_ones_always_join() -> None:
    given = {"pytorch@b": Path(), "pytorch@a": Path(), "mxnet": Path()}
    assert own_code.order_builds(PROJECT, ["tensorflow", "mxnet"], given) == (
        "mxnet",
        "pytorch@a",
        "pytorch@b",
        "tensorflow",
    )
    assert own_code.order_builds(PROJECT, ["pytorch", "mxnet"], given) == ("mxnet", "pytorch", "pytorch@a", "pytorch@b")
    with pytest.raises(BadInput, match="--python mxnet: --framework does not include it"):
        own_code.need_asked(["pytorch@a", "pytorch@b"], given, {}, "--framework does not include it")


def test_each_build_is_a_column_in_each_mode_and_is_installed_once() -> None:
    columns = own_code.list_columns(["pytorch", "pytorch@a.b"], ["default", "tuned"], ["float32", "bfloat16"])
    own = ("pytorch", "pytorch@bfloat16", "pytorch@tuned", "pytorch@tuned.bfloat16")
    labelled = ("pytorch@a.b", "pytorch@a.b.bfloat16", "pytorch@a.b.tuned", "pytorch@a.b.tuned.bfloat16")
    assert columns == own + labelled
    modes = [Mode(profile, precision) for profile in ("default", "tuned") for precision in ("float32", "bfloat16")]
    assert [column_of(column).mode for column in columns] == modes * 2
    assert [column_of(column).installed for column in columns] == ["pytorch"] * 4 + ["pytorch@a.b"] * 4
    for column in own_code.list_columns(["pytorch@a.b"], PROFILES, PRECISIONS):
        assert column_of(column).installed == "pytorch@a.b" and str(column_of(column)) == column
    for label in ("detuned", "bfloat16.a", "float32"):
        assert column_of(f"pytorch@{label}") == Column("pytorch", label)
