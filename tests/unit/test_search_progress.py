"""The live line of a `batch-size` command, and the expected time of its searches before they start."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from runner.batch_size.question import Expected, SearchDisplay

TWO = [Expected("numpy", "largest", 10, 20, 100.0, ""), Expected("numpy", "fastest", 30, 60, 300.0, "")]


def test_the_time_left_follows_how_long_the_searches_before_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    shown = io.StringIO()
    with SearchDisplay(Console(file=shown, force_terminal=True, width=150), TWO) as display:
        (task,) = display.tasks
        assert (task.total, task.fields["left"]) == (40, "about 6 min 40 s left")
        display.begin("numpy", "largest")
        for _ in range(4):
            display.tried()
        assert (task.completed, task.total, task.description) == (4, 40, "numpy: largest")
        now_s = 50.0  # it ends after 4 trials of 10 and half of its time
        display.begin("numpy", "fastest")
        assert (task.completed, task.total, task.fields["left"]) == (4, 34, "about 2 min 30 s left")
        for _ in range(33):
            display.tried()
        assert (task.completed, task.total) == (37, 38), "more than expected: at least one more may come"
        display.end()
        assert (task.completed, task.total, task.fields["left"]) == (37, 37, "about 0 s left")
    assert "numpy: fastest" in shown.getvalue()


def test_off_a_terminal_there_is_no_live_line() -> None:
    shown = io.StringIO()
    with SearchDisplay(Console(file=shown), TWO) as display:
        display.begin("numpy", "largest")
        display.tried()
    assert shown.getvalue() == ""
