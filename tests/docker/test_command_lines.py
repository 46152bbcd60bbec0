"""Command lines that an engine gets for a trial, and its errors in words; the engine itself is in tests/images."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import PROJECT, ROOT, make_spec, run_runner
from rich.console import Console

from runner.environments import containers, images
from runner.environments.containers import PROBE, InContainer, build_run_line, convert_exit_code
from runner.environments.definition import EnvironmentUnavailable, read
from runner.environments.engine import Engine, EngineError, explain_output, find_engine
from runner.environments.images import Image
from runner.launch import LaunchFailed
from runner.machine.description import Gpu
from runner.setup import find_environment, offer
from workloads.records.job import Job, Kind

GPU = "GPU-00000000-1111-2222-3333-444444444444"
TRIAL = Path("/here/results/trials/one")


DOCKER = Engine("docker", "docker", "28.0")


def line(engine: Engine = DOCKER, variables: dict[str, str] | None = None, **changes: Any) -> list[str]:
    launcher = InContainer(
        engine, Image(read(PROJECT, "tensorflow", "cpu")), "a1b2", "base", variables or {"KERAS_BACKEND": "x"}
    )
    placement = make_spec(threads=1, **changes).placement
    return build_run_line(launcher, "batchwise-one", TRIAL.parent.parent, TRIAL, placement, ["-m", "it"])


def option(words: list[str], name: str) -> list[str]:
    return [words[place + 1] for place, word in enumerate(words) if word == name]


def test_a_container_has_no_network_no_privileges_no_engine_and_no_root_that_can_be_written() -> None:
    words = line()
    assert option(words, "--network") == ["none"]
    assert option(words, "--cap-drop") == ["ALL"]
    assert "no-new-privileges" in option(words, "--security-opt")
    assert "--read-only" in words and "--rm" in words
    assert not [word for word in words if "sock" in word or word.startswith("--privileged") or word == "--pid"]
    assert option(words, "--pull") == ["never"]


def test_a_container_sees_no_more_than_the_results_and_writes_no_more_than_its_trial() -> None:
    read_only, own = option(line(), "--mount")
    assert read_only == "type=bind,source=/here/results,target=/results,readonly"
    assert own == "type=bind,source=/here/results/trials/one,target=/results/trials/one"
    assert line()[-1] == "/results/trials/one"


def test_results_belong_to_the_user_who_runs() -> None:
    assert option(line(), "--user") == [f"{os.getuid()}:{os.getgid()}"]
    rootless_docker = line(Engine("docker", "docker", "28.0", rootless=True))
    assert option(rootless_docker, "--user") == ["0:0"] and "--userns" not in rootless_docker
    assert option(line(Engine("podman", "podman", "5.0", rootless=True)), "--userns") == ["keep-id"]


def test_cores_are_limited_and_memory_where_a_limit_is_asked_for() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    assert option(line(), "--cpuset-cpus") == [str(allowed[0])]
    assert not option(line(), "--memory")
    limited = line(memory_limit_bytes=512 * 2**20)
    assert option(limited, "--memory") == option(limited, "--memory-swap") == ["536870912b"]


def test_a_share_of_processor_time_that_holds_for_the_runner_holds_for_its_containers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "--cpus" not in line()
    monkeypatch.setattr("workloads.control_groups.cpu_limit", lambda: 1.5)
    assert option(line(), "--cpus") == ["1.5"]


def test_the_gpu_that_is_asked_for_is_given_and_no_other() -> None:
    assert "--gpus" not in line() and "--device" not in line()
    assert "NVIDIA_VISIBLE_DEVICES=void" in option(line(), "--env")
    assert not [word for word in option(line(device=GPU), "--env") if word.startswith("NVIDIA_VISIBLE")]
    assert option(line(device=GPU), "--gpus") == [f"device={GPU}"]
    assert option(line(Engine("podman", "podman", "5.0"), device=GPU), "--device") == [f"nvidia.com/gpu={GPU}"]
    assert f"CUDA_VISIBLE_DEVICES={GPU}" in option(line(device=GPU), "--env")


def test_a_worker_gets_what_its_definition_says_and_none_of_this_machines_paths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/only/here")
    told = dict(word.split("=", 1) for word in option(line(), "--env"))
    assert told["KERAS_BACKEND"] == "x" and told["OMP_NUM_THREADS"] == "1"
    assert (told["PYTHONPATH"], told["HOME"]) == ("/opt/batchwise", "/tmp")
    assert not {"PATH", "LD_LIBRARY_PATH", "TMPDIR", "SSL_CERT_FILE"} & told.keys()


def test_the_program_and_image_that_are_asked_for_are_started() -> None:
    assert line()[-4:] == ["a1b2", "-m", "it", "/results/trials/one"]
    assert option(line(), "--entrypoint") == ["python"]


@pytest.mark.parametrize("readable", [True, False])
def test_a_container_that_cannot_read_our_code_fails_at_its_probe(readable: bool, tmp_path: Path) -> None:
    """An image whose files only root can read fails here, and not in each of its trials."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, tmp_path],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT if readable else tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) is readable, done.stderr
    assert readable or explain_output(done.stderr) == "ModuleNotFoundError: No module named 'adapters'"


@pytest.mark.parametrize(
    ("told", "meant"), [(0, 0), (1, 1), (125, 125), (137, -9), (139, -11), (143, -15), (200, 200), (255, 255)]
)
def test_a_signal_is_not_taken_for_an_exit_code(told: int, meant: int) -> None:
    assert convert_exit_code(told) == meant


SAID = [
    ("Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].", "GPU runtime"),
    ("Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all", "GPU runtime"),
    ("write /var/lib/docker/tmp/x: no space left on device", "the disk is full"),
    ("ERROR: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
     "the Docker daemon does not answer"),
    ("permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
     "this user may not use the daemon"),
    ("ERROR: BuildKit is enabled but the buildx component is missing or broken.", "buildx"),
    ("noise\nError: something new went wrong\nRun 'docker run --help' for more information", "something new"),
    ("", "no output from the container engine"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "meant"), SAID, ids=[meant for _, meant in SAID])
def test_an_error_of_the_engine_is_put_into_words(said: str, meant: str) -> None:
    told = explain_output(said)
    assert meant in told and "\n" not in told


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """write(name, script) adds a program; PATH has no others except the shell's."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def write(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return write


ANSWERS = 'case "$1" in --version) echo "{kind} version 1";; version) echo 1.2.3;; info) echo "[name=seccomp]";; esac'
DOWN = (
    'case "$1" in --version) echo "Docker version 28";; *) echo "Cannot connect to the Docker daemon at '
    'unix:///var/run/docker.sock. Is the docker daemon running?" >&2; exit 1;; esac'
)


def test_no_engine_is_a_clear_line(programs: Callable[[str, str], None]) -> None:
    with pytest.raises(EngineError, match="install Docker or Podman"):
        find_engine()


def test_a_daemon_that_is_down_is_a_clear_line_and_podman_is_taken_instead(
    programs: Callable[[str, str], None],
) -> None:
    programs("docker", DOWN)
    with pytest.raises(EngineError, match="daemon does not answer: start it"):
        find_engine()
    programs("podman", ANSWERS.format(kind="podman"))
    assert find_engine() == Engine("podman", "podman", "1.2.3", rootless=os.geteuid() != 0)


def test_docker_comes_first_and_podman_under_its_name_is_not_taken_for_it(programs: Callable[[str, str], None]) -> None:
    programs("podman", ANSWERS.format(kind="podman"))
    programs("docker", ANSWERS.format(kind="Docker"))
    assert find_engine() == Engine("docker", "docker", "1.2.3")
    programs("docker", ANSWERS.format(kind="podman"))
    assert find_engine().kind == "podman" and find_engine().program == "docker"


def test_an_engine_that_hangs_does_not_hang_the_runner(
    programs: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.environments.engine.ANSWER_S", 0.2)
    programs("docker", 'case "$1" in --version) echo "Docker version 28";; *) /bin/sleep 9;; esac')
    with pytest.raises(EngineError, match="did not answer within"):
        find_engine()


LABELS = Image(read(PROJECT, "numpy", "cpu")).labels
INSPECTED = (
    'case "$1 $2" in "image inspect") echo \'[{{"Id": "sha256:abc", "Config": {{"Labels": {{{labels}}}}}}}]\';; esac'
)


@pytest.mark.parametrize("changed", [None, *LABELS])
def test_an_image_of_another_checkout_is_refused(programs: Callable[[str, str], None], changed: str | None) -> None:
    labels = LABELS | ({changed: "another"} if changed else {})
    programs("docker", INSPECTED.format(labels=", ".join(f'"{name}": "{value}"' for name, value in labels.items())))
    image, engine = Image(read(PROJECT, "numpy", "cpu")), Engine("docker", "docker", "1")
    if changed is None:
        assert containers.find(engine, image).image_id == "abc"
    else:
        with pytest.raises(containers.ImageMissing, match="was built from another"):
            containers.find(engine, image)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--isolation", "docker", "--memory-limit", "8"), "must be 64 MiB or more"),
        (("--memory-limit", "8"), "must be 64 MiB or more"),
        (("--isolation", "dokcer"), "did you mean docker"),
        (("--isolation", "docker", "--results", "{tmp}/a,b"), "path cannot have a comma"),
    ],
)
def test_bad_words_about_containers_are_one_line_and_start_nothing(
    arguments: tuple[str, str, str, str] | tuple[str, str], told: str, tmp_path: Path
) -> None:
    results = () if "--results" in arguments else ("--results", tmp_path / "results")
    words = [str(word).replace("{tmp}", str(tmp_path)) for word in (*arguments, *results)]
    done = run_runner("--framework", "numpy", "--device", "cpu", *words)
    assert done.returncode == 2 and told in done.stderr and len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.rglob("inputs"))


def test_a_run_without_an_engine_is_one_line_and_starts_nothing(tmp_path: Path) -> None:
    for name in ("git", "sh"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    done = run_runner(
        *("--framework", "numpy", "--device", "cpu", "--isolation", "docker", "--results", tmp_path / "results"),
        PATH=str(tmp_path),
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr == (
        "runner: --isolation docker: no container engine: install Docker or Podman, or use --isolation venv\n"
    )
    assert not (tmp_path / "results" / "trials").exists()


def test_in_an_image_a_study_looks_for_the_framework_of_its_python_alone(tmp_path: Path) -> None:
    """This Python has no PyTorch, like an image whose framework was lost."""
    words = [sys.executable, "-m", "runner", "--results", str(tmp_path), "--device", "cpu"]
    told = subprocess.run(
        words, cwd=ROOT, env=os.environ | {"BATCHWISE_IMAGE": "pytorch-cpu 0.1.0 abc"}, capture_output=True, text=True
    )
    assert told.returncode == 2 and "no framework is installed in this Python" in told.stderr


def asked(capability: str | None, isolation: str) -> Any:
    gpu = Gpu(GPU, "NVIDIA H100", "550", "12.4", None, capability)
    return SimpleNamespace(project=PROJECT, placement=make_spec(device=GPU).placement, gpus=(gpu,), isolation=isolation)


def test_mxnet_on_a_card_newer_than_its_code_is_refused_and_told_what_to_take() -> None:
    assert find_environment("mxnet", asked("8.9", "venv")).device_kind == "cuda"
    with pytest.raises(EnvironmentUnavailable) as told:
        find_environment("mxnet", asked("9.0", "venv"))
    assert "up to compute capability 8.9; this NVIDIA H100 has 9.0" in str(told.value)
    assert "--isolation docker" in str(told.value)
    environment = find_environment("mxnet", asked("9.0", "docker"))
    assert Image(environment).reference == "batchwise/mxnet:cuda-nvidia"
    for isolation in ("venv", "docker"):
        with pytest.raises(EnvironmentUnavailable, match=r"this NVIDIA H100 has 10\.0$"):
            find_environment("mxnet", asked("10.0", isolation))


def test_a_build_that_fails_is_explained_with_the_program_that_failed(programs: Callable[[str, str], None]) -> None:
    programs("podman", "echo 'write /x: no space left on device' >&2; exit 1")
    with pytest.raises(EngineError, match=r"free some space, e\.g\. with `podman system prune`"):
        images.build(Engine("podman", "podman", "5.0"), Image(read(PROJECT, "numpy", "cpu")))


def test_ctrl_c_ends_a_build_in_one_line(programs: Callable[[str, str], None]) -> None:
    programs("docker", f'{ANSWERS.format(kind="Docker")}; [ "$1" != build ] || {{ echo step; exec /bin/sleep 60; }}')
    words = [sys.executable, "-m", "runner.environments.images", "numpy", "--device", "cpu"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as building:
        assert building.stdout
        for line in building.stdout:
            if line == "step\n":
                break
        building.send_signal(signal.SIGINT)
        _, said = building.communicate(timeout=60)
    assert (building.returncode, said) == (130, "\nimages: interrupted; the same command continues\n")


def test_a_missing_image_is_offered_to_somebody_and_not_built_against_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    image, missing = Image(read(PROJECT, "numpy", "cpu")), containers.ImageMissing("there is no image")
    built = []
    monkeypatch.setattr("runner.environments.images.build", lambda engine, image: built.append(image))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    console = Console(force_terminal=True, file=io.StringIO())
    for answer in (True, False):
        monkeypatch.setattr("runner.setup.Confirm.ask", lambda question, answer=answer, **_: answer)
        if answer:
            offer(DOCKER, image, missing, console)
        else:
            with pytest.raises(EngineError, match="make images FRAMEWORK=numpy DEVICE=cpu builds it"):
                offer(DOCKER, image, missing, console)
    assert built == [image]


SLOW = """
echo "$@" >> {log}
case "$1" in
  run) /bin/sleep 1; touch {there}; while [ -e {there} ]; do /bin/sleep 0.05; done; exit 137;;
  rm) rm -f {there};;
  *) exit 1;;
esac"""


def test_a_container_that_comes_into_being_after_it_was_ended_does_not_go_on(
    programs: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The engine is slow to start it, and the runner is interrupted before that."""
    there = tmp_path / "there"
    for name in ("rm", "touch"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    programs("docker", SLOW.format(log=tmp_path / "log", there=there))
    monkeypatch.setattr("runner.environments.containers.START_S", 0.2)
    launcher = InContainer(Engine("docker", "docker", "1"), Image(read(PROJECT, "numpy", "cpu")), "a1b2", "base", {})
    with (tmp_path / "out").open("w") as log, pytest.raises(LaunchFailed, match="did not start within"):
        launcher.start(TRIAL, Job(Kind.TRIAL, make_spec(threads=1)), log)
    time.sleep(1.5)
    assert not there.exists() and "rm --force" in (tmp_path / "log").read_text()


def test_a_data_set_that_an_image_has_not_is_told_how_to_be_mounted(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "runner", "--framework", "numpy", "--dataset", "cifar10", "--device", "cpu"]
    environment = {name: value for name, value in os.environ.items() if name != "BATCHWISE_DATA"}
    told = subprocess.run(
        [*words, "--results", str(tmp_path)],
        cwd=ROOT,
        env=environment | {"BATCHWISE_IMAGE": "numpy-cpu 0.1.0 abc"},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 2 and "-v DIR:/data:ro -e BATCHWISE_DATA=/data" in told.stderr
