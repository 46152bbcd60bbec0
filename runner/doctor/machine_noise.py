"""Check what on this machine may disturb the figures of the run that is about to begin."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from runner.doctor import noise
from runner.doctor.command import ROOT, told
from runner.doctor.finding import State
from runner.launch import cores
from runner.machine import clocks
from runner.request.cli import Request


def before(request: Request, console: Console) -> dict[str, Any]:
    """Return conditions of the trials, null where unknown; print them in one line, and each warning in another.

    A loop of noise.LOOP_S, no longer than a steady window, runs on the first core. The load average is not used. It
    covers the minute before, which making environments may have filled.
    """
    used = cores(request.placement)
    calibration = noise.calibrate(used, min(noise.LOOP_S, request.study.window_s))
    governor = told("governor", lambda: noise.governor(ROOT, used))
    turbo = clocks.turbo(ROOT)
    ran = [check(calibration) for check in (noise.throttling, noise.neighbours, noise.steadiness)]
    found = [governor, noise.turbo(turbo), *ran]
    if quiet := [each.text for each in found if each.state is State.OK]:
        console.print(f"machine: {'; '.join(quiet)}")
    for each in found:
        if each.state is State.WARNING:
            console.print(f"machine: {each.name}: {each.text}: {each.advice}", style="yellow")
    return conditions(calibration, turbo)


def of_cores(used: list[int], window_s: float) -> dict[str, Any]:
    """Return the same conditions of these cores, without printing."""
    return conditions(noise.calibrate(used, min(noise.LOOP_S, window_s)), clocks.turbo(ROOT))


def conditions(calibration: noise.Calibration, turbo: bool | None) -> dict[str, Any]:
    """Return the conditions as they are stored with a trial's figures."""
    return {
        "noise_spread_percent": calibration.spread_percent,
        "noise_foreign_percent": calibration.foreign_percent,
        "turbo": turbo,
    }
