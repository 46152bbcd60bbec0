"""Each check of `python -m runner doctor` on a machine that is made up: what it finds, and what to do."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT
from rich.console import Console

from runner.doctor import command, machine, noise, project
from runner.doctor.machine import Finding, State
from runner.doctor.noise import LoopTimes
from runner.environments import definition
from runner.machine import description, locks
from runner.machine.description import Gpu
from workloads.datasets import DATASETS

MACHINE: dict[str, Any] = {
    "cpu_model": "AMD EPYC", "cpu_flags": ["fma", "avx2"], "cores": 2, "cpu_limit_cores": None,
    "memory_bytes": 8 * 2**30, "memory_limit_bytes": None,
}  # fmt: skip


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def fine(finding: Finding, *words: str) -> None:
    assert finding.state is State.OK and not finding.advice, finding
    assert all(word in finding.text for word in words), finding


def bad(finding: Finding, state: State, *words: str) -> None:
    """Check that a finding says what is wrong, and what to do."""
    assert finding.state is state and finding.advice, finding
    assert all(word in finding.text for word in words), finding


def test_processor_card_and_null_device_are_looked_at(tmp_path: Path) -> None:
    fine(machine.check_processor(MACHINE), "AMD EPYC", "cores 2", "fma avx2")
    bad(machine.check_processor(MACHINE | {"cpu_flags": []}), State.WARNING, "none of")
    fine(machine.check_processor(MACHINE | {"cores": 3, "cpu_limit_cores": 3.5}), "cores 3 (CPU quota 3.5)")
    less = machine.check_processor(MACHINE | {"cores": 1, "cpu_limit_cores": 0.5})
    bad(less, State.WARNING, "cores 1 (CPU quota 0.5)")
    assert machine.check_processor(MACHINE | {"cpu_flags": None}).state is State.UNKNOWN
    fine(machine.check_gpu([], tmp_path), "no NVIDIA GPU")
    fine(machine.check_gpu([Gpu("GPU-1", "H100", "550.54", "12.4", 2**30)], tmp_path), "H100, driver 550.54, CUDA 12.4")
    left = machine.check_gpu([Gpu("GPU-1", "H100", "1", "12.4", 2**30)], tmp_path, ["1: GPU is lost"])
    fine(left, "H100", "refused to this process: 1: GPU is lost")
    bad(machine.check_gpu([], tmp_path, ["0: GPU is lost"]), State.PROBLEM, "0: GPU is lost")
    put(tmp_path, "proc/driver/nvidia/version", "NVRM")
    bad(machine.check_gpu([], tmp_path), State.PROBLEM, "/proc/driver/nvidia/version")
    fine(machine.check_null_device(Path("/")))
    bad(machine.check_null_device(tmp_path), State.PROBLEM)
    put(tmp_path, "dev/null", "")
    bad(machine.check_null_device(tmp_path), State.PROBLEM, "-rw-r--r--")


def test_little_memory_and_missing_shared_memory_are_named(tmp_path: Path) -> None:
    fine(machine.check_memory(4 * 2**30, MACHINE), "4,096 MiB available of 8,192 MiB")
    bad(machine.check_memory(2**30, MACHINE), State.WARNING)
    bad(
        machine.check_memory(4 * 2**30, MACHINE | {"memory_limit_bytes": 2**30}),
        State.WARNING,
        "control group 1,024 MiB",
    )
    bad(machine.check_shared_memory(tmp_path), State.WARNING, "No such file")
    (tmp_path / "dev" / "shm").mkdir(parents=True)
    fine(machine.check_shared_memory(tmp_path), "MiB free")


@pytest.mark.parametrize(
    ("meminfo", "state"),
    [
        ("SwapTotal: 0 kB\nSwapFree: 0 kB\n", State.OK),
        ("SwapTotal: 1000 kB\nSwapFree: 990 kB\n", State.OK),
        ("SwapTotal: 1000 kB\nSwapFree: 500 kB\n", State.WARNING),
        ("MemTotal: 1000 kB\n", State.UNKNOWN),
    ],
)
def test_swap_in_use_is_named(tmp_path: Path, meminfo: str, state: State) -> None:
    put(tmp_path, "proc/meminfo", meminfo)
    assert machine.check_swap(tmp_path).state is state


def test_a_slow_or_a_set_clock_is_named(tmp_path: Path) -> None:
    path = "sys/devices/system/clocksource/clocksource0/current_clocksource"
    assert machine.check_clock(tmp_path, 2.0, 2.0).state is State.UNKNOWN
    put(tmp_path, path, "tsc\n")
    fine(machine.check_clock(tmp_path, 2.0, 2.000001), "tsc")
    bad(machine.check_clock(tmp_path, 2.0, 2.1), State.WARNING, "50,000 us per second")
    put(tmp_path, path, "hpet\n")
    bad(machine.check_clock(tmp_path, 2.0, 2.0), State.WARNING, "hpet")


def test_limits_that_would_end_a_worker_are_named() -> None:
    def limits(**soft: int) -> Callable[[int], tuple[int, int]]:
        numbers = {getattr(resource, name): value for name, value in soft.items()}
        return lambda number: (numbers.get(number, resource.RLIM_INFINITY), resource.RLIM_INFINITY)

    fine(machine.check_limits(limits(RLIMIT_NOFILE=1024)), "1,024 open files")
    low = machine.check_limits(limits(RLIMIT_AS=2**30, RLIMIT_FSIZE=4096, RLIMIT_NOFILE=64))
    bad(low, State.WARNING, "RLIMIT_AS 1,073,741,824 (memory)", "RLIMIT_FSIZE 4,096", "RLIMIT_NOFILE 64")


def test_a_governor_that_follows_the_load_is_named(tmp_path: Path) -> None:
    assert noise.check_governor(tmp_path, [0, 1]).state is State.UNKNOWN
    for core in (0, 1):
        put(tmp_path, f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor", "performance\n")
    fine(noise.check_governor(tmp_path, [0, 1]), "performance")
    put(tmp_path, "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n")
    bad(noise.check_governor(tmp_path, [0, 1]), State.WARNING, "performance, powersave")
    fine(noise.check_governor(tmp_path, [0]), "performance")  # the cores that are used


@pytest.mark.parametrize(("place", "on"), description.TURBO.items())
def test_turbo_is_told_and_no_warning(tmp_path: Path, place: str, on: str) -> None:
    assert noise.check_turbo(description.read_turbo(tmp_path)).state is State.UNKNOWN
    put(tmp_path, place, f"{on}\n")
    fine(noise.check_turbo(description.read_turbo(tmp_path)), "turbo is on")
    put(tmp_path, place, f"{1 - int(on)}\n")
    fine(noise.check_turbo(description.read_turbo(tmp_path)), "turbo is off")


def test_clocks_that_were_lowered_for_heat_are_named(tmp_path: Path) -> None:
    def counted(*counts: int) -> int | None:
        for core, count in enumerate(counts):
            put(tmp_path, f"{description.CORES}/cpu{core}/thermal_throttle/core_throttle_count", f"{count}\n")
        return description.read_throttle_count([0, 1], tmp_path)

    assert description.read_throttle_count([0, 1], tmp_path) is None
    before, after = counted(3, 4), counted(5, 4)
    assert description.compute_rise(before, after) == 2 and description.compute_rise(before, None) is None
    calm = LoopTimes([0.001] * 50, 2.0, 0.0)
    assert noise.check_throttling(None).state is noise.check_throttling(calm).state is State.UNKNOWN
    fine(noise.check_throttling(replace(calm, throttled=0)), "no clock")
    bad(noise.check_throttling(replace(calm, throttled=2)), State.WARNING, "2 times over 2.0 s")


def test_load_neighbours_and_unsteady_work_are_named() -> None:
    fine(noise.check_load(0.2, 2))
    bad(noise.check_load(1.5, 2), State.WARNING, "1.50")
    steady = LoopTimes([0.001] * 100, 2.0, 1.0)
    fine(noise.check_neighbours(steady), "1.0 %")
    fine(noise.check_steadiness(steady), "1.00 ms; the times spread by 0.0 %")
    unsteady = LoopTimes([0.001, 0.0015] * 50, 2.0, 30.0)
    bad(noise.check_neighbours(unsteady), State.WARNING, "30.0 %")
    bad(noise.check_steadiness(unsteady), State.WARNING, "spread by 40.0 %")
    assert noise.check_steadiness(LoopTimes([0.1, 0.1], 2.0, 0.0)).state is State.UNKNOWN
    assert {noise.check_steadiness(None).state, noise.check_neighbours(None).state} == {State.UNKNOWN}


def test_the_load_is_compared_with_the_cores_of_the_whole_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load average is that of all processes, wherever they run, and this process may have fewer cores."""
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    monkeypatch.setattr(description, "read_load_average", lambda: 30.0)
    monkeypatch.setattr(project, "check_environments", lambda *_: iter(()))
    found = command.collect_findings(PROJECT, tmp_path, tmp_path)
    fine(next(each for each in found if each.name == "load"), "30.00", "128 cores")


def test_the_loop_measures_and_leaves_the_cores_as_they_were() -> None:
    before = os.sched_getaffinity(0)
    calibration = noise.calibrate(sorted(before), 0.2)
    assert os.sched_getaffinity(0) == before
    assert len(calibration.pieces_s) > 5 and calibration.wall_s >= 0.2
    assert calibration.foreign_percent is not None and calibration.foreign_percent >= 0


def test_a_run_on_the_cores_or_the_card_is_named_with_its_process() -> None:
    fine(noise.check_other_runs([7], ["GPU-1"]))
    with locks.device("cpu", [7]), locks.device("GPU-1", []):
        mine = f"(process {os.getpid()})"
        bad(
            noise.check_other_runs([6, 7], ["GPU-1"]),
            State.WARNING,
            f"core 7 is in use by another run {mine}; GPU GPU-1",
        )


def test_environments_that_are_not_made_outdated_or_not_whole_are_named(tmp_path: Path) -> None:
    code = replace(PROJECT, environments=tmp_path)
    frameworks = definition.list_core(code)
    names = [f"environment {name}" for name in frameworks]
    nothing = list(project.check_environments(code, "cpu"))
    assert [each.name for each in nothing] == names
    assert {(each.state, each.text.partition(":")[0]) for each in nothing} == {(State.WARNING, "not made")}
    for index, name in enumerate(frameworks):  # the others are made by the runs that name them
        environment = definition.read(code, name, "cpu")
        put(tmp_path, f"{name}-cpu/.complete", environment.digest if index else "of an earlier definition")
        python = "#!/bin/sh\n" + ("exit 3\n" if index == 1 else "echo torch\n" if index == 2 else "")
        put(tmp_path, f"{name}-cpu/bin/python", python)
        (tmp_path / f"{name}-cpu" / "bin" / "python").chmod(0o755)
    put(tmp_path, "jax-cpu/.complete", "of an earlier definition")
    put(tmp_path, "jax-cpu/bin/python", "")
    found = {each.name: each for each in project.check_environments(code, "cpu")}
    jax, (outdated, broken, lacking, whole) = found.pop("environment jax"), found.values()
    bad(outdated, State.WARNING, "outdated")
    bad(broken, State.PROBLEM, "exit code 3")
    bad(lacking, State.PROBLEM, "it has no torch")
    fine(whole, "whole")
    bad(jax, State.WARNING, "outdated")  # which no command without its name makes
    assert jax.advice.startswith("python -m runner.environments cpu jax makes it again")
    assert lacking.advice.endswith(f"python -m runner.environments cpu {frameworks[2]}")


def test_a_damaged_data_set_is_a_problem_and_one_that_is_not_there_is_none(tmp_path: Path) -> None:
    fine(project.check_data(tmp_path), "cifar10 missing", "mnist missing")
    first, *rest = DATASETS["mnist"].files
    put(tmp_path, first.path, "")
    assert f"mnist incomplete, 1 of {1 + len(rest)} files" in project.check_data(tmp_path).text
    for file in rest:
        put(tmp_path, file.path, "")
    bad(project.check_data(tmp_path), State.PROBLEM, f"mnist damaged ({first.path})")


def test_the_disk_is_tried_and_nothing_is_left_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "MiB are written and synced in" in project.check_disk(tmp_path).text
    assert "was not measured" in project.check_disk(tmp_path / "not" / "there").text
    assert list(tmp_path.iterdir()) == []
    for free, state in ((2**20, State.PROBLEM), (2**29, State.WARNING)):
        status = os.statvfs_result((4096, 4096, 10**9, free // 4096, free // 4096, 10**9, 10**8, 10**8, 0, 255))
        monkeypatch.setattr("runner.doctor.project.os.statvfs", lambda _, status=status: status)
        bad(project.check_disk(tmp_path), state, "free for")


def test_a_folder_that_may_not_be_written_is_a_problem_where_every_run_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine(project.check_permissions(tmp_path / "results", tmp_path, tmp_path))
    others = tmp_path / "others"
    others.mkdir()
    monkeypatch.setattr("runner.doctor.project.os.access", lambda path, _: path != others)
    refused = f"not writable: {others}"
    bad(project.check_permissions(others, tmp_path, tmp_path), State.PROBLEM, refused)
    bad(project.check_permissions(tmp_path, others, tmp_path), State.WARNING, refused)


def test_environments_of_another_user_are_a_problem_only_where_one_has_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = replace(PROJECT, environments=tmp_path / "environments")
    for name in definition.list_core(code):
        environment = definition.read(code, name, "cpu")
        put(environment.folder, ".complete", environment.digest)
        put(environment.folder, "bin/python", "#!/bin/sh\n")
        environment.interpreter.chmod(0o755)
    monkeypatch.setattr("runner.doctor.project.os.access", lambda path, _: path != code.environments)
    fine(project.check_permissions(tmp_path, tmp_path, code.environments), "environments only readable")
    assert {each.state for each in project.check_environments(code, "cpu")} == {State.OK}
    environment.marker.write_text("of an earlier definition")
    *_, last = project.check_environments(code, "cpu")
    bad(last, State.PROBLEM, "outdated", "not writable")
    assert last.advice == f"chown {code.environments} to yourself"


def test_what_is_shown_keeps_to_a_hundred_columns_and_says_what_to_do() -> None:
    text, path = StringIO(), "/a/[b]/" + "x" * 300
    found = [Finding("disk", State.PROBLEM, path, "free some space"), Finding("clock", State.OK, "tsc")]
    command.show(found, Console(file=text, highlight=False, markup=False, soft_wrap=True))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 100 and "/a/[b]/" in text.getvalue() and "-> free some space" in text.getvalue()
    assert lines[-1] == "1 ok, 1 problem"


def test_a_list_of_gpus_that_cannot_be_followed_is_a_problem_and_one_that_can_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cards = [Gpu(uuid, "H100", "550.54", "12.4", 2**30) for uuid in ("GPU-1", "GPU-2")]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert machine.check_listed_gpus(cards) == (None, cards)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    finding, seen = machine.check_listed_gpus(cards)
    assert finding is not None and seen == [cards[1]]
    fine(finding, "CUDA_VISIBLE_DEVICES='1': GPU-2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    finding, seen = machine.check_listed_gpus(cards)
    assert finding is not None and not seen
    bad(finding, State.PROBLEM, "MIG slice")
