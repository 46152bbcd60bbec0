"""Groups of frameworks: what `all` and `everything` mean; the thesis' three go on when others lie beside them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import PROJECT, REAL_FRAMEWORKS

from runner import show
from runner.doctor import project as doctor
from runner.environments import __main__ as environments
from runner.environments import definition, images
from runner.environments.definition import EnvironmentUnavailable
from runner.machine.description import IMAGE_VARIABLE
from runner.project import DEFINITION_FILE, Project
from runner.request.chosen import choose_frameworks
from runner.request.parser import BadInput

THREE, REFEREE = ["mxnet", "pytorch", "tensorflow"], "numpy"
NEWER = """label = "Newer"
python = "3.12"
base = "image"
imports = ["newer"]
smoke = "import newer"

[variables]

[cpu]
disk_mib = 1234
requires = ["newer==3.1", "numpy==2.4.6"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The project's definitions, and one framework more, for CPUs alone; nothing is installed."""
    for name in (*THREE, REFEREE):
        folder = tmp_path / "adapters" / name
        folder.mkdir(parents=True)
        shutil.copy(PROJECT.definition(name), folder)
    (tmp_path / "adapters" / "newer").mkdir()
    (tmp_path / "adapters" / "newer" / DEFINITION_FILE).write_text(NEWER)
    return Project.at(tmp_path)


def test_all_stays_the_thesis_three_and_everything_is_what_the_device_has(project: Project) -> None:
    def asked(*names: str, kind: str = "cpu") -> list[str]:
        return list(choose_frameworks(project, names, "venv", {}, kind))

    assert asked("all") == THREE == sorted(REAL_FRAMEWORKS)
    assert asked("everything") == sorted([*THREE, "newer"])
    assert asked(REFEREE) == [REFEREE]
    assert asked("everything", kind="cuda") == THREE
    assert asked("all", "newer") == sorted([*THREE, "newer"])


def test_no_command_makes_or_builds_another_framework_without_its_name(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def note(wanted: Iterable[definition.Environment], _: object) -> dict[str, EnvironmentUnavailable]:
        made.extend(each.framework for each in wanted)
        return {}

    monkeypatch.setattr(Project, "of_this_code", lambda: project)
    monkeypatch.setattr(environments, "make_side_by_side", note)
    assert environments.main(["cpu"]) == 0 and made == sorted([*THREE, REFEREE])
    made.clear()
    assert environments.main(["cpu", "newer"]) == 0 and made == ["newer"]
    assert environments.main(["cpu", "never"]) == 2
    assert "unknown framework 'never'; known: mxnet, newer, numpy" in capsys.readouterr().err
    assert {each.environment.framework for each in images.list_images(project, [], [])} == set(THREE)
    found = {each.name for each in doctor.check_environments(project, "cpu")}
    assert found == {f"environment {name}" for name in (*THREE, REFEREE)}


def test_in_an_image_all_is_the_image_s_own_framework_if_its_python_has_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IMAGE_VARIABLE, "newer-cpu 1.0 0123abc")
    for word in ("all", "everything"):
        with pytest.raises(BadInput, match="no framework is installed in this Python"):
            choose_frameworks(project, (word,), "here", {}, "cpu")
    (project.root / "newer.py").touch()
    monkeypatch.syspath_prepend(project.root)
    for word in ("all", "everything"):
        assert list(choose_frameworks(project, (word,), "here", {}, "cpu")) == ["newer"]


def test_a_framework_of_images_alone_is_listed(project: Project) -> None:
    text = project.definition("newer").read_text()
    project.definition("newer").write_text(text.replace("[cpu]", "[cuda-nvidia]"))
    assert show._framework(project, "newer") == "Newer, not part of all; only as an image: cuda-nvidia"


def test_the_list_says_what_each_is_and_how_much_disk_it_takes(project: Project) -> None:
    said = {name: show._framework(project, name) for name in project.frameworks}
    assert said["newer"] == "Newer, not part of all; newer==3.1 numpy==2.4.6; cpu: not made, about 1,234 MiB"
    assert said["mxnet"].startswith(
        "MXNet; mxnet==1.9.1 numpy==1.23.5; cpu: not made, about 296 MiB; cuda: not made, disk"
    )
    environment = definition.read(project, "newer", "cpu")
    environment.interpreter.parent.mkdir(parents=True)
    environment.interpreter.write_bytes(bytes(3 * 2**20))
    environment.marker.write_text(environment.digest)
    (environment.folder / "again").hardlink_to(environment.interpreter)
    assert show._framework(project, "newer").endswith("cpu: ready, 3 MiB"), "a file of two names counts once"
