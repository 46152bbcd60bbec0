"""Refusals of the driver, from the start or in mid-run: the sampler lives, and the figure is null with its reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pynvml
import pytest
from conftest import ROOT
from stand_in import MIB, UUID, Replay, Trace, build, load, write_trace

from runner.results.gpu import GPM_COLUMNS, NAMES
from workloads.records.figures import Method
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.samples import Samples, read_samples
from workloads.records.status import Status

CODES = [*range(2, 31), 999, 4242]
STEPS: Trace = [(0, {"gpu": 50, "memory": 20, "used": 2000, "process": 1500, "power": 200, "throttle": 0})]
WINDOW = 0.55, 3.45

# call -> (columns that stay empty, figures that are null, figures from elsewhere: {name: words of the source})
CALLS: dict[str, tuple[Any, list[str] | tuple[str, ...], dict[str, str]]] = {
    "nvmlDeviceGetUtilizationRates": (["gpu_percent"], ["power_busy_w"], {"gpu_percent": "nvmlDeviceGetSamples"}),
    "nvmlDeviceGetSamples": ([], [], {"gpu_percent": "polled at 10 Hz"}),
    "nvmlDeviceGetMemoryInfo": ([], [], {}),
    "nvmlDeviceGetMemoryInfo_v2": ([], [], {}),
    "nvmlDeviceGetTotalEnergyConsumption": (
        ["energy_mj"],
        ["energy_resolution_percent"],
        {"energy_j": "integrated", "power_w": "NVML_FI_DEV_POWER_INSTANT"},
    ),
    # Each mean is then one of whole seconds: the window has too few of them.
    "nvmlDeviceGetFieldValues": ([], ["energy_integrated_error_j"], {"energy_integrated_j": "nvmlDeviceGetPowerUsage"}),
    "FIELD_186": ([], ["energy_integrated_error_j"], {"energy_integrated_j": "nvmlDeviceGetPowerUsage"}),
    "nvmlDeviceGetPowerUsage": ([], [], {"energy_integrated_j": "NVML_FI_DEV_POWER_INSTANT"}),
    "nvmlDeviceGetClockInfo": (["sm_clock_mhz", "memory_clock_mhz"], ["sm_clock_mhz", "memory_clock_mhz"], {}),
    "nvmlDeviceGetTemperatureV": ([], [], {"temperature_c": "nvmlDeviceGetTemperature,"}),
    "nvmlDeviceGetTemperature": ([], [], {"temperature_c": "nvmlDeviceGetTemperatureV,"}),
    "nvmlDeviceGetCurrentClocksEventReasons": ([], [], {"throttled_percent": "ClocksThrottleReasons"}),
    "nvmlDeviceGetCurrentClocksThrottleReasons": ([], [], {"throttled_percent": "ClocksEventReasons"}),
    "nvmlDeviceGetEnforcedPowerLimit": (["power_limit_mw"], ["power_limit_w"], {}),
    "nvmlDeviceGetComputeRunningProcesses_v3": ([], [], {"process_gpu_memory_bytes": "process"}),
    "nvmlDeviceGetComputeRunningProcesses_v2": ([], [], {"process_gpu_memory_bytes": "process"}),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": ([], [], {}),
    "nvmlDeviceGetMigMode": ([], [], {}),
    "nvmlGpmQueryDeviceSupport": (list(GPM_COLUMNS), list(GPM_COLUMNS), {}),
    "nvmlGpmSampleAlloc": (list(GPM_COLUMNS), list(GPM_COLUMNS), {}),
    "nvmlGpmSampleGet": (list(GPM_COLUMNS), list(GPM_COLUMNS), {}),
    "nvmlGpmMetricsGet": (list(GPM_COLUMNS), list(GPM_COLUMNS), {}),
    "GPM_5": (["tensor_active_percent"], ["tensor_active_percent"], {}),
    "nvmlInitWithFlags": (None, NAMES, {}),
    "nvmlDeviceGetHandleByUUID": (None, NAMES, {}),
    "*": (None, NAMES, {}),
}
ONCE = ("nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc")  # asked at the start only
MID_RUN = [call for call, (empty, _, _) in CALLS.items() if empty and call not in ONCE] + ["*"]
# Both ways of asking are refused.
PAIRS = {
    ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"): (["device_memory_bytes"], ["device_memory_bytes"]),
    ("nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage"): (
        ["power_mw"], ["power_busy_w", "energy_integrated_j", "energy_integrated_error_j"],
    ),
    ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"): (["temperature_c"], ["temperature_c"]),
    ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"): (
        ["throttle_reasons"], ["throttled_percent"],
    ),
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"): (
        ["process_memory_bytes", "foreign_processes"], [],
    ),
    ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetSamples"): (
        ["gpu_percent"], ["gpu_percent", "gpu_busy_percent", "power_busy_w"],
    ),
    ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage"): (
        ["energy_mj", "power_mw"],
        ["energy_j", "energy_integrated_j", "energy_integrated_error_j", "energy_resolution_percent",
         "energy_per_image_j", "power_w", "power_error_w", "power_busy_w"],
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def loaded(library: Path) -> None:
    load(library)


def refused(
    monkeypatch: pytest.MonkeyPatch, folder: Path, spec: TrialSpec, fail: str, **more: Any
) -> tuple[Samples, dict[str, Any], TrialResult]:
    """(samples, meter.json, result) of a trial under this NVML_FAIL."""
    replay = Replay(monkeypatch, folder, STEPS, NVML_FAIL=fail, **more)
    meter = replay.run(3.8)
    return read_samples(folder / "samples.csv"), meter, replay.result(spec, *WINDOW, images=320)


def test_nothing_is_null_where_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    _, _, result = refused(monkeypatch, tmp_path, gpu_spec, "")
    assert [name for name in NAMES if result.figures[name].value is None] == []


@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_neither_ends_the_sampler_nor_becomes_zero(
    call: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    empty, null, elsewhere = CALLS[call]
    for code in CODES:
        if (call, code) == ("nvmlDeviceGetSamples", 6):
            continue  # it means that none is newer
        samples, meter, result = refused(monkeypatch, tmp_path, gpu_spec, f"{call}={code}")
        assert len(samples["t_ns"]) == 40 and result.status == Status.OK
        for column in empty or ():
            assert np.isnan(samples[column]).all(), (code, column)
        figures = {name: figure for name, figure in result.figures.items() if name in NAMES}
        assert {name for name, figure in figures.items() if figure.value is None} == set(null), code
        for name in null:
            reason = "blocks of 1 s" if name == "energy_integrated_error_j" and empty == [] else f"error {code}"
            assert reason in (figures[name].reason or ""), (code, name, figures[name].reason)
        for name, words in elsewhere.items():
            assert words in result.figures[name].source, (code, name)
        if empty is None:
            assert f"(NVML error {code})" in meter["gpu"]["reason"]


def test_a_value_too_large_to_be_measured_is_unknown_and_leaves_the_trial_its_other_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """NVML's mark of a value that is not available, 2^64 - 1: it made samples.csv a file that no sampler wrote."""
    call = "nvmlDeviceGetTotalEnergyConsumption"
    monkeypatch.setattr(pynvml, call, lambda handle: 2**64 - 1)
    samples, meter, result = refused(monkeypatch, tmp_path, gpu_spec, "")
    assert np.isnan(samples["energy_mj"]).all() and result.status is Status.OK, result.reason
    energy = result.figures["energy_j"]
    assert energy.method is Method.INTEGRATED and "1.84467e+19 is too large to be measured" in energy.source
    assert meter["gpu"]["metrics"]["energy_mj"]["failures"] == len(samples["t_ns"])


@pytest.mark.parametrize("calls", PAIRS)
def test_a_figure_that_nothing_tells_is_null_with_a_reason(
    calls: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    empty, null = PAIRS[calls]
    fail = ",".join(f"{call}=3" for call in calls)
    samples, _, result = refused(monkeypatch, tmp_path, gpu_spec, fail)
    for column in empty:
        assert np.isnan(samples[column]).all(), column
    told = {name for name in (*NAMES, "device_memory_bytes") if result.figures[name].value is None}
    assert told == set(null)
    for name in null:
        assert result.figures[name].reason
    if "foreign_processes" in empty:
        (check,) = [check for check in result.checks if check.name == "alone on the device"]
        refusal = "nvmlDeviceGetComputeRunningProcesses_v3: Not Supported"
        assert not check.passed and f"unknown before, during, after: {refusal}" in check.detail
        memory = result.figures["process_gpu_memory_bytes"]
        assert memory.value == 0 and "nvmlDeviceGetMemoryInfo_v2" in memory.source and refusal in memory.source


@pytest.mark.parametrize("call", MID_RUN)
def test_a_call_that_fails_in_mid_run_does_not_end_the_sampler(
    call: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """It goes on being tried, and the account has the count and the first error."""
    for code in (2, 3, 10, 15, 16, 999):
        lost = tmp_path / "lost"
        lost.unlink(missing_ok=True)
        replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FAIL=f"{call}={code}", NVML_FAIL_FROM=str(lost))
        meter = replay.run(3.8, at={1500: [lost.touch]})
        samples, result = read_samples(tmp_path / "samples.csv"), replay.result(gpu_spec, *WINDOW, images=320)
        assert len(samples["t_ns"]) == 40 and result.status == Status.OK
        if call == "GPM_5":
            assert np.isnan(samples["tensor_active_percent"][16:]).all()
            continue
        column = CALLS[call][0][0] if call != "*" else "power_mw"
        assert not np.isnan(samples[column][:15]).all() and np.isnan(samples[column][15:]).all()
        failed = {name: metric for name, metric in meter["gpu"]["metrics"].items() if metric["failures"]}
        assert failed and all(metric["failures"] >= 3 for metric in failed.values())
        assert all(f"(NVML error {code})" in m["first_failure"]["reason"] for m in failed.values() if call != "*")


def test_figures_of_a_card_lost_in_mid_run_are_null_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    lost = tmp_path / "lost"
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FAIL="*=15", NVML_FAIL_FROM=str(lost))
    replay.run(3.8, at={1500: [lost.touch]})
    result = replay.result(gpu_spec, *WINDOW, images=320)
    for name in NAMES:
        figure = result.figures[name]
        assert figure.value is None, name
        assert "GPU is lost (NVML error 15)" in (figure.reason or "") and "calls failed" in (figure.reason or ""), (
            name,
            figure.reason,
        )


def test_a_call_that_fails_once_empties_nothing_that_follows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    lost = tmp_path / "lost"
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FAIL="*=10", NVML_FAIL_FROM=str(lost))
    meter = replay.run(3.8, at={1500: [lost.touch], 1700: [lost.unlink]})
    result = replay.result(gpu_spec, *WINDOW, images=320)
    assert meter["gpu"]["metrics"]["power_mw"]["failures"] == 2
    assert [name for name in NAMES if result.figures[name].value is None] == []
    assert result.figures["power_w"].samples == 29 - 2
    assert result.figures["energy_j"].value == pytest.approx(200 * 2.9)


def test_mig_mode_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec) -> None:
    _, meter, result = refused(monkeypatch, tmp_path, gpu_spec, "", NVML_MIG="0")
    figure = result.figures["gpu_percent"]
    assert figure.value is None and "Not Supported (NVML error 3); MIG mode is on" in (figure.reason or "")
    assert meter["gpu"]["remark"] == "MIG mode is on"
    assert result.figures["sm_active_percent"].value == 50


def test_a_card_without_gpm_has_unknown_activity_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    _, _, result = refused(monkeypatch, tmp_path, gpu_spec, "", NVML_GPM="0")
    for name in GPM_COLUMNS:
        assert result.figures[name].value is None and "Hopper" in (result.figures[name].reason or "")


OLD = """
import json, sys, time
from pathlib import Path
from runner.sampler.gpu_meter import GpuMeter
folder = Path(sys.argv[1])
meter = GpuMeter(sys.argv[2], folder / "driver_samples.csv")
rows = [meter.sample(None), meter.sample({1}), meter.last()]
print(json.dumps([rows, meter.account()]))
"""


def ask_in_a_process(folder: Path, **variables: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", OLD, str(folder), UUID],
        cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_an_old_driver_does_not_end_the_sampler(tmp_path: Path) -> None:
    old = build(tmp_path, "-DOLD_DRIVER")
    trace = write_trace(tmp_path / "trace.csv", STEPS)
    rows, account = ask_in_a_process(tmp_path, LD_LIBRARY_PATH=str(old), NVML_TRACE=str(trace), NVML_T0="0")
    metrics = account["metrics"]
    silent = {name for name, metric in metrics.items() if metric["source"] is None}
    assert silent == {"gpm", "driver_samples"}
    assert all("Function Not Found (NVML error 13)" in metrics[name]["reason"] for name in silent)
    assert (
        rows[0]["device_memory_bytes"] == (2000 + 256) * MIB
        and "reserve included" in (metrics["device_memory_bytes"]["source"])
    )
    assert "_v2" in metrics["processes"]["source"] and "PowerUsage" in metrics["power_mw"]["source"]
    assert "nvmlDeviceGetTemperature" in metrics["temperature_c"]["source"] and rows[2]["temperature_c"] == 40
    assert "ThrottleReasons" in metrics["throttle_reasons"]["source"]


def test_a_machine_without_a_driver_does_not_end_the_sampler(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    rows, account = ask_in_a_process(tmp_path, LD_LIBRARY_PATH=str(tmp_path))
    assert rows == [{}, {}, {}]
    assert account["reason"] == "nvmlInit: NVML Shared Library Not Found (NVML error 12)"
