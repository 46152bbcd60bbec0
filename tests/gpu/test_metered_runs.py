"""Whole trials on the stand-in card, through the real runner: the cost of a sampler that dies or stalls, and the three
real frameworks. These compute on the CPU while the card is metered."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from conftest import REAL_FRAMEWORKS, ROOT, TINY
from copied import copy_project, replace_in, without_memory_workers
from stand_in import FOREVER_MS, MIB, UUID, UUID_B, Trace, write_trace

from runner.results.gpu import NAMES
from tools.gpu_rehearsal import put_on_the_host
from workloads.records.check_name import CheckName
from workloads.records.events import Event
from workloads.records.samples import Samples, read_samples


def put_on_the_card(project: Path, framework: str, pid_file: Path) -> None:
    """Make the framework's environment for the card, in the copy, the one for the CPU, which is there already."""
    folder = project / "adapters" / framework
    text = (folder / "environment.toml").read_text()
    everything, _, cpu = text.partition("[cuda]")[0].partition("[cpu]")
    (folder / "environment.toml").write_text(f"{everything}[cpu]{cpu}[cuda]{cpu}")
    put_on_the_host(folder, pid_file)
    made = ROOT / ".envs" / f"{framework}-cpu"
    if made.exists():
        (project / ".envs").mkdir(exist_ok=True)
        (project / ".envs" / f"{framework}-cuda").symlink_to(made.resolve())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_project(tmp_path_factory.mktemp("project"))
    shutil.rmtree(folder / "reports")  # none is looked at here, and each takes seconds
    without_memory_workers(folder)
    # A driver that never answers is waited for twice: at the end of a trial, and when it is tried once more.
    replace_in(folder / "runner" / "launch.py", "SAMPLER_START_S = 20.0", "SAMPLER_START_S = 8.0")
    replace_in(folder / "runner" / "launch.py", "GPU_GRACE_S = 10.0", "GPU_GRACE_S = 4.0")
    for framework in (*REAL_FRAMEWORKS, "numpy"):
        put_on_the_card(folder, framework, folder / "pid")
    return folder


def start(
    project: Path, library: Path, trace: Path, *arguments: str, **variables: str
) -> tuple[subprocess.Popen[str], int]:
    """Start the runner on the stand-in card without stored trials; what the probes reported is kept.

    The workers do not see the trace, so that to them there is no driver.
    """
    shutil.rmtree(project / "results" / "trials", ignore_errors=True)
    return begin(project, library, trace, *arguments, **variables)


def begin(
    project: Path, library: Path, trace: Path, *arguments: str, **variables: str
) -> tuple[subprocess.Popen[str], int]:
    """Start the runner on the stand-in card; stored trials are kept."""
    told = {
        "LD_LIBRARY_PATH": str(library),
        "NVML_TRACE": str(trace),
        "NVML_T0": str(time.monotonic_ns()),
        "NVML_PID_FILE": str(project / "pid"),
        "PYTHONPATH": str(project),
    }
    environment = {name: value for name, value in os.environ.items() if name != "BATCHWISE_DATA"}
    runner = subprocess.Popen(
        [sys.executable, "-m", "runner", *TINY, "--device", UUID, "--epochs", "1", "--results", "results", *arguments],
        cwd=project, env=environment | told | variables,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return runner, int(told["NVML_T0"])


def failed_checks(result: dict[str, Any]) -> set[str]:
    return {check["name"] for check in result["checks"] if not check["passed"]}


def saw(period_ms: int = 2500) -> Trace:
    """A trace with half of each period at 80 % and 250 W, half idle at 50 W; memory rises from step to step."""
    steps: Trace = []
    for number, t_ms in enumerate(range(0, 600_000, period_ms)):
        used = 500 + 2 * number  # of each trial's first row no more than USED_MIB
        steps.append((t_ms, {"gpu": 80, "power": 250, "used": used, "process": used - 400, "throttle": 0}))
        steps.append((t_ms + period_ms / 2, {"gpu": 0, "power": 50}))
    return steps


def integral(steps: Trace, name: str, start_ms: float, end_ms: float) -> float:
    """Integral of what a trace says between two times, in its unit x ms."""
    state, total = 0.0, 0.0
    for (t_ms, changes), (next_ms, _) in pairwise([*steps, (FOREVER_MS, {})]):
        state = changes.get(name, state)
        total += state * max(0.0, min(next_ms, end_ms) - max(t_ms, start_ms))
    return total


@pytest.mark.real
def test_a_real_frameworks_trial_tells_what_the_trace_says(project: Path, library: Path, tmp_path: Path) -> None:
    steps = saw()
    runner, zero_ns = start(
        project, library, write_trace(tmp_path / "trace.csv", steps),
        "--framework", "all", "--batch-size", "64", "--window", "5",
    )  # fmt: skip
    printed, _ = runner.communicate(timeout=300)
    trials = {path.parent: json.loads(path.read_text()) for path in project.glob("results/trials/*/result.json")}
    assert {result["spec"]["cell"]["framework"] for result in trials.values()} == set(REAL_FRAMEWORKS), printed
    for folder, result in trials.items():
        assert result["status"] == "ok", result["reason"]
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        at_ms = {event["event"]: (event["t_ns"] - zero_ns) / 1e6 for event in events}
        compare(result["figures"], at_ms, steps, CheckName.COVERED in failed_checks(result))
        assert not failed_checks(result) - {CheckName.LONG_ENOUGH, CheckName.COVERED}, result["checks"]


@pytest.mark.real
def test_one_model_on_two_cards_has_the_energy_of_both(project: Path, library: Path, tmp_path: Path) -> None:
    first = write_trace(tmp_path / "trace.csv", [(0, {"gpu": 80, "power": 250, "used": 3000, "process": 2400})])
    second = write_trace(tmp_path / "trace-b.csv", [(0, {"gpu": 40, "power": 150, "used": 2000, "process": 1400})])
    runner, _ = start(
        project, library, first,
        "--framework", "tensorflow", "mxnet", "--batch-size", "8", "--window", "3", "--devices", "2",
        NVML_DEVICES="2", NVML_TRACE_B=str(second),
    )  # fmt: skip
    printed, _ = runner.communicate(timeout=300)
    trials = {path.parent: json.loads(path.read_text()) for path in project.glob("results/trials/*/result.json")}
    assert {result["spec"]["cell"]["framework"] for result in trials.values()} == {"tensorflow", "mxnet"}, printed
    for folder, result in trials.items():
        assert result["status"] == "ok", result["reason"]
        assert result["spec"]["placement"]["others"] == [UUID_B]
        value = {name: figure["value"] for name, figure in result["figures"].items()}
        assert value["power_w"] == pytest.approx(400, rel=0.02) and value["gpu_percent"] == pytest.approx(60, abs=3)
        assert value["energy_j"] == pytest.approx(400 * value["window_s"], rel=0.02)
        assert value["process_gpu_memory_bytes"] == (2400 + 1400) * MIB
        assert len(read_samples(folder / "samples-gpu1.csv")["t_ns"]) > 20


def compare(figures: dict[str, dict[str, Any]], at_ms: dict[str, float], steps: Trace, holes: bool) -> None:
    """Compare the figures with the trace. `holes`: the sampler, on a busy machine, missed more than three of its
    samples in a row."""
    start_ms, end_ms = at_ms[Event.WINDOW_STARTED], at_ms[Event.WINDOW_ENDED]
    value = {name: figure["value"] for name, figure in figures.items()}
    # The driver's samples of the stand-in cover 100 ms each, from one multiple of 100 ms to the next.
    first, last = np.ceil(start_ms / 100) * 100, np.floor(end_ms / 100) * 100
    assert "nvmlDeviceGetSamples" in figures["gpu_percent"]["source"]
    # An edge this near to a multiple of 100 ms has that sample on either side: clocks are matched to about 1 ms.
    doubtful = sum(abs(edge_ms - 100 * round(edge_ms / 100)) < 2 for edge_ms in (start_ms, end_ms))
    assert abs(figures["gpu_percent"]["samples"] - round((last - first) / 100)) <= doubtful
    expected = integral(steps, "gpu", first, last) / (last - first)
    one_sample = 100 / figures["gpu_percent"]["samples"]
    assert value["gpu_percent"] == pytest.approx(expected, abs=0.02 * expected + doubtful * one_sample)
    assert value["energy_j"] == pytest.approx(integral(steps, "power", start_ms, end_ms) / 1e3, rel=0.01)
    if value["energy_integrated_j"] is None:
        assert holes and "no reading for" in figures["energy_integrated_j"]["reason"]
    else:
        assert value["energy_integrated_j"] == pytest.approx(value["energy_j"], rel=0.05)
    assert value["energy_per_image_j"] == pytest.approx(value["energy_j"] / (value["images_per_s"] * value["window_s"]))
    peak = max(changes["used"] for t_ms, changes in steps if "used" in changes and t_ms <= at_ms[Event.FINISHED])
    assert value["device_memory_bytes"] in (peak * MIB, (peak - 2) * MIB)  # a step may come after the last sample
    assert value["process_gpu_memory_bytes"] == pytest.approx((peak - 400) * MIB, abs=4 * MIB)
    assert value["sm_active_percent"] == pytest.approx(40, abs=15)  # four pairs of a second, from a saw of 2.5 s
    assert value["import_s"] > 0 and value["first_step_s"] > 0 and value["cpu_busy_percent"] >= value["cpu_percent"]


ONE = ("--framework", "numpy", "--batch-size", "64", "--window", "3")  # any framework: the sampler is tested
BUSY: Trace = [(0, {"gpu": 60, "used": 3000, "process": 2500, "power": 150, "throttle": 0})]


def interrupted(
    project: Path, library: Path, folder: Path, happens: Callable[[psutil.Process], object], **variables: str
) -> tuple[dict[str, Any], Samples, dict[str, Any]]:
    """(result.json, samples, meter.json) of a trial; `happens(sampler)` one second into its window."""
    runner, _ = start(project, library, write_trace(folder / "trace.csv", BUSY), *ONE, **variables)
    events = project / "results" / "trials"
    while not (begun := [p for p in events.glob("*/events.jsonl") if "window_started" in p.read_text()]):
        assert runner.poll() is None, runner.communicate()[0]
        time.sleep(0.02)
    time.sleep(1)
    happens(sampler_of(runner.pid))
    runner.communicate(timeout=240)  # a contended trial is tried once more
    trial = begun[0].parent
    result = json.loads((trial / "result.json").read_text())
    return result, read_samples(trial / "samples.csv"), json.loads((trial / "meter.json").read_text())


def sampler_of(runner_pid: int) -> psutil.Process:
    children = psutil.Process(runner_pid).children()
    (sampler,) = [child for child in children if "runner.sampler" in child.cmdline()]
    return sampler


def test_a_trial_whose_sampler_was_killed_fails_and_leaves_no_half_a_mean(
    project: Path, library: Path, tmp_path: Path
) -> None:
    """It is ended at once, and asked again by the next run; its raw samples stay."""
    result, samples, meter = interrupted(project, library, tmp_path, lambda sampler: sampler.kill())
    assert result["status"] == "failed" and result["wall_s"] < 10
    assert result["reason"].startswith(
        "the sampler, python -m runner.sampler, ended with exit code -9: it printed nothing"
    )
    assert len(samples["t_ns"]) > 10 and meter["sampler"] is None
    for name in (*NAMES, "cpu_percent", "cpu_busy_percent"):
        figure = result["figures"][name]
        assert figure["value"] is None and figure["reason"], (name, figure)


def test_a_stalled_sampler_is_said(project: Path, library: Path, tmp_path: Path) -> None:
    def stall(sampler: psutil.Process) -> None:
        sampler.send_signal(signal.SIGSTOP)
        time.sleep(1)
        sampler.send_signal(signal.SIGCONT)

    result, samples, _ = interrupted(project, library, tmp_path, stall)
    assert result["status"] == "ok" and CheckName.COVERED in failed_checks(result)
    assert np.diff(samples["t_ns"]).max() > 0.9e9 and np.all(np.diff(samples["t_ns"]) > 0)
    figures = result["figures"]
    assert figures["gpu_percent"]["value"] == 60  # the driver's buffer bridges the gap
    assert figures["energy_j"]["value"] == pytest.approx(150 * figures["window_s"]["value"], rel=0.01)


def test_a_driver_that_never_answers_does_not_hold_the_runner_up(project: Path, library: Path, tmp_path: Path) -> None:
    """Readings of the sampler until then still count: here, other processes on the card."""
    hangs = tmp_path / "hangs"
    result, _, meter = interrupted(
        project, library, tmp_path, lambda _: hangs.touch(),
        NVML_FAIL="*=-1", NVML_FAIL_FROM=str(hangs), NVML_FOREIGN="before,during",
    )  # fmt: skip
    assert meter["sampler"] is None  # it was ended before it could give its account
    assert result["status"] == "contended" and CheckName.COVERED in failed_checks(result)
    assert result["reason"].startswith("1 other process(es) on the device (") and "during" in result["reason"]
    assert result["figures"]["power_w"]["value"] is None and result["figures"]["images_per_s"]["value"] > 0


def test_a_card_lost_in_mid_run_does_not_lose_the_trial(project: Path, library: Path, tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    result, _, meter = interrupted(
        project, library, tmp_path, lambda _: lost.touch(), NVML_FAIL="*=15", NVML_FAIL_FROM=str(lost)
    )
    assert result["status"] == "ok"
    for name in NAMES:
        figure = result["figures"][name]
        assert figure["value"] is None and "GPU is lost (NVML error 15)" in figure["reason"], (name, figure)
    assert result["figures"]["cpu_percent"]["value"] > 5
    assert meter["gpu"]["metrics"]["power_mw"]["failures"] >= 5


def test_a_driver_that_goes_away_behind_the_plan_does_not_fail_the_trial(
    project: Path, library: Path, tmp_path: Path
) -> None:
    """The runner itself saw the card; its samplers do not."""
    seen, sampler = tmp_path / "seen", project / "runner" / "sampler" / "__main__.py"
    before = sampler.read_text()
    sampler.write_text(f"open({str(seen)!r}, 'w').close()\n{before}")
    try:
        result, _, meter = interrupted(
            project, library, tmp_path, lambda _: None, NVML_FAIL="nvmlInitWithFlags=9", NVML_FAIL_FROM=str(seen)
        )
    finally:
        sampler.write_text(before)
    assert meter["gpu"]["reason"] == "nvmlInit: Driver Not Loaded (NVML error 9)"
    assert result["status"] == "ok" and result["figures"]["cpu_percent"]["value"] > 5
    for name in (*NAMES, "device_memory_bytes"):
        assert result["figures"][name]["reason"] == meter["gpu"]["reason"], name


def test_runs_on_two_devices_share_a_results_folder_and_two_on_one_do_not(
    project: Path, library: Path, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "trace.csv", BUSY)
    asked = ("--framework", "numpy", "--batch-size", "64", "--window", "10")
    on_the_card, _ = start(project, library, trace, *asked)
    while not list((project / "results").glob("trials/*/events.jsonl")):
        assert on_the_card.poll() is None, on_the_card.communicate()[0]
        time.sleep(0.02)
    second, _ = begin(project, library, trace, *asked)
    refusal, _ = second.communicate(timeout=60)
    words = ("--framework", "numpy", "--isolation", "here", "--batch-size", "32", "64", "--window", "0.3")
    command = [sys.executable, "-m", "runner", *TINY, *words, "--epochs", "1", "--results", "results"]
    on_the_cpu = subprocess.run(
        [*command, "--device", "cpu"], cwd=project, env=os.environ | {"PYTHONPATH": str(project)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    printed, _ = on_the_card.communicate(timeout=120)
    noted, *refused = refusal.splitlines()  # the project is a copy without git
    assert second.returncode == 2 and len(refused) == 1, "it was over: nothing was shared"
    assert noted.startswith("runner: the commit of this code is unknown: ")
    assert f"GPU {UUID} is in use by another run (process {on_the_card.pid})" in refusal
    stored = [json.loads(path.read_text()) for path in (project / "results").glob("trials/*/result.json")]
    ended = {(result["spec"]["placement"]["device"], result["spec"]["cell"]["batch_size"]) for result in stored}
    assert ended == {("cpu", 32), ("cpu", 64), (UUID, 64)}, printed + on_the_cpu.stdout
    assert {result["status"] for result in stored} <= {"ok", "contended"}, printed + on_the_cpu.stdout
    assert on_the_cpu.stderr == f"{noted}\n" and "Traceback" not in printed
