"""The framework's own product of matrices, measured while other processes want the cores, accuses no correct trial."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from conftest import make_spec

from adapters.numpy.adapter import Adapter
from adapters.worker import memory_steps
from runner.gate.trial_end import check_end
from runner.results.pace import compute_pace
from workloads.catalogue import OSU_CNN
from workloads.datasets import Images
from workloads.records.check_name import CheckName
from workloads.records.figures import CPU_USAGE, PRODUCT, SPEED, WINDOW, Figure
from workloads.records.reported import FAST_ALGORITHMS, LONE_CORE, check_reported
from workloads.records.result import TrialResult
from workloads.records.status import Status

THREADS, WIDTH = 2, 16
CALL_S = 0.1  # of both cores, if nobody else wants them
LEAST_FLOP = OSU_CNN.step_flop / FAST_ALGORITHMS
POSSIBLE = 2 * memory_steps.product_chain(WIDTH).multiply_adds * WIDTH / CALL_S  # operations per second


def account(monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> dict[str, Any]:
    """Return what is measured if the n-th call waits so many seconds until others leave the cores."""
    clocks = {"wall": 0.0, "cpu": 0.0}
    monkeypatch.setattr(memory_steps, "WIDTHS", (WIDTH,))
    fake = SimpleNamespace(monotonic=lambda: clocks["wall"], process_time=lambda: clocks["cpu"])
    monkeypatch.setattr(memory_steps, "time", fake)

    class Waiting(Adapter):
        def predict(self, images: Images) -> Any:
            clocks["wall"] += CALL_S + (waits.pop(0) if waits else 0.0)
            clocks["cpu"] += THREADS * CALL_S

    return {"product": {"t_ns": 1} | memory_steps.measure_products(Waiting(), THREADS)}


def accused(told: dict[str, Any], share: float, percent: float = 100.0) -> set[str]:
    """Return the failed checks of a trial whose images need this share of what the cores can do."""
    spec = make_spec(threads=THREADS)
    figures = {
        SPEED.name: Figure(share * POSSIBLE / LEAST_FLOP, "-"),
        WINDOW.name: Figure(5.0, "-"),
        CPU_USAGE.name: Figure(percent, "-"),
    }
    figures |= compute_pace(spec, OSU_CNN, [], figures, told)
    result = TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, figures=figures)
    checks = [*check_end(result, OSU_CNN), *check_reported(spec, OSU_CNN, figures)]
    assert {CheckName.POSSIBLE, CheckName.NEEDED} <= {check.name for check in checks}
    return {check.name for check in checks if not check.passed}


@pytest.mark.parametrize("waits", [[], [0.4] * 50, [0.9, 0.4, 5.0, 0.4, 0.6]], ids=["quiet", "one other", "several"])
def test_a_product_that_waited_in_each_call_accuses_no_trial_that_is_possible_and_each_that_is_not(
    waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = account(monkeypatch, waits)
    assert told["product"]["cpu_time_flop_per_s"] == pytest.approx(POSSIBLE)
    assert accused(told, 0.9) == set()
    assert accused(told, 1.1) == {CheckName.POSSIBLE}
    least_percent = 100 * 0.9 / LONE_CORE
    assert accused(told, 0.9, least_percent * 1.1) == set()
    assert accused(told, 0.9, least_percent * 0.9) == {CheckName.NEEDED}


def test_the_speed_that_is_reported_is_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    told = account(monkeypatch, [0.9, 0.4, 5.0, 0.4, 0.6])
    figure = compute_pace(make_spec(threads=THREADS), OSU_CNN, [], {SPEED.name: Figure(1.0, "-")}, told)[PRODUCT.name]
    assert figure.value == pytest.approx(POSSIBLE * CALL_S / (CALL_S + 0.4))


def test_processor_time_bounds_nothing_on_a_card_or_where_none_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_steps, "WIDTHS", (WIDTH,))
    monkeypatch.setattr(memory_steps, "LENGTH_S", 0.0)
    assert "cpu_time_flop_per_s" not in memory_steps.measure_products(Adapter(), None)
    monkeypatch.setattr(memory_steps, "_time_prediction", lambda *_: (0.1, 0.0))
    assert "cpu_time_flop_per_s" not in memory_steps.measure_products(Adapter(), THREADS)
