"""Time of an epoch, speed of evaluation, work of the layers: how they are computed, and why they are unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from conftest import make_spec

from adapters.numpy.adapter import Adapter
from adapters.worker import memory_steps
from runner.results.pace import compute_pace
from workloads.catalogue import OSU_CNN
from workloads.records.events import Event
from workloads.records.figures import EPOCH_TIME, EVALUATION_SPEED, PRODUCT, PRODUCT_SHARE, SPEED, WORK, Figure
from workloads.records.network import OwnCode
from workloads.records.result import Epoch

FIRST = Epoch(train_s=9.0, steps=45, images=1437, train_loss=1.0, evaluate_s=5.0, test_loss=1.0, test_accuracy=0.5)
LATER = [replace(FIRST, train_s=2.0, evaluate_s=0.5), replace(FIRST, train_s=4.0, evaluate_s=1.0)]
SPEEDS = {SPEED.name: Figure(1000.0, "worker")}
TEST_IMAGES = 360  # of the digits
ACCOUNT = {"product": {"event": Event.PRODUCT_TIMED, "t_ns": 1, "flop_per_s": 1e11, "calls": 5}}


def test_the_first_epoch_which_compiles_counts_in_none_of_them() -> None:
    figures = compute_pace(make_spec(), OSU_CNN, [FIRST, *LATER], SPEEDS, ACCOUNT)
    assert (figures[EPOCH_TIME.name].value, figures[EPOCH_TIME.name].samples) == (3.0, 2)
    assert figures[EVALUATION_SPEED.name].value == pytest.approx(2 * TEST_IMAGES / 1.5)
    alone = compute_pace(make_spec(), OSU_CNN, [FIRST], SPEEDS, ACCOUNT)
    for spec in (EPOCH_TIME, EVALUATION_SPEED):
        assert alone[spec.name].value is None and "there is no epoch after the first" in str(alone[spec.name].reason)


def test_work_is_two_operations_a_multiply_add_and_three_passes_a_step() -> None:
    work = compute_pace(make_spec(), OSU_CNN, [], SPEEDS, ACCOUNT)[WORK.name]
    assert work.value == 1000.0 * 4_548_608 * 2 * 3


def test_what_is_unknown_says_why() -> None:
    silent = {SPEED.name: Figure(None, "worker", reason="no window")}
    assert compute_pace(make_spec(), OSU_CNN, [], silent, ACCOUNT)[WORK.name].reason == "no window"
    gone = compute_pace(make_spec(workload="gone"), None, [], SPEEDS, ACCOUNT)
    assert gone[WORK.name].reason == gone[PRODUCT_SHARE.name].reason == "there is no workload gone to count"
    own = OwnCode("pytorch", "net.py", "make", "0" * 8, 10, (8, 8, 1))
    reason = compute_pace(make_spec(own_code=own), OSU_CNN, [], SPEEDS, ACCOUNT)[WORK.name].reason
    assert reason == "custom code: its layers are unknown"
    lost = compute_pace(make_spec(dataset="gone"), OSU_CNN, [FIRST, *LATER], SPEEDS, ACCOUNT)[EVALUATION_SPEED.name]
    assert lost.reason == "the number of test images is unknown"


def test_work_is_told_as_a_share_of_the_frameworks_own_product_of_matrices() -> None:
    figures = compute_pace(make_spec(), OSU_CNN, [], SPEEDS, ACCOUNT)
    assert (figures[PRODUCT.name].value, figures[PRODUCT.name].samples) == (1e11, 5)
    assert figures[PRODUCT_SHARE.name].value == pytest.approx(100 * 1000 * 4_548_608 * 2 * 3 / 1e11)


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        (None, "the memory worker has not run yet"),
        ({"reason": "the memory worker: it died"}, "the memory worker: it died"),
        ({"peak": 5}, "its memory worker ended before"),
        ({"product": {"t_ns": 1, "reason": "MemoryError: no room"}}, "MemoryError: no room"),
    ],
)
def test_without_a_product_there_is_no_share_and_the_reason_is_told(account: Any, reason: str) -> None:
    figures = compute_pace(make_spec(), OSU_CNN, [], SPEEDS, account)
    for spec in (PRODUCT, PRODUCT_SHARE):
        assert figures[spec.name].value is None and str(figures[spec.name].reason).startswith(reason)


def test_a_chain_of_products_is_nearly_nothing_but_products() -> None:
    for width in memory_steps.WIDTHS:
        told = memory_steps.product_chain(width)
        assert 1 <= told.multiply_adds / (memory_steps.PRODUCTS * width**2) < 1.01


def test_the_weights_of_products_take_neither_drawing_nor_transposing() -> None:
    workload = memory_steps.product_chain(memory_steps.WIDTHS[-1])
    drawn = memory_steps.draw_products(workload)
    assert {key: array.shape for key, array in drawn.items()} == workload.weight_shapes()
    kernels = {key: array for key, array in drawn.items() if key.endswith("kernel")}
    assert {array.strides for array in kernels.values()} == {(4, 4)}  # 4 bytes on is the next of a row and of a column
    spread = {key: float(array[0].std() * (3 / 6 * sum(array.shape)) ** 0.5) for key, array in kernels.items()}
    assert all(0.6 < value < 1.4 for value in spread.values())  # U(-a, a) has a standard deviation of a / sqrt(3)
    assert len({array[0, 0] for array in kernels.values()}) == len(kernels)


def test_widths_that_cannot_take_long_enough_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call at 16 that takes 2 ms says that 32 takes 16 ms at most, and 64 perhaps long enough."""
    for name, value in {"WIDTHS": (16, 32, 64, 128), "LENGTH_S": 0.0, "LONG_ENOUGH_S": 0.1}.items():
        monkeypatch.setattr(memory_steps, name, value)
    built: list[int] = []
    adapter = Adapter()
    monkeypatch.setattr(adapter, "build", lambda workload, *_: built.append(workload.layers[1].units))
    monkeypatch.setattr(adapter, "predict", lambda images: None)
    monkeypatch.setattr(memory_steps, "_time_prediction", lambda *_: ({16: 2e-3, 64: 0.05, 128: 0.4}[built[-1]], 0.1))
    assert memory_steps.measure_products(adapter, 1)["width"] == 128
    assert built == [16, 64, 128]


@pytest.mark.parametrize(("long_enough_s", "width"), [(0.0, 32), (1e9, 64)])
def test_the_fastest_of_several_calls_is_told_of_matrices_that_take_long_enough(
    monkeypatch: pytest.MonkeyPatch, long_enough_s: float, width: int
) -> None:
    """Measured for the referee, on matrices that are small enough for a test."""
    for name, value in {"WIDTHS": (32, 64), "LENGTH_S": 0.01, "LONG_ENOUGH_S": long_enough_s}.items():
        monkeypatch.setattr(memory_steps, name, value)
    told = memory_steps.measure_products(Adapter(), 1)
    assert told["width"] == width and told["calls"] >= memory_steps.FEWEST_CALLS and 1e6 < told["flop_per_s"] < 1e15
