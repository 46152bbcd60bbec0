"""Every adapters/*/environment.toml: exact pins, each with a hash, and nothing asked for that is not pinned.

A definition that cannot be used is one line, whatever was asked for.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from errno import EBUSY, ENOSPC
from pathlib import Path
from queue import Queue
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import PROJECT
from each import for_each
from filelock import FileLock

from runner import __main__ as runner
from runner.environments import __main__ as environments
from runner.environments import definition, images, venv
from runner.environments.definition import NEEDED, BadDefinition, InstallationFailed
from runner.launch import Unavailable
from runner.project import DEFINITION_FILE, Project
from runner.setup import build_unavailable
from workloads.records.status import Status

PIN = re.compile(r"[\w.-]+==[\w.+]+( --hash=sha256:[0-9a-f]{64})+")


def variants() -> Iterator[Any]:
    for framework in PROJECT.frameworks:
        table = tomllib.loads(PROJECT.definition(framework).read_text())
        for device_kind in ("cpu", "cuda"):
            if "pins" in table.get(device_kind, {}):
                yield pytest.param(table[device_kind], id=f"{framework}-{device_kind}")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.split("[")[0]).lower()


@pytest.mark.parametrize("variant", list(variants()))
def test_what_is_asked_for_is_pinned_exactly_and_each_pin_has_a_hash(variant: dict[str, str]) -> None:
    for line in variant["pins"].strip().splitlines():
        assert PIN.fullmatch(line), line
    pinned = {
        canonical(line.split("==")[0]): line.split(" ")[0].split("==")[1]
        for line in variant["pins"].split("\n")
        if line
    }
    for requirement in variant["requires"]:
        name = canonical(re.split(r"[=<>]", requirement)[0])
        assert name in pinned, requirement
        if "==" in requirement:
            assert pinned[name] == requirement.split("==")[1]


def test_no_gigabytes_of_cuda_come_to_a_machine_without_a_gpu() -> None:
    for framework in PROJECT.frameworks:
        pins = tomllib.loads(PROJECT.definition(framework).read_text()).get("cpu", {}).get("pins", "")
        assert "nvidia" not in pins and "triton" not in pins and "cuda" not in pins
    torch = tomllib.loads(PROJECT.definition("pytorch").read_text())
    cpu, cuda = (re.search(r"torch==\S+ --hash=sha256:(\w+)", torch[kind]["pins"]) for kind in ("cpu", "cuda"))
    assert cpu and cuda and cpu[1] != cuda[1]


WHOLE = {
    "label": '"Mine"',
    "python": '"3.11"',
    "imports": "[]",
    "smoke": '"import numpy"',
    "base": '"image"',
    "variables": "{}",
    "cpu": "{}",
}


def with_lines(folder: Path, lines: dict[str, str]) -> Project:
    """A project with one framework, whose definition is these lines."""
    path = folder / "adapters" / "mine" / "environment.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    return Project.at(folder)


@pytest.mark.parametrize("key", NEEDED)
def test_a_definition_without_a_key_that_is_needed_says_which(key: str, tmp_path: Path) -> None:
    assert definition.read_label(with_lines(tmp_path, WHOLE), "mine") == "Mine"
    project = with_lines(tmp_path, {name: value for name, value in WHOLE.items() if name != key})
    for ask in (definition.list_variants, definition.is_referee, definition.read_label):
        with pytest.raises(BadDefinition, match=f"mine/environment.toml: '{key}' is missing$"):
            ask(project, "mine")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"imports": '"numpy"'}, "'imports' must be a list"),
        ({"label": '"a|b"'}, "'label' may hold letters"),
        ({"label": ""}, "Invalid value"),
        ({"cpu": "3"}, "'cpu' must be a table"),
    ],
)
def test_a_definition_of_the_wrong_kind_says_so(changes: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadDefinition, match=said):
        definition.list_variants(with_lines(tmp_path, WHOLE | changes), "mine")


@for_each(
    "changes, said",
    [
        ({"tesis": "true"}, "unknown key 'tesis'; did you mean 'thesis'?"),
        ({"nothing_like_it": "1"}, "unknown key 'nothing_like_it'"),
        ({"thesis": '"yes"'}, "'thesis' must be a bool"),
        ({"cpu": '{pin = ""}'}, "[cpu]: unknown key 'pin'; did you mean 'pins'?"),
        ({"cpu": '{disk_mib = "12"}'}, "[cpu]: 'disk_mib' must be a number"),
        ({"cpu": "{preallocates = 1}"}, "[cpu]: 'preallocates' must be a bool"),
        ({"cpu": "{variables = {THREADS = 1}}"}, "[cpu.variables]: 'THREADS' must be a str"),
        ({"variables": "{THREADS = 1}"}, "[variables]: 'THREADS' must be a str"),
        ({"profile": '["tuned"]'}, "'profile' must be a table"),
        ({"profile": "{tune = {}}"}, "[profile]: unknown key 'tune'; did you mean 'tuned'?"),
        ({"profile": "{tuned = {THREADS = 1}}"}, "[profile.tuned]: 'THREADS' must be a str"),
        ({"no_profile": '{compile = "no"}'}, "[no_profile]: unknown key 'compile'; did you mean 'compiled'?"),
        ({"programs": '{compiled = ["g++"]}'}, "[programs]: 'compiled' must be a str"),
    ],
)
def test_a_key_that_is_misspelt_or_of_the_wrong_kind_is_named_with_the_closest_one(
    changes: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadDefinition) as raised:
        definition.list_variants(with_lines(tmp_path, WHOLE | changes), "mine")
    assert str(raised.value).endswith(f"mine/environment.toml: {said}")


def test_a_definition_for_no_kind_of_device_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadDefinition, match=r"a table is missing, one of \[cpu\], \[cuda\]"):
        definition.list_variants(with_lines(tmp_path, {k: v for k, v in WHOLE.items() if k != "cpu"}), "mine")


@pytest.mark.parametrize(
    ("program", "arguments"),
    [(runner.main, ["--list"]), (runner.main, ["--plan"]), (environments.main, ["cpu"]), (images.main, [])],
)
def test_every_command_refuses_a_bad_definition_in_one_line(
    program: Callable[[list[str]], int],
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = with_lines(tmp_path, {name: value for name, value in WHOLE.items() if name != "base"})
    monkeypatch.setattr(Project, "of_this_code", lambda: project)
    monkeypatch.chdir(tmp_path)
    assert program(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("mine/environment.toml: 'base' is missing")


def test_environments_are_made_side_by_side_and_each_that_cannot_be_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [definition.read(PROJECT, framework, "cpu") for framework in PROJECT.frameworks]
    together = Barrier(len(wanted))  # broken where one waits for the end of another

    def make(environment: definition.Environment, say: Callable[[str], None]) -> None:
        together.wait(timeout=30)
        if environment.framework == "numpy":
            raise InstallationFailed("no Python")
        say(environment.framework)

    monkeypatch.setattr(venv, "make", make)
    said: list[str] = []
    (not_made,) = venv.make_side_by_side(wanted, said.append).items()
    assert not_made[0] == "numpy" and build_unavailable(not_made[1]) == Unavailable("no Python", Status.FAILED)
    assert sorted(said) == sorted(set(PROJECT.frameworks) - {"numpy"})


def test_an_environment_that_cannot_be_written_fails_alone_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def install(environment: definition.Environment, interpreter: str, say: Callable[[str], None]) -> None:
        if environment.framework == "mxnet":
            raise OSError(ENOSPC, "No space left on device", "a.whl")
        environment.folder.mkdir()

    monkeypatch.setattr(venv, "install", install)
    monkeypatch.setattr(venv, "need_libraries", lambda _: None)
    monkeypatch.setattr(venv, "find_interpreter", lambda *_: "python")
    project = Project(PROJECT.root, tmp_path / "new" / "envs")
    not_made = venv.make_side_by_side([definition.read(project, name, "cpu") for name in ("mxnet", "numpy")], print)
    assert {name: (type(why), str(why)) for name, why in not_made.items()} == {
        "mxnet": (InstallationFailed, "a.whl: No space left on device")
    }
    (tmp_path / "file").touch()
    monkeypatch.setattr(Project, "of_this_code", lambda: Project(PROJECT.root, tmp_path / "file" / "envs"))
    assert environments.main(["cpu", "mxnet"]) == 1
    assert capsys.readouterr().err == f"mxnet: failed: {tmp_path}/file/envs: Not a directory\n"


def make_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an environment be made of what is in its folder already."""
    monkeypatch.setattr(venv, "install", lambda environment, *_: environment.folder.mkdir(exist_ok=True))
    monkeypatch.setattr(venv, "find_interpreter", lambda *_: "python")


def test_an_outdated_environment_behind_a_link_is_left_as_it_is_and_a_ready_one_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old modules would count as those of the new one."""
    make_nothing(monkeypatch)
    environment = definition.read(Project(PROJECT.root, tmp_path), "numpy", "cpu")
    kept = tmp_path / "kept"
    (kept / "bin").mkdir(parents=True)
    for name in ("bin/python", "stale.py", ".complete"):
        (kept / name).write_text("of an earlier definition\n")
    environment.folder.symlink_to(kept)
    with pytest.raises(InstallationFailed, match=f"^{environment.folder} is a link to an environment .* outdated.*"):
        venv.make(environment, print)
    assert (kept / ".complete").read_text() == "of an earlier definition\n" and (kept / "stale.py").exists()
    (kept / ".complete").write_text(f"{environment.digest}\n")
    venv.make(environment, print)
    assert environment.state == "ready"


def test_an_environment_that_another_run_makes_is_waited_for_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_nothing(monkeypatch)
    environment = definition.read(Project(PROJECT.root, tmp_path), "numpy", "cpu")
    said, printed = Queue[str](), list[str]()
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=said.put, flush=lambda: None))
    lock = environment.folder.with_suffix(".lock")
    with ThreadPoolExecutor() as pool:
        with FileLock(lock):
            waiting = pool.submit(venv.make, environment, printed.append)
            line = f"{environment.label}: another run makes it (lock: {lock}); waiting"
            assert (said.get(timeout=20), said.get(timeout=20)) == (line, "\n") and not waiting.done()
            for path in (environment.folder / "bin" / "python", environment.marker):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{environment.digest}\n")
        waiting.result()
    assert said.empty() and printed == []


def test_an_environment_that_cannot_be_emptied_is_not_made_on_top_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise OSError(EBUSY, "Device or resource busy", f"{folder}/lib")

    make_nothing(monkeypatch)
    monkeypatch.setattr("runner.environments.venv.shutil.rmtree", refuse)
    environment = definition.read(Project(PROJECT.root, tmp_path), "numpy", "cpu")
    environment.folder.mkdir()
    with pytest.raises(InstallationFailed, match=f"^{environment.folder}/lib: Device or resource busy$"):
        venv.make(environment, print)
    assert environment.state == "not made"


def test_a_definition_may_begin_with_the_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    text = PROJECT.definition("numpy").read_text(encoding="utf-8")
    (tmp_path / "mine" / DEFINITION_FILE).write_text(text, encoding="utf-8-sig")
    outside = Project(PROJECT.root, tmp_path / "envs", tmp_path)
    assert definition.read_label(outside, "mine") == definition.read_label(PROJECT, "numpy")
