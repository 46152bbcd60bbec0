"""Shared by several folders of tests: the real command line, results by cell, and which tests run at the same time.

With `-n` each worker of pytest-xdist keeps to one core, and so does all that it starts. To a trial, that core is the
whole machine; it does not see what others compute on the other cores.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from cpu_time import limit_cpu_time
from filelock import FileLock

from runner.environments.definition import list_thesis
from runner.environments.engine import Engine
from runner.machine.description import list_deciding_variables
from runner.machine.locks import SPACE_VARIABLE
from runner.project import Project
from workloads.records.job import Cell, Draw, Installation, Passes, Placement, Task, TrialSpec
from workloads.spec import OptimizerSpec

if TYPE_CHECKING:
    from suite import Found  # next to the tests that ask

Cells = dict[tuple[str, int], dict[str, Any]]  # (framework, batch size): result.json
QuickRun = tuple[Path, Cells, str]  # results folder, its cells, what was printed

ROOT = Path(__file__).resolve().parent.parent
# Includes the frameworks of a folder outside of the checkout, if this variable names one.
OUTSIDE = os.environ.get("BATCHWISE_ADAPTERS")
PROJECT = replace(Project.at(ROOT), adapters_outside=Path(OUTSIDE).resolve() if OUTSIDE else None)
REAL_FRAMEWORKS = tuple(list_thesis(PROJECT))
# The smallest of the catalogue, where what is computed does not matter.
TINY = ("--workload", "tiny", "--dataset", "digits-64")
# Speed is not tested here: another process on the machine, which is common where tests run, decides nothing.
PATIENT = ("--retry", "contended")
# The main job at two of its nine batch sizes, on the CPU also where there is a GPU.
QUICK_SIZES = (128, 1024)
QUICK = ("--framework", "all", "--device", "cpu", "--batch-size", *QUICK_SIZES, "--window", 1, *PATIENT)

FOLDERS = {
    "browser": "browser",
    "gpu": "gpu",
    "images": "images",
    "pipeline": "slow",
    "faults": "slow",
    "smoke": "smoke",
}  # folder of tests: its marker
REAL = ("conformance", "images", "matrix")  # folders whose tests start real frameworks
RUNS = {"quick_run", "judged", "real_data"}  # fixtures that start real frameworks


def bare_environment() -> dict[str, str]:
    """The caller's variables except those that decide what is computed, which are in ids, and the folder of real
    data."""
    return {
        name: value for name, value in os.environ.items() if name not in {"BATCHWISE_DATA", *list_deciding_variables()}
    }


def run_runner(
    *arguments: object, cwd: Path = ROOT, timeout_s: float = 900, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `python -m runner ...` as a person without a terminal does; CompletedProcess with text."""
    return subprocess.run(
        [sys.executable, "-m", "runner", *map(str, arguments)],
        cwd=cwd,
        env=bare_environment() | {"PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def living_children() -> list[psutil.Process]:
    """List the living children of this process. Zombies, which wait until other tests collect them, are left out."""
    return [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]


def by_cell(results: Path) -> Cells:
    """{(framework, batch size): result.json} of a results folder."""
    stored = [json.loads(path.read_text()) for path in Path(results).glob("trials/*/result.json")]
    return {(result["spec"]["cell"]["framework"], result["spec"]["cell"]["batch_size"]): result for result in stored}


def make_spec(**changes: Any) -> TrialSpec:
    """A valid TrialSpec of the numpy referee on the CPU, with some fields changed."""
    spec = TrialSpec(
        cell=Cell("numpy", 32, "on-demand"),
        task=Task("osu-cnn", "digits", OptimizerSpec.named("momentum"), "default", "host"),
        passes=Passes(epochs=2, last_batch="keep"),
        placement=Placement("cpu", threads=2, variables={}),
        installation=Installation("here", "-"),
        draw=Draw(repeat=0, seed=0),
        inputs={},
        window_s=1.0,
        timeout_s=60.0,
        study="test",
    )
    return varied(spec, **changes)


def leaves(spec: TrialSpec) -> dict[str, str | None]:
    """{field: the part of the spec that it is in}; None for a field of the spec itself."""
    parts = {part.name: getattr(spec, part.name) for part in fields(spec)}
    nested = {each.name: name for name, part in parts.items() if is_dataclass(part) for each in fields(part)}
    return nested | {name: None for name, part in parts.items() if not is_dataclass(part)}


def varied(spec: TrialSpec, **changes: Any) -> TrialSpec:
    """Return the same trial with some fields changed, in whichever part they are."""
    for name, part in leaves(spec).items():
        if part and name in changes:
            spec = replace(spec, **{part: replace(getattr(spec, part), **{name: changes.pop(name)})})
    return replace(spec, **changes)


def pytest_configure(config: pytest.Config) -> None:
    os.environ[SPACE_VARIABLE] = f"tests {os.getpid()}"  # of this process: others may run on the same cores
    # In the background of a script SIGINT is ignored by everything that is started there.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(config.workerinput["workerid"].removeprefix("gw")) % len(cores)]})


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Mark tests by folder and by what they start. Sort the longest first, with the tests of a group next to each
    other."""
    for item in items:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        if folder in FOLDERS:
            item.add_marker(FOLDERS[folder])
        if folder in REAL or RUNS.intersection(item.fixturenames):
            item.add_marker("real")
        if name := group(item):
            item.add_marker(pytest.mark.xdist_group(name))
            if getattr(item.config.option, "loadgroup", False):
                # pytest-xdist 3.8 writes it where pytest 9 does not look, and writes text.
                item._id = f"{item.nodeid}@{name}"  # type: ignore[assignment]
    items.sort(key=turn)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with limit_cpu_time(item):
        return (yield)


def turn(item: pytest.Function) -> int:
    """Sort the quick run first, then all other tests of real frameworks, then those that only need the quick run's
    results.

    Clusters compute on every core, which disturbs every measurement: they come when only quick tests are left.
    """
    if "quick_run" in item.fixturenames:
        return 0 if item.path.name == "test_run.py" else 2
    if item.path.parent.name == "cluster":
        return 3
    return 1 if item.get_closest_marker("real") or item.get_closest_marker("smoke") else 4


def group(item: pytest.Function) -> str:
    """Name the group of tests that share what is started once: the quick run, a framework's answers to the suite, a
    module's own. A test's own mark comes first."""
    if said := item.get_closest_marker("xdist_group"):
        return str(said.args[0])
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if "quick_run" in item.fixturenames:
        return f"quick run {parameters.get('framework', parameters.get('told', ''))}"
    if "found" in item.fixturenames and "framework" in parameters:
        return f"suite of {parameters['framework']}"
    if "on" in item.fixturenames:
        return f"machine {parameters.get('place', 0 if 'bare' in item.fixturenames else 2)}"
    shared = (each for name in item.fixturenames for each in item._fixtureinfo.name2fixturedefs.get(name, ()))
    return str(item.path) if any(each.scope == "module" for each in shared) else ""


@pytest.fixture
def gpu_spec() -> TrialSpec:
    return make_spec(device="GPU-00000000-1111-2222-3333-444444444444")


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole copy of the project but for neighbours: a trial of seconds that is repeated for them costs a minute."""
    from copied import copy_project, ignore_neighbours  # these import names from here

    project = copy_project(tmp_path_factory.mktemp("project"))
    (project / ".envs").symlink_to(ROOT / ".envs")
    ignore_neighbours(project)
    return project


@pytest.fixture(scope="session")
def quick_run(tmp_path_factory: pytest.TempPathFactory, calm: Path) -> QuickRun:
    """(results folder, {cell: result.json}, what was printed) of QUICK."""
    results = shared(tmp_path_factory) / "quick"

    def run() -> None:
        done = run_runner(*QUICK, "--results", results, cwd=calm, PYTHONPATH=str(calm))
        assert done.returncode == 0, done.stdout + done.stderr
        (results / "printed.txt").write_text(done.stdout)

    once(results, run)
    return results, by_cell(results), (results / "printed.txt").read_text()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real CIFAR-10, Fashion-MNIST and MNIST in their publishers' layout."""
    if "BATCHWISE_DATA" not in os.environ:
        pytest.skip("BATCHWISE_DATA is not set: it names the folder with the real data sets")
    return Path(os.environ["BATCHWISE_DATA"])


@pytest.fixture(scope="session")
def lean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project without environments that makes no reports, for tests that are not about them."""
    from copied import copy_project, without_reports  # these import names from here

    project = copy_project(tmp_path_factory.mktemp("project"))
    without_reports(project)
    return project


@pytest.fixture(scope="session")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project for tests that are about neither memory, nor charts, nor neighbours."""
    from copied import copy_undisturbed  # it imports names from here

    return copy_undisturbed(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def without_charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy as `calm` whose reports are tables and the page: charts take longer than all the rest."""
    from copied import copy_with_environments, ignore_neighbours  # these import names from here

    project = copy_with_environments(tmp_path_factory.mktemp("project"), "html", "md", "csv")
    ignore_neighbours(project)
    return project


@pytest.fixture(scope="session")
def unreported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy as `forgetful` that makes no reports either: a report takes longer than a small trial."""
    from copied import copy_undisturbed, without_reports  # these import names from here

    project = copy_undisturbed(tmp_path_factory.mktemp("project"))
    without_reports(project)
    return project


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Answers of every framework to the conformance suite's cases; each is run when it is first asked for."""
    from suite import Found  # next to the tests that ask

    return Found(shared(tmp_path_factory) / "conformance")


def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The session's folder, one for all workers of pytest-xdist."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


def once(path: Path, work: Callable[[], object]) -> None:
    """Do the work of `path` unless a process of the session has done it; where that failed, fail with its reason."""
    ended = path.with_name(f"{path.name}.ended")
    with FileLock(path.with_name(f"{path.name}.lock")):
        if not ended.exists():
            try:
                work()
            except AssertionError as error:
                ended.write_text(str(error) or "it failed")
                raise
            ended.touch()
    reason = ended.read_text()
    assert not reason, reason


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in for the NVIDIA driver's library, compiled once."""
    from stand_in import build  # next to the tests that ask

    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A container engine that answers."""
    from engines import an_engine  # next to the tests that ask

    with an_engine(tmp_path_factory.mktemp("engine")) as found:
        yield found


@pytest.fixture(scope="session")
def built(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Build every image for the CPU from this checkout."""
    from engines import build_all

    build_all(engine, tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="session")
def in_venvs(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """{cell: result.json} of the study of tests/images in virtual environments."""
    from engines import STUDY

    results = tmp_path_factory.mktemp("venv")
    done = run_runner("--framework", "all", *STUDY, "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    return by_cell(results)
