"""What several rooms of tests share: the real command line, and results by cell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

from runner.project import Project
from workloads.records.job import Cell, Draw, Installation, Passes, Placement, Task, TrialSpec
from workloads.spec import OptimizerSpec

ROOT = Path(__file__).resolve().parent.parent
PROJECT = Project.at(ROOT)
REAL_FRAMEWORKS = ("mxnet", "pytorch", "tensorflow")
# The main job at four of its nine batch sizes, on the CPU also where there is a GPU.
QUICK = ("--framework", "all", "--device", "cpu", "--batch-size", 4, 32, 128, 1024, "--window", 2)


def run_runner(*arguments, cwd=ROOT, timeout_s=900, **environment):
    """`python -m runner ...` as a person off a terminal runs it; CompletedProcess with text."""
    return subprocess.run(
        [sys.executable, "-m", "runner", *map(str, arguments)],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "BATCHWISE_DATA"}
        | {"PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def by_cell(results):
    """{(framework, batch size): result.json} of a results folder."""
    stored = [json.loads(path.read_text()) for path in Path(results).glob("trials/*/result.json")]
    return {(result["spec"]["cell"]["framework"], result["spec"]["cell"]["batch_size"]): result for result in stored}


def make_spec(**changes):
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


def leaves(spec):
    """{field: the part of the spec that it is in}; None where it is in none."""
    parts = {part.name: getattr(spec, part.name) for part in fields(spec)}
    nested = {each.name: name for name, part in parts.items() if is_dataclass(part) for each in fields(part)}
    return nested | {name: None for name, part in parts.items() if not is_dataclass(part)}


def varied(spec, **changes):
    """The same trial, but for some fields, in whatever part of it they are."""
    for name, part in leaves(spec).items():
        if part and name in changes:
            spec = replace(spec, **{part: replace(getattr(spec, part), **{name: changes.pop(name)})})
    return replace(spec, **changes)


@pytest.fixture
def gpu_spec():
    return make_spec(device="GPU-00000000-1111-2222-3333-444444444444")


@pytest.fixture(scope="session")
def quick_run(tmp_path_factory):
    """(results folder, {cell: result.json}, what was printed) of QUICK."""
    results = tmp_path_factory.mktemp("quick")
    done = run_runner(*QUICK, "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    return results, by_cell(results), done.stdout


@pytest.fixture(scope="session")
def real_data():
    """The folder of real CIFAR-10, Fashion-MNIST and MNIST in their publishers' layout."""
    if "BATCHWISE_DATA" not in os.environ:
        pytest.skip("BATCHWISE_DATA is not set: it names the folder with the real data sets")
    return Path(os.environ["BATCHWISE_DATA"])


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    """What every framework made of the conformance suite's cases; each is run when it is first asked for."""
    from suite import Found  # beside the tests that ask

    return Found(tmp_path_factory.mktemp("conformance"))


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The folder of the stand-in for the NVIDIA driver's library, compiled once."""
    from stand_in import build  # beside the tests that ask

    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    """A container engine that answers."""
    from engines import an_engine  # beside the tests that ask

    with an_engine(tmp_path_factory.mktemp("engine")) as found:
        yield found


@pytest.fixture(scope="session")
def built(engine, tmp_path_factory):
    """Every image for the CPU is there, built of this checkout."""
    from engines import build_all

    build_all(engine, tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="session")
def in_venvs(tmp_path_factory):
    """{cell: result.json} of the study of tests/images in virtual environments."""
    from engines import STUDY

    results = tmp_path_factory.mktemp("venv")
    done = run_runner("--framework", "all", *STUDY, "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    return by_cell(results)
