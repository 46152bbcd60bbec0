"""The sampler and the device choice, driven by unmodified nvidia-ml-py over a stand-in for the driver's library.

No test here needs a GPU. Measurements on a real one: docs/guide/reading-a-result.md, "On a GPU".
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT, ROOT
from stand_in import MIB, UUID, UUID_B, Trace, write_trace

from runner import launch
from runner.machine.description import Gpu
from runner.request.parser import BadInput
from runner.request.placement import find_device
from workloads.records.job import TrialSpec
from workloads.records.samples import Samples, read_samples

SLEEP_S = 3.0


@pytest.fixture(scope="session")
def driver(library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables under which nvidia-ml-py replays: 2.05 s at 20 %, then 80 %; 500 -> 2,500 MiB."""
    folder = tmp_path_factory.mktemp("trace")
    steps: Trace = [
        (0, {"gpu": 20}),
        (300, {"used": 1500, "process": 1000}),
        (2050, {"gpu": 80, "used": 2500, "process": 2000}),
    ]
    return {
        "LD_LIBRARY_PATH": str(library),
        "NVML_TRACE": str(write_trace(folder / "trace.csv", steps)),
        "NVML_PID_FILE": str(folder / "pid"),
    }


@pytest.fixture(scope="session")
def sampled(driver: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Samples, int, dict[str, Any]]:
    """(samples, time zero in ns, meter.json) of a sleeping child, metered for a while."""
    samples = tmp_path_factory.mktemp("trial") / "samples.csv"
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as sleeper:
        zero_ns = time.monotonic_ns()
        errors = samples.with_name("sampler.txt")
        errors.touch()
        with subprocess.Popen(
            [sys.executable, "-m", "runner.sampler"], cwd=ROOT, env=os.environ | driver | {"NVML_T0": str(zero_ns)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as meter:  # fmt: skip
            assert meter.stdin and meter.stdout
            asked = {"samples": str(samples), "errors": str(errors), "gpus": [UUID]}
            print(json.dumps(asked), file=meter.stdin, flush=True)
            assert meter.stdout.readline() == "ready\n"
            Path(driver["NVML_PID_FILE"]).write_text(str(sleeper.pid))
            meter.stdin.write(f"{sleeper.pid}\n")
            meter.stdin.flush()
            time.sleep(SLEEP_S)
            sleeper.kill()
            sleeper.wait()
            meter.stdin.close()
            assert meter.wait(5) == 0
    return read_samples(samples), zero_ns, json.loads((samples.parent / "meter.json").read_text())


def test_sampler_neither_misses_nor_shifts_what_the_driver_says(sampled: tuple[Samples, int, dict[str, Any]]) -> None:
    samples, zero_ns, meter = sampled
    at_ms = (samples["t_ns"] - zero_ns) / 1e6
    early, late = at_ms < 1800, at_ms > 2080
    assert early.sum() >= 1 and late.sum() >= 5
    assert set(samples["gpu_percent"][early]) == {20}
    assert set(samples["gpu_percent"][late]) == {80}
    assert set(samples["device_memory_bytes"][late]) == {2500 * MIB}
    assert np.nanmax(samples["process_memory_bytes"]) == 2000 * MIB
    assert samples["foreign_processes"][-1] == 0
    assert np.diff(samples["t_ns"][2:-1]).mean() == pytest.approx(1e8, rel=0.1)  # one in each tenth of a second
    first, last = meter["clocks"]
    apart_ns = (last["epoch_ns"] - first["epoch_ns"]) - (last["monotonic_ns"] - first["monotonic_ns"])
    assert abs(apart_ns) < 50e6


def ended_under(
    driver: dict[str, str], monkeypatch: pytest.MonkeyPatch, folder: Path, spec: TrialSpec, fail: str
) -> tuple[float, Samples, dict[str, Any]]:
    """(seconds, samples, meter.json) of the sampler's end, when the calls of `fail` are slow or fail after the worker's
    end."""
    slow = folder / "slow"
    told = driver | {"NVML_T0": str(time.monotonic_ns()), "NVML_FAIL": fail, "NVML_FAIL_FROM": str(slow)}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as worker:
        try:
            with launch.open_sampler(PROJECT, folder, spec.placement) as sampling:
                launch.watch(sampling, worker.pid)
                time.sleep(0.5)
                worker.kill()
                slow.touch()
                started_s = time.monotonic()
        finally:
            worker.kill()
        took_s = time.monotonic() - started_s
    return took_s, read_samples(folder / "samples.csv"), json.loads((folder / "meter.json").read_text())


def test_a_slow_driver_does_not_lose_the_samplers_last_words(
    driver: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    took_s, samples, meter = ended_under(
        driver, monkeypatch, tmp_path, gpu_spec, "nvmlDeviceGetGraphicsRunningProcesses_v3=-3000"
    )
    assert took_s > 3
    assert meter["sampler"]["samples"] >= 2 and len(meter["clocks"]) == 2
    assert samples["t_ns"][-1] >= meter["clocks"][1]["monotonic_ns"] and samples["foreign_processes"][-1] == 0


def test_a_driver_that_hangs_at_the_end_leaves_the_account_and_does_not_stop_the_runner(
    driver: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    monkeypatch.setattr(launch, "GPU_GRACE_S", 1.0)
    took_s, samples, meter = ended_under(
        driver, monkeypatch, tmp_path, gpu_spec, "nvmlDeviceGetGraphicsRunningProcesses_v3=-1"
    )
    assert 1 <= took_s < 5
    assert meter["sampler"]["samples"] >= 2 and len(meter["clocks"]) == 2
    assert samples["t_ns"][-1] < meter["clocks"][1]["monotonic_ns"]  # nobody said who was left


def test_sampler_says_how_much_of_a_core_it_takes(sampled: tuple[Samples, int, dict[str, Any]]) -> None:
    cost = sampled[2]["sampler"]
    assert SLEEP_S - 0.5 < cost["wall_s"] < SLEEP_S + 1.5
    assert 20 <= cost["samples"] <= 40
    assert 0 < cost["cpu_s"] < cost["wall_s"]


def test_runner_sees_the_gpu_the_driver_lists(driver: dict[str, str]) -> None:
    code = "from runner.machine.description import list_gpus; print(list_gpus())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | driver, capture_output=True, text=True, check=True
    )
    assert UUID in done.stdout and "Stand-in 8 GiB" in done.stdout and "driver='999.00'" in done.stdout


def test_runner_keeps_the_drivers_order_of_cards(driver: dict[str, str]) -> None:
    code = "from runner.machine.description import list_gpus; print([gpu.uuid for gpu in list_gpus()])"
    for swapped, order in (("0", [UUID, UUID_B]), ("1", [UUID_B, UUID])):
        variables = os.environ | driver | {"NVML_DEVICES": "2", "NVML_SWAPPED": swapped}
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True)
        assert done.stdout.strip() == str(order)


def test_one_odd_card_does_not_take_the_cpu_away_too(driver: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runner", "--plan", "--device", "cpu", "--batch-size", "4"],
        cwd=ROOT,
        env=os.environ | driver | {"NVML_FAIL": "nvmlDeviceGetMemoryInfo=3,nvmlDeviceGetName=3"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("fail", ["nvmlInitWithFlags=9", "nvmlInitWithFlags=999,nvmlShutdown=999", "*=15"])
def test_runner_takes_no_driver_that_does_not_start_for_a_gpu(fail: str, driver: dict[str, str]) -> None:
    code = "from runner.machine.description import list_gpus; print(list_gpus())"
    variables = os.environ | driver | {"NVML_FAIL": fail}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


GPUS = [Gpu("GPU-a", "first", "1", None, 8), Gpu("GPU-b", "second", "1", None, 8)]


@pytest.mark.parametrize(
    ("asked", "found", "device"),
    [
        ("auto", [], "cpu"),
        ("auto", GPUS, "GPU-a"),
        ("cpu", GPUS, "cpu"),
        ("cuda", GPUS, "GPU-a"),
        ("cuda:1", GPUS, "GPU-b"),
        ("GPU-b", GPUS, "GPU-b"),
    ],
)
def test_device_resolves_to_the_one_asked_for(asked: str, found: list[Gpu], device: str) -> None:
    assert find_device(asked, found) == device


@pytest.mark.parametrize(
    ("asked", "found"), [("cuda:0", []), ("cuda:2", GPUS), ("GPU-c", GPUS), ("gpu", GPUS), ("cuda:x", GPUS)]
)
def test_device_that_is_not_there_is_refused(asked: str, found: list[Gpu]) -> None:
    with pytest.raises(BadInput, match=asked):
        find_device(asked, found)
