"""Variables of the caller's environment that reach a worker, and that its trial reports."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import PROJECT, make_spec, varied

from reports.condition_text import describe_condition
from reports.conditions import read_condition
from reports.publishing.cleaning import contains_names
from runner import ask as asking
from runner import launch
from runner.cluster.__main__ import add_own_libraries
from runner.environments.containers import InContainer, build_run_line
from runner.environments.definition import read
from runner.environments.engine import Engine
from runner.environments.images import Image
from runner.gate.judge import Gate
from runner.launch import Launcher, LaunchFailed, Local, build_worker_environment
from runner.machine.description import LOADER, list_deciding_variables
from runner.request.placement import place_study
from runner.trial import MemoryWorker
from workloads.conditions import VARIABLES
from workloads.records.job import Job, Kind
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.study import Study

SET = {
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "default",
    "OPENBLAS_CORETYPE": "Haswell",
    "MXNET_MKLDNN_ENABLED": "0",
    "OMP_WAIT_POLICY": "PASSIVE",
}
OF_NO_WORKER = {"UNRELATED": "1", "MXNET_HOME": "/somewhere", "TF_CLI_CONFIG_FILE": "/somewhere"}


@pytest.fixture
def set_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list_deciding_variables():
        monkeypatch.delenv(name)
    for name, value in (SET | OF_NO_WORKER).items():
        monkeypatch.setenv(name, value)


def test_the_callers_variables_that_can_change_a_figure_are_the_trials_and_no_others(set_by_the_caller: None) -> None:
    assert list_deciding_variables() == SET


def test_what_is_the_trials_own_to_say_is_no_variable_of_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller's thread count or GPU would silently override the trial's."""
    for name in build_worker_environment(make_spec().placement, {}):
        monkeypatch.setenv(name, "7")
    assert not list_deciding_variables().keys() & build_worker_environment(make_spec().placement, {}).keys()


def test_a_worker_runs_under_the_variables_that_its_trial_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")  # set after the plan was made
    given = build_worker_environment(make_spec(variables=SET).placement, {"KERAS_BACKEND": "tensorflow"})
    assert {name: given[name] for name in SET} == SET
    assert "MALLOC_ARENA_MAX" not in given
    assert given["KERAS_BACKEND"] == "tensorflow"


def test_a_trial_under_another_variable_is_another_trial() -> None:
    plain = make_spec()
    assert len({plain.id, *(varied(plain, variables={name: value}).id for name, value in SET.items())}) == 1 + len(SET)


def test_the_probe_and_the_memory_worker_run_under_the_trials_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec, jobs = make_spec(variables=SET), []

    def refuse(folder: Path, job: Job, launcher: Launcher) -> None:
        jobs.append(job)
        raise LaunchFailed("enough is seen")

    monkeypatch.setattr(asking, "run_worker", refuse)
    Gate(tmp_path, PROJECT).gather(spec, Local("python", {}, PROJECT))
    MemoryWorker(tmp_path, [spec]).gather(spec, Local("python", {}, PROJECT))
    assert [(job.kind, job.trial.placement.variables) for job in jobs] == [(Kind.PROBE, SET), (Kind.MEMORY, SET)]


def test_a_worker_in_a_container_gets_the_same_variables(tmp_path: Path) -> None:
    launcher = InContainer(
        Engine("docker", "docker", "28.0"), Image(read(PROJECT, "numpy", "cpu")), "1" * 12, "base", {}
    )
    line = build_run_line(launcher, "name", tmp_path, tmp_path / "b" / "c", make_spec(variables=SET).placement, [])
    assert {f"{name}={value}" for name, value in SET.items()} <= set(line)


def test_a_worker_of_this_machine_sees_the_variables_and_not_the_callers_other_ones(
    set_by_the_caller: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "WORKER", "shown")
    (tmp_path / "shown.py").write_text(
        "import json, os, pathlib, sys; pathlib.Path(sys.argv[1], 'seen').write_text(json.dumps(dict(os.environ)))"
    )
    spec = make_spec(variables=list_deciding_variables())
    launcher = Local(sys.executable, {"PYTHONPATH": str(tmp_path)}, PROJECT)
    with (tmp_path / "log").open("w") as log:
        worker = launcher.start(tmp_path, Job(Kind.TRIAL, spec), log)
        worker.go()
        assert worker.wait(30) == 0
        worker.end()
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen.items() >= SET.items() and not seen.keys() & OF_NO_WORKER.keys()


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_what_a_worker_leaves_among_temporary_files_goes_with_it(
    ending: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "WORKER", "leaving")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "leaving.py").write_text(
        "import os, pathlib, sys, tempfile\nfile, name = tempfile.mkstemp()\n"
        f"pathlib.Path(sys.argv[1], 'left').write_text(name)\n{ending}"
    )
    launcher = Local(sys.executable, {"PYTHONPATH": str(tmp_path)}, PROJECT)
    with (tmp_path / "log").open("w") as log:
        worker = launcher.start(tmp_path, Job(Kind.TRIAL, make_spec()), log)
        worker.go()
        worker.wait(30)
        left = Path((tmp_path / "left").read_text())
        assert left.exists() and left.parent.parent == tmp_path / "tmp"
        worker.end()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_worker_starts_where_there_is_no_room_for_temporary_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "WORKER", "nothing")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    (tmp_path / "nothing.py").write_text("")
    launcher = Local(sys.executable, {"PYTHONPATH": str(tmp_path)}, PROJECT)
    with (tmp_path / "log").open("w") as log:
        worker = launcher.start(tmp_path, Job(Kind.TRIAL, make_spec()), log)
        worker.go()
        assert worker.wait(30) == 0
        worker.end()


def test_libraries_that_the_loader_is_told_to_take_are_a_condition_and_reach_the_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """LD_LIBRARY_PATH used to reach every worker while no trial reported it."""
    told = {"LD_LIBRARY_PATH": "/opt/cuda/lib64:/opt/blas", "LD_PRELOAD": "/opt/lib/libtcmalloc.so"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    placement = place_study(Study("s", device="cpu"), [], None, "venv", tmp_path)
    assert placement.variables.items() >= told.items()
    assert Local("python", {}, PROJECT).environment(placement).items() >= told.items()
    plain, spec = make_spec(), make_spec(variables=told)
    assert spec.id != plain.id
    result = TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0)
    assert describe_condition(read_condition(result))[VARIABLES] == " ".join(
        f"{name}={value}" for name, value in told.items()
    )


def test_a_worker_gets_no_library_path_that_its_trial_does_not_say_and_an_empty_one_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/set/after/the/plan")
    assert "LD_LIBRARY_PATH" not in Local("python", {}, PROJECT).environment(make_spec().placement)
    for name in LOADER:
        monkeypatch.setenv(name, "")
    assert not list_deciding_variables().keys() & set(LOADER)


def test_a_container_is_given_no_library_path_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/only/here")
    placement = place_study(Study("s", device="cpu"), [], None, "docker", tmp_path)
    assert "LD_LIBRARY_PATH" not in placement.variables


def test_a_worker_of_a_sweep_has_its_nodes_library_path_and_not_that_of_the_machine_that_hands_it_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only the GPU's node knows where its driver's libraries are."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/only/on/the/head")
    placement = place_study(Study("s", device="cpu"), [], None, "venv", tmp_path, elsewhere=True)
    assert "LD_LIBRARY_PATH" not in placement.variables
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")
    launcher = add_own_libraries(Local("python", {}, PROJECT))
    assert launcher.environment(placement)["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"
    assert launcher.conditions == {"node_library_path": "/usr/local/nvidia/lib64"}
    defined = add_own_libraries(Local("python", {"LD_LIBRARY_PATH": "/cudnn:/usr/local/nvidia/lib64"}, PROJECT))
    assert defined.environment(placement)["LD_LIBRARY_PATH"] == "/cudnn:/usr/local/nvidia/lib64"
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    plain = add_own_libraries(Local("python", {}, PROJECT))
    assert "LD_LIBRARY_PATH" not in plain.environment(placement)
    assert plain.conditions == {"node_library_path": None}


def test_a_home_folder_in_a_library_path_keeps_a_trial_from_being_published_unseen() -> None:
    spec = make_spec(variables={"LD_LIBRARY_PATH": "/home/alice/miniconda3/lib"})
    assert contains_names(json.dumps(TrialResult(spec, Status.OK, None, "2026-01-01", 1.0).to_json()).encode())
