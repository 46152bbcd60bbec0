"""CPU usage over busy intervals, and the times before training itself, from made-up events and samples."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import make_spec

from adapters.worker import steps
from runner.blocks import judge_blocks
from runner.doctor import noise
from runner.doctor.machine import State
from runner.results.usage import compute_foreign_in_epochs, compute_usage
from runner.results.window import compute_start_up
from workloads import processor_time
from workloads.processor_time import find_busy_s, list_hyperthreads, read_busy_s
from workloads.records.blocks import BLOCKS_FILE, Phase
from workloads.records.columns import COLUMNS
from workloads.records.events import Event
from workloads.records.files import write_json
from workloads.records.result import TrialResult
from workloads.records.samples import Samples
from workloads.records.status import Status

SECOND = 10**9
FOUND: dict[str, Any] = {
    Event.WINDOW_STARTED: {"t_ns": 2 * SECOND},
    Event.WINDOW_ENDED: {"t_ns": 7 * SECOND, "steps": 1, "images": 1, "segments": [[2 * SECOND, 7 * SECOND]]},
}


def polled(cpu_s: Callable[[Any], Any], until_s: float = 8.0) -> Samples:
    """Samples at 10 Hz from 0 s, with the running sum at each time."""
    t_s = np.arange(0, until_s + 0.05, 0.1)
    samples = {name: np.full(len(t_s), np.nan) for name in COLUMNS}
    return samples | {"t_ns": t_s * SECOND, "cpu_s": cpu_s(t_s), "cores_cpu_s": 2 * cpu_s(t_s)}


def test_intervals_without_work_stay_out_of_the_busy_mean() -> None:
    """Two cores: one core busy from 4 s on, nothing before."""
    figures = compute_usage(FOUND, polled(lambda t: np.clip(t - 4, 0, None)), make_spec(threads=2))
    assert figures["cpu_percent"].value == pytest.approx(100 * 3 / 5 / 2)
    assert figures["cpu_busy_percent"].value == pytest.approx(50)
    assert (figures["cpu_busy_percent"].samples or 0) < (figures["cpu_percent"].samples or 0)
    assert figures["foreign_cpu_percent"].value == pytest.approx(30)


def test_a_steady_load_has_one_mean_and_usage_at_the_ends_does_not_pass_for_the_windows() -> None:
    figures = compute_usage(FOUND, polled(lambda t: 1.5 * t), make_spec(threads=2))
    assert figures["cpu_busy_percent"].value == pytest.approx(figures["cpu_percent"].value) == pytest.approx(75)
    figures = compute_usage(FOUND, polled(lambda t: t, until_s=5), make_spec())
    assert figures["cpu_percent"].value is None and "the sampler ended" in (figures["cpu_percent"].reason or "")
    samples = polled(lambda t: t)
    samples["cpu_s"] = np.where(samples["t_ns"] < 4 * SECOND, np.nan, samples["cpu_s"])
    assert compute_usage(FOUND, samples, make_spec())["cpu_percent"].value is None


def test_usage_is_known_where_the_kernel_does_not_say_what_others_took() -> None:
    """Lxcfs is such a case: its /proc/stat has other numbers of cores than the kernel."""
    samples = polled(lambda t: 1.5 * t) | {"cores_cpu_s": np.full(81, np.nan)}
    figures = compute_usage(FOUND, samples, make_spec(threads=2))
    assert figures["cpu_percent"].value == pytest.approx(75)
    foreign = figures["foreign_cpu_percent"]
    assert foreign.value is None and "/proc/stat" in (foreign.reason or "")


@pytest.mark.parametrize(("times", "percent"), [(0.0, None), (0.8, None), (0.95, 0.0), (1.2, 15.0)])
def test_cores_that_are_less_busy_than_the_trial_are_not_its_cores(times: float, percent: float | None) -> None:
    """Lxcfs numbers cores anew: each allotted number has a line in /proc/stat, but the line is of another core."""
    samples = polled(lambda t: 1.5 * t)
    samples["cores_cpu_s"] = times * samples["cpu_s"]
    epochs = [{"event": Event.BUILT, "t_ns": 2 * SECOND}, {"event": Event.EPOCH_EVALUATED, "t_ns": 7 * SECOND}]
    figures = compute_usage(FOUND, samples, make_spec(threads=2))
    figures |= compute_foreign_in_epochs(epochs, samples, make_spec(threads=2))
    for foreign in (figures["foreign_cpu_percent"], figures["foreign_cpu_epochs_percent"]):
        assert foreign.value == (None if percent is None else pytest.approx(percent))
        assert ("not its cores" in (foreign.reason or "")) == (percent is None)


def test_a_core_is_found_by_its_number_and_not_by_its_place(tmp_path: Path) -> None:
    """Cores 1 and 3 are offline, as with hyper-threading switched off: /proc/stat leaves their lines out."""
    stat, tick_s = tmp_path / "stat", 1 / os.sysconf("SC_CLK_TCK")
    lines = {"cpu": 0, "cpu0": 10, "cpu2": 200, "cpu4": 3000}
    stat.write_text("".join(f"{name} {busy} 1 2 999 999 3 4 5 6 7\n" for name, busy in lines.items()) + "btime 1\n")
    assert read_busy_s([0], stat=stat) == pytest.approx((10 + 15) * tick_s)
    assert read_busy_s([2, 4], stat=stat) == pytest.approx((3200 + 30) * tick_s)
    assert read_busy_s([2], (3, 4), stat) == pytest.approx((3200 + 30) * tick_s), "other hyperthreads may have no line"
    with pytest.raises(ValueError, match="has no line of core 3"):
        read_busy_s([0, 3], stat=stat)


def test_who_computes_on_the_other_hyperthread_of_a_core_is_a_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cores 0 and 1 belong to the trial; 4 and 5 are their other hyperthreads, 2 and 3 are somebody else's."""
    for core, siblings in enumerate(["0,4", "1,5", "2-3", "2-3"]):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert list_hyperthreads((0, 1), tmp_path) == (4, 5) and list_hyperthreads((2, 3), tmp_path) == ()
    assert list_hyperthreads((2, 7), tmp_path) == (3,), "what the kernel does not say is not known"
    seen: list[tuple[object, object]] = []
    monkeypatch.setattr(processor_time, "list_hyperthreads", lambda cores: (4, 5))
    monkeypatch.setattr(processor_time, "read_busy_s", lambda *cores: seen.append(cores))
    find_busy_s([0, 1])
    assert seen == [([0, 1], (4, 5))]


def refuse_core(*cores: object) -> float:
    raise ValueError("/proc/stat has no line of core 4")


@pytest.mark.parametrize("read", [refuse_core, lambda *cores: 0.0])
def test_a_machine_that_does_not_say_how_busy_its_cores_are_is_no_quiet_one(
    monkeypatch: pytest.MonkeyPatch, read: Callable[..., float]
) -> None:
    monkeypatch.setattr(processor_time, "read_busy_s", read)
    calibration = noise.calibrate(sorted(os.sched_getaffinity(0))[:1], 0.2)
    assert calibration.foreign_percent is None
    assert noise.check_neighbours(calibration).state is State.UNKNOWN


def test_blocks_are_timed_and_judged_where_the_kernel_does_not_say_how_busy_their_cores_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(size: int) -> int:
        time.sleep(0.001)
        return 2

    monkeypatch.setattr(processor_time, "read_busy_s", refuse_core)
    adapter: Any = SimpleNamespace(synchronize=lambda: None)
    block = steps.measured(adapter, Phase.TRAINING, 0, 8, work)
    assert (block.foreign_cpu_percent, block.steps) == (None, 2)
    disturbed, result = replace(block, foreign_cpu_percent=40.0), TrialResult(make_spec(), Status.OK, None, "", 1.0)
    for blocks, status in (([block], Status.OK), ([block, block, disturbed], Status.CONTENDED)):
        write_json(tmp_path / BLOCKS_FILE, {"blocks": [asdict(each) for each in blocks]})
        assert judge_blocks(result, tmp_path / BLOCKS_FILE).status is status


def test_waiting_for_the_sampler_does_not_count_as_loading() -> None:
    times = {
        Event.STARTED: 1.0,
        Event.IMPORTED: 3.0,
        Event.OPENED: 3.5,
        Event.CONTEXT_SAMPLED: 3.8,
        Event.LOADED: 4.0,
        Event.BUILT: 4.25,
        Event.FIRST_STEP: 6.25,
    }
    figures = compute_start_up({event: {"t_ns": int(t_s * SECOND)} for event, t_s in times.items()})
    value = {name: figure.value for name, figure in figures.items() if figure.value is not None}
    assert value == pytest.approx({"import_s": 2, "open_s": 0.5, "load_s": 0.2, "build_s": 0.25, "first_step_s": 2})
    assert figures["warm_up_s"].value is None and "warmed_up" in (figures["warm_up_s"].reason or "")


@pytest.mark.parametrize(("first_s", "last_s"), [(0.0, 6.75), (2.2, 8.0)])
def test_time_of_which_the_sum_is_unknown_does_not_count_as_idle(first_s: float, last_s: float) -> None:
    """One core is busy throughout, last seen 0.25 s before the window's end, or first 0.2 s after its start."""
    samples = polled(lambda t: t)
    unseen = (samples["t_ns"] < first_s * SECOND) | (samples["t_ns"] > last_s * SECOND)
    samples["cpu_s"] = np.where(unseen, np.nan, samples["cpu_s"])
    figures = compute_usage(FOUND, samples, make_spec(threads=2))
    assert figures["cpu_percent"].value == pytest.approx(50)
    assert figures["cpu_busy_percent"].value == pytest.approx(50)
    assert figures["foreign_cpu_percent"].value == pytest.approx(50)
