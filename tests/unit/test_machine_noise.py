"""Sentences about the machine before a run begins."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import make_spec
from rich.console import Console

from runner.doctor import command, noise
from runner.doctor.machine import Finding, State
from runner.doctor.noise import LoopTimes
from runner.machine import description

QUIET = LoopTimes([0.001] * 50, 2.0, 0.0)
NOISY = LoopTimes([0.001, 0.002] * 25, 2.0, 40.0)


def said(calibration: LoopTimes, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], str, float]:
    """(conditions, what was printed, how long the loop was asked to run)."""
    asked: list[float] = []

    def calibrate(cores: list[int], seconds: float) -> LoopTimes:
        asked.append(seconds)
        return calibration

    monkeypatch.setattr(noise, "calibrate", calibrate)
    for name in ("governor", "turbo"):
        monkeypatch.setattr(noise, f"check_{name}", lambda *_, name=name: Finding(name, State.UNKNOWN, "not told"))
    monkeypatch.setattr(description, "read_turbo", lambda _: True)
    printed = StringIO()
    request: Any = SimpleNamespace(placement=make_spec(threads=1).placement, study=SimpleNamespace(window_s=0.5))
    conditions = command.check_quiet(request, Console(file=printed, width=500))
    return conditions, printed.getvalue(), asked[0]


def test_a_quiet_machine_is_a_line_and_too_few_rounds_give_null(monkeypatch: pytest.MonkeyPatch) -> None:
    conditions, printed, seconds = said(QUIET, monkeypatch)
    assert conditions == {"noise_spread_percent": 0.0, "noise_foreign_percent": 0.0, "turbo": True}
    assert printed.count("\n") == 1 and "spread by 0.0 %" in printed and seconds == 0.5
    conditions, _, _ = said(LoopTimes([0.5] * 3, 2.0, 0.0), monkeypatch)
    assert conditions["noise_spread_percent"] is None


def test_what_will_spoil_the_figures_is_a_line_each_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    conditions, printed, _ = said(NOISY, monkeypatch)
    assert conditions["noise_spread_percent"] > 10 and conditions["noise_foreign_percent"] == 40.0
    lines = printed.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["neighbours", "steadiness"]
    assert all(len(line.split(": ")) > 3 for line in lines), "advice is missing"
