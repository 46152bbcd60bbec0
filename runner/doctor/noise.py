"""Check what else happens on this machine: load, clocks, other runs, neighbours, and a loop that shows the rest."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.doctor.machine import Finding, State
from runner.machine import description, locks
from workloads.processor_time import compute_foreign_share, find_busy_s

LOOP_S = 2.0
PIECE = 40_000  # additions: some milliseconds
QUIET_LOAD = 0.3  # runnable processes per core
FOREIGN_PERCENT = 5.0  # of the cores, used by others: above it, speeds of two runs differ visibly
FEWEST_PIECES = 20
NOT_TRIED = "not tried: the loop would disturb that run"
SPREAD_PERCENT = 10.0  # of the median: between the 5th and the 95th percentile


@dataclass(frozen=True)
class LoopTimes:
    """Times of a loop that does the same work over and over on one core."""

    pieces_s: list[float]
    wall_s: float
    foreign_percent: float | None  # of the cores, used by all other processes; None: the kernel does not say
    throttled: int | None = None  # how often clocks were lowered for heat meanwhile; None: not reported

    @property
    def spread_percent(self) -> float | None:
        """Distance from the 5th to the 95th percentile of the pieces, in percent of their median; None if too few."""
        if len(self.pieces_s) < FEWEST_PIECES:
            return None
        cuts = statistics.quantiles(self.pieces_s, n=20)
        return 100 * (cuts[-1] - cuts[0]) / statistics.median(self.pieces_s)


def calibrate(cores: Sequence[int], seconds: float = LOOP_S) -> LoopTimes:
    """Run the loop for this many seconds on the first of these cores."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores[:1])
    try:
        throttle_count = description.read_throttle_count(cores)
        before_s, own_s, began_s = find_busy_s(cores), time.process_time(), time.monotonic()
        pieces_s: list[float] = []
        while time.monotonic() - began_s < seconds:
            start_s = time.perf_counter()
            sum(range(PIECE))
            pieces_s.append(time.perf_counter() - start_s)
        wall_s = time.monotonic() - began_s
        after_s, own_s = find_busy_s(cores), time.process_time() - own_s
        throttled = description.compute_rise(throttle_count, description.read_throttle_count(cores))
    finally:
        os.sched_setaffinity(0, allowed)
    percent = compute_foreign_share(before_s, after_s, own_s, wall_s, len(cores))
    return LoopTimes(pieces_s, wall_s, None if percent is None else max(0.0, percent), throttled)


def check_load(average: float, cores: int) -> Finding:
    """Check the number of runnable processes, the mean of the last minute."""
    text = f"{average:.2f} runnable processes over the last minute, {cores} cores"
    if average > QUIET_LOAD * cores:
        return Finding("load", State.WARNING, text, "wait, or stop other work (see top); trials may be contended")
    return Finding("load", State.OK, text)


def check_governor(root: Path, cores: Sequence[int]) -> Finding:
    """Check how the kernel sets the cores' clocks (cpufreq)."""
    names = description.read_governors(cores, root)
    if not names:
        return Finding("governor", State.UNKNOWN, "this system cannot set the clocks, as in a virtual machine")
    if names != ["performance"]:
        advice = "as root: cpupower frequency-set --governor performance, or clocks follow the load"
        return Finding("governor", State.WARNING, ", ".join(names), advice)
    return Finding("governor", State.OK, names[0])


def check_turbo(is_on: bool | None) -> Finding:
    """Report turbo, as read by `clocks.turbo`. No warning: nearly every machine has it, and a run shows its effect on
    speeds.
    """
    if is_on is None:
        return Finding("turbo", State.UNKNOWN, "not reported, as in a virtual machine")
    if is_on:
        return Finding("turbo", State.OK, "turbo is on: clocks fall with heat and with busy neighbours")
    return Finding("turbo", State.OK, "turbo is off")


def check_throttling(calibration: LoopTimes | None) -> Finding:
    """Check if clocks were lowered for heat while the loop ran."""
    if calibration is None:
        return Finding("throttling", State.UNKNOWN, NOT_TRIED)
    if calibration.throttled is None:
        return Finding("throttling", State.UNKNOWN, "not reported, as in a virtual machine")
    if calibration.throttled:
        text = f"clocks were lowered for heat {calibration.throttled} times over {calibration.wall_s:.1f} s"
        return Finding(
            "throttling", State.WARNING, text, "let the machine cool down, or pause before each trial: --cool-down 30"
        )
    return Finding("throttling", State.OK, "no clock was lowered for heat")


def check_other_runs(cores: Sequence[int], gpus: Sequence[str]) -> Finding:
    """Check for other runs of this suite on these cores or GPUs; GPUs are given by UUID."""
    if busy := locks.describe_held(cores, gpus):
        return Finding("other runs", State.WARNING, "; ".join(busy), "wait for them, then run doctor again")
    return Finding("other runs", State.OK, "none visible from here")


def check_neighbours(calibration: LoopTimes | None) -> Finding:
    """Check what others used of the cores while the loop ran. None: it did not run, because another run has these
    cores.
    """
    if calibration is None:
        return Finding("neighbours", State.UNKNOWN, NOT_TRIED)
    if calibration.foreign_percent is None:
        return Finding("neighbours", State.UNKNOWN, "this system does not say how busy these cores are (/proc/stat)")
    text = f"other processes took {calibration.foreign_percent:.1f} % of the cores over {calibration.wall_s:.1f} s"
    if calibration.foreign_percent > FOREIGN_PERCENT:
        advice = "stop them (top), or choose free cores (taskset --cpu-list); a virtual machine's host may do it"
        return Finding("neighbours", State.WARNING, text, advice)
    return Finding("neighbours", State.OK, text)


def check_steadiness(calibration: LoopTimes | None) -> Finding:
    """Check how much the times of the same work differ."""
    if calibration is None:
        return Finding("steadiness", State.UNKNOWN, NOT_TRIED)
    spread = calibration.spread_percent
    if spread is None:
        return Finding("steadiness", State.UNKNOWN, f"the loop ran only {len(calibration.pieces_s)} times")
    median = statistics.median(calibration.pieces_s)
    text = f"one loop takes {1e3 * median:.2f} ms; the times spread by {spread:.1f} % (5th to 95th percentile)"
    if spread > SPREAD_PERCENT:
        advice = "speeds will differ as much from run to run: --repeat 5 or --until-stable, and fewer neighbours"
        return Finding("steadiness", State.WARNING, text, advice)
    return Finding("steadiness", State.OK, text)
