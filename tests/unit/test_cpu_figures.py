"""CPU usage over busy intervals, and the times before training itself, from made-up events and samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import make_spec

from runner.results.window import compute_start_up, compute_usage
from workloads.records.columns import COLUMNS
from workloads.records.events import Event
from workloads.records.samples import Samples

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
