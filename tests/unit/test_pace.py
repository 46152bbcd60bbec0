"""Time of an epoch, speed of evaluation, work of the layers: what they are made of, and why they are unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import make_spec

from runner.results.pace import pace
from workloads.catalogue.osu_cnn import OSU_CNN
from workloads.records.figures import EPOCH_TIME, EVALUATION_SPEED, SPEED, WORK, Figure
from workloads.records.own_code import OwnCode
from workloads.records.result import Epoch

FIRST = Epoch(train_s=9.0, steps=45, images=1437, train_loss=1.0, evaluate_s=5.0, test_loss=1.0, test_accuracy=0.5)
LATER = [replace(FIRST, train_s=2.0, evaluate_s=0.5), replace(FIRST, train_s=4.0, evaluate_s=1.0)]
SPEEDS = {SPEED.name: Figure(1000.0, "worker")}
TEST_IMAGES = 360  # of the digits


def test_the_first_epoch_which_compiles_counts_in_none_of_them() -> None:
    figures = pace(make_spec(), OSU_CNN, [FIRST, *LATER], SPEEDS)
    assert (figures[EPOCH_TIME.name].value, figures[EPOCH_TIME.name].samples) == (3.0, 2)
    assert figures[EVALUATION_SPEED.name].value == pytest.approx(2 * TEST_IMAGES / 1.5)
    alone = pace(make_spec(), OSU_CNN, [FIRST], SPEEDS)
    for spec in (EPOCH_TIME, EVALUATION_SPEED):
        assert alone[spec.name].value is None and "there is no epoch after the first" in str(alone[spec.name].reason)


def test_work_is_two_operations_a_multiply_add_and_three_passes_a_step() -> None:
    work = pace(make_spec(), OSU_CNN, [], SPEEDS)[WORK.name]
    assert work.value == 1000.0 * 4_548_608 * 2 * 3


def test_what_is_unknown_says_why() -> None:
    silent = {SPEED.name: Figure(None, "worker", reason="no window")}
    assert pace(make_spec(), OSU_CNN, [], silent)[WORK.name].reason == "no window"
    assert pace(make_spec(workload="gone"), None, [], SPEEDS)[WORK.name].reason == "there is no workload gone to count"
    own = OwnCode("pytorch", "net.py", "make", "0" * 8, 10, (8, 8, 1))
    reason = pace(make_spec(own_code=own), OSU_CNN, [], SPEEDS)[WORK.name].reason
    assert reason == "own code: nobody knows its layers"
    lost = pace(make_spec(dataset="gone"), OSU_CNN, [FIRST, *LATER], SPEEDS)[EVALUATION_SPEED.name]
    assert lost.reason == "nobody knows how many test images there are"
