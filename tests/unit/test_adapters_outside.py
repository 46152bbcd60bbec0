"""--adapters DIR: a custom framework next to the checkout's, or one line that says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import PROJECT, ROOT, make_spec
from copied import add_framework

from runner.environments.code import code_digest, worker_modules
from runner.environments.definition import is_referee, read
from runner.launch import Local
from runner.request import cli
from runner.request.parser import BadInput, run_parser
from workloads.records.job import Job, Kind


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    add_framework(tmp_path, "mine", label='"Mine"')
    return tmp_path


def test_its_frameworks_stand_beside_those_of_the_checkout(folder: Path) -> None:
    project = cli.add_adapters(PROJECT, folder)
    assert set(project.frameworks) == {*PROJECT.frameworks, "mine"}
    assert project.is_outside("mine") and not project.is_outside("numpy")
    assert read(project, "mine", "cpu").label == "Mine" and is_referee(project, "mine")


def test_its_code_is_in_the_ids_of_its_own_trials_alone(folder: Path) -> None:
    project = cli.add_adapters(PROJECT, folder)
    assert worker_modules(project, "mine")["adapters.mine.adapter"] == folder / "mine" / "adapter.py"
    before = code_digest(project, "mine")
    assert code_digest(project, "numpy") == code_digest(PROJECT, "numpy")
    with (folder / "mine" / "adapter.py").open("a") as file:
        file.write("ADDED = 1\n")
    assert code_digest(project, "mine") != before


def test_a_worker_imports_an_adapter_from_there_and_the_checkouts_own(folder: Path) -> None:
    launcher = Local(sys.executable, {}, cli.add_adapters(PROJECT, folder))
    code = "import adapters.mine.adapter, adapters.numpy.adapter; print(adapters.mine.adapter.__file__)"
    variables = {"PATH": os.environ["PATH"], **launcher.project.import_variables}
    ran = subprocess.run([sys.executable, "-c", code], cwd=folder, env=variables, capture_output=True, text=True)
    assert ran.stdout.strip() == str(folder / "mine" / "adapter.py"), ran.stderr


def test_a_worker_is_started_so(folder: Path, tmp_path: Path) -> None:
    project = cli.add_adapters(PROJECT, folder)
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters" / "worker.py").write_text("import os; print(os.environ['BATCHWISE_ADAPTERS'])\n")
    with (tmp_path / "log.txt").open("w") as log:
        launcher = Local(sys.executable, {"PYTHONPATH": str(tmp_path)}, replace(project, root=tmp_path))
        worker = launcher.start(tmp_path, Job(Kind.TRIAL, make_spec()), log)
        worker.go()
        assert worker.wait(60) == 0
        worker.end()
    assert (tmp_path / "log.txt").read_text().strip() == str(folder)


def test_bad_folders_are_one_line(folder: Path) -> None:
    def refused(adapters: Path) -> str:
        with pytest.raises(BadInput) as raised:
            cli.add_adapters(PROJECT, adapters)
        return str(raised.value)

    assert refused(folder / "nowhere").endswith("nowhere: no such folder")
    assert refused(folder / "mine").endswith("no folder in it has an environment.toml")
    assert "jax is a name of the project's own adapters" in refused(ROOT / "adapters")
    definition = folder / "mine" / "environment.toml"
    whole = definition.read_text()
    definition.write_text(whole.replace('label = "Mine"', ""))
    assert refused(folder).endswith("mine/environment.toml: 'label' is missing")
    definition.write_text(whole.replace('label = "Mine"', "label ="))
    assert "mine/environment.toml: Invalid value (at line " in refused(folder)
    (folder / "mine" / "adapter.py").unlink()
    assert refused(folder).endswith("mine has no adapter.py")
    (folder / "mine").rename(folder / "worker")
    assert "worker is a name of the project's own adapters" in refused(folder)


def test_a_container_is_refused_for_a_framework_that_no_image_has(folder: Path) -> None:
    def request(framework: str) -> cli.Request:
        words = ["--adapters", str(folder), "--framework", framework, "--isolation", "docker", "--device", "cpu"]
        return cli.build_request(run_parser().parse_args([*words, "--plan"]), PROJECT)

    assert request("numpy").frameworks == ("numpy",)
    with pytest.raises(BadInput, match="no image of mine from --adapters; use --isolation venv"):
        request("mine")
