"""The sampler and the device choice, driven by unmodified nvidia-ml-py over a stand-in for the driver's library.

No test here needs a GPU. What a real one shows: README, "On a GPU".
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ROOT

from runner.figures import memory, read_samples, usage
from runner.machine import Gpu, NoSuchDevice, resolve_device
from workloads.trial import Event

UUID = "GPU-00000000-1111-2222-3333-444444444444"
MIB = 2**20


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: the stand-in for the driver's library cannot be built")
    folder = tmp_path_factory.mktemp("nvml")
    source = ROOT / "tests" / "gpu" / "nvml_stand_in.c"
    command = ["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1", str(source)]
    subprocess.run([*command, "-o", str(folder / "libnvidia-ml.so.1")], check=True)
    return folder


@pytest.fixture
def driver(library, tmp_path):
    """Environment variables under which nvidia-ml-py replays: 1.05 s at 20 %, then 80 %; 500 -> 2,500 MiB."""
    trace = tmp_path / "trace.csv"
    trace.write_text("0,20,500,0\n300,20,1500,1000\n1050,80,2500,2000\n")
    return {
        "LD_LIBRARY_PATH": str(library),
        "NVML_TRACE": str(trace),
        "NVML_TRACE_T0": str(time.monotonic_ns()),
    }


def sample_sleeper(driver, samples, seconds):
    """Meter a sleeping child for that long; the samples, and the child's process id in the trace."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as sleeper:
        variables = (
            os.environ | driver | {"NVML_TRACE_PID": str(sleeper.pid), "NVML_TRACE_T0": str(time.monotonic_ns())}
        )
        command = [sys.executable, "-m", "runner.meter", str(samples), UUID]
        with subprocess.Popen(
            command, cwd=ROOT, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as meter:
            assert meter.stdout.readline() == "ready\n"
            meter.stdin.write(f"{sleeper.pid}\n")
            meter.stdin.flush()
            time.sleep(seconds)
            meter.stdin.close()
            assert meter.wait(5) == 0
        sleeper.kill()
    return read_samples(samples), int(variables["NVML_TRACE_T0"])


def last_known(column):
    return column[~np.isnan(column)][-1]


def test_sampler_misses_or_shifts_what_the_driver_says(driver, tmp_path):
    samples, zero_ns = sample_sleeper(driver, tmp_path / "samples.csv", 2.5)
    at_ms = (samples["t_ns"] - zero_ns) / 1e6
    early, late = at_ms < 1040, at_ms > 1080
    assert early.sum() >= 1 and late.sum() >= 5
    assert set(samples["gpu_percent"][early]) == {20}
    assert set(samples["gpu_percent"][late]) == {80}
    assert set(samples["device_memory_bytes"][late]) == {2500 * MIB}
    assert np.nanmax(samples["process_memory_bytes"]) == 2000 * MIB
    assert last_known(samples["foreign_processes"]) == 0
    assert np.median(np.diff(samples["t_ns"])) == pytest.approx(1e8, rel=0.1)


def test_figures_differ_from_the_mean_computed_from_the_trace(driver, tmp_path, gpu_spec):
    samples, zero_ns = sample_sleeper(driver, tmp_path / "samples.csv", 2.5)
    start, end = zero_ns + int(0.2e9), zero_ns + int(2.4e9)  # a rate at 1.2 s and later describes this window alone
    found = {
        Event.WINDOW_STARTED: {"t_ns": start},
        Event.WINDOW_ENDED: {"t_ns": end, "steps": 1, "images": 1},
        Event.FINISHED: {"memory": {}},
    }
    figure = usage(found, samples, gpu_spec)["gpu_percent"]
    assert figure.value == 80 and 5 <= figure.samples <= 12
    figures = memory(found, samples, gpu_spec)
    assert figures["process_gpu_memory_bytes"].value == 2000 * MIB
    assert figures["device_memory_bytes"].value == 2500 * MIB
    assert figures["device_memory_baseline_bytes"].value in (500 * MIB, 1500 * MIB)


def test_foreign_process_on_the_device_goes_unseen(driver, tmp_path):
    samples, _ = sample_sleeper(driver | {"NVML_TRACE_FOREIGN": "1"}, tmp_path / "samples.csv", 1.6)
    assert last_known(samples["foreign_processes"]) == 1


@pytest.mark.parametrize(
    ("call", "column"),
    [
        ("nvmlDeviceGetUtilizationRates", "gpu_percent"),
        ("nvmlDeviceGetMemoryInfo_v2", "device_memory_bytes"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "process_memory_bytes"),
    ],
)
def test_a_metric_the_driver_refuses_stops_the_sampler_or_becomes_zero(call, column, driver, tmp_path, gpu_spec):
    samples, _ = sample_sleeper(driver | {"NVML_FAIL": call}, tmp_path / "samples.csv", 0.8)
    assert len(samples["t_ns"]) >= 3
    assert np.isnan(samples[column]).all()
    if column == "gpu_percent":
        found = {
            Event.WINDOW_STARTED: {"t_ns": samples["t_ns"][1] - 1e9},
            Event.WINDOW_ENDED: {"t_ns": samples["t_ns"][-1], "steps": 1, "images": 1},
        }
        figure = usage(found, samples, gpu_spec)["gpu_percent"]
        assert figure.value is None and "NVML" in figure.reason


def test_runner_does_not_see_the_gpu_the_driver_lists(driver):
    code = "from runner.machine import gpus; print(gpus())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | driver, capture_output=True, text=True, check=True
    )
    assert UUID in done.stdout and "Stand-in 8 GiB" in done.stdout and "driver='999.00'" in done.stdout


def test_one_odd_card_takes_the_cpu_away_too(driver):
    done = subprocess.run(
        [sys.executable, "-m", "runner", "--plan", "--device", "cpu", "--batch-size", "4"],
        cwd=ROOT,
        env=os.environ | driver | {"NVML_FAIL": "nvmlDeviceGetMemoryInfo,nvmlDeviceGetName"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_runner_takes_a_driver_that_does_not_start_for_a_gpu(driver):
    code = "from runner.machine import gpus; print(gpus())"
    variables = os.environ | driver | {"NVML_FAIL": "nvmlInit"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


GPUS = [Gpu("GPU-a", "first", "1", 8), Gpu("GPU-b", "second", "1", 8)]


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
def test_device_resolves_to_another_one(asked, found, device):
    assert resolve_device(asked, found) == device


@pytest.mark.parametrize(
    ("asked", "found"), [("cuda:0", []), ("cuda:2", GPUS), ("GPU-c", GPUS), ("gpu", GPUS), ("cuda:x", GPUS)]
)
def test_device_that_is_not_there_is_accepted(asked, found):
    with pytest.raises(NoSuchDevice, match=asked):
        resolve_device(asked, found)
