"""Limits of how far two runs' epochs may differ, and what is not compared."""

from __future__ import annotations

import math

import pytest

from runner.gate.drift import (
    CHAOS,
    DISTURBANCES,
    TEST_LOSS,
    Moved,
    allowed_training_loss,
    compared_epochs,
    differences,
    drifted,
    middle_moved,
    moved,
)
from workloads.records.result import Epoch
from workloads.spec import OPTIMIZER_NAMES, OptimizerName, OptimizerSpec

MOMENTUM = OptimizerSpec.named("momentum")


def epochs(
    *losses: float, steps: int = 12, test: tuple[float, ...] | None = None, accuracy: float = 0.5
) -> list[Epoch]:
    """One epoch for each training loss; test losses are the same unless given."""
    tests = test or losses
    return [
        Epoch(1.0, steps, 1437, loss, 0.1, test_loss, accuracy) for loss, test_loss in zip(losses, tests, strict=True)
    ]


def test_the_first_epoch_is_held_tighter_than_a_later_one_and_chaos_is_not_compared() -> None:
    same = epochs(2.0, 1.9, 1.8, 1.7)
    compared = [each for each in differences(same, same, MOMENTUM, False) if each.quantity == "training loss"]
    assert [each.updates for each in compared] == [12, 24], "the third ends after 36 updates: rounding may be anything"
    assert compared[0].allowed < compared[1].allowed <= CHAOS
    assert compared[0].allowed == pytest.approx(1e-5 * 10**1.2)


@pytest.mark.parametrize("rule", OPTIMIZER_NAMES)
def test_bounds_grow_with_the_updates_and_with_the_learning_rate(rule: OptimizerName) -> None:
    calm, hot = OptimizerSpec.named(rule), OptimizerSpec.named(rule, 10 * OptimizerSpec.named(rule).learning_rate)
    bounds = [allowed_training_loss(calm, False, updates) for updates in (0, 10, 20)]
    assert bounds == sorted(bounds) and bounds[0] < bounds[2]
    assert allowed_training_loss(hot, False, 10) > bounds[1]
    assert allowed_training_loss(calm, True, 10) > bounds[1], "BatchNorm amplifies"


@pytest.mark.parametrize(
    ("other", "quantity", "epoch"),
    [
        (epochs(2.0 * (1 + 1e-3), 1.9), "training loss", 0),
        (epochs(2.0, 1.9 * 1.02), "training loss", 1),
        (epochs(2.0, 1.9, test=(2.0 * 1.01, 1.9)), "test loss", 0),
        (epochs(2.0, 1.9, accuracy=0.55), "test accuracy", 0),
    ],
)
def test_what_differs_first_is_named_with_its_epoch(other: list[Epoch], quantity: str, epoch: int) -> None:
    first = drifted(epochs(2.0, 1.9), other, MOMENTUM, False)
    assert first is not None and (first.quantity, first.epoch) == (quantity, epoch)
    assert first.apart > first.allowed
    assert str(first).startswith(f"the {quantity} of epoch {epoch + 1} differs by ")


def test_what_rounding_does_to_right_frameworks_is_no_difference() -> None:
    # Seen for osu-cnn on the digits at batch size 128: the most of three frameworks after 12 and 24 updates.
    assert drifted(epochs(2.0, 1.9), epochs(2.0 * (1 + 1e-6), 1.9 * (1 + 1e-4)), MOMENTUM, False) is None


@pytest.mark.parametrize("losses", [(2.0, None), (2.0, 4.5)])
def test_a_run_that_diverges_is_not_compared_from_there_on(losses: tuple[float, None] | tuple[float, float]) -> None:
    compared = list(differences(epochs(2.0, 1.9), epochs(*losses), MOMENTUM, False))
    assert {each.epoch for each in compared} == {0}
    assert {each.epoch for each in differences(epochs(*losses), epochs(2.0, 1.9), MOMENTUM, False)} == {0}


def test_what_disturbed_weights_moved_is_the_most_so_far_of_all_trainings_and_of_the_test_loss_a_tenth() -> None:
    trial = epochs(2.0, 2.0, 2.0, test=(1.0, 1.0, 1.0))
    one = epochs(2.0 / 0.99, 2.0, 2.0, test=(1.0, 1.0, 1.0))
    two = epochs(2.0, 2.0, 2.0, test=(1.0, 1 / 0.8, 1.0), accuracy=0.6)
    found = moved(trial, [one, two])
    assert [each.loss for each in found] == pytest.approx([0.01, 0.2 / TEST_LOSS, 0.02])
    assert [each.accuracy for each in found] == pytest.approx([0.1] * 3)
    assert moved(trial, []) == []
    assert len(moved(trial, [one, two[:1]])) == 1, "as far as all of them went"


def test_from_where_a_disturbed_training_diverges_there_is_no_bound() -> None:
    found = moved(epochs(2.0, 1.9, 1.8), [epochs(2.0, 4.1, 1.8)])
    assert [each.loss for each in found] == [0.0, math.inf, math.inf]
    assert [each.epoch for each in differences(epochs(2.0, 1.9), epochs(2.0, 1.9), MOMENTUM, False, found)][-1] == 0


def test_the_middle_framework_decides_of_two_the_calmer_and_one_alone_says_nothing() -> None:
    calm, usual, wild = ([Moved(loss, loss / 2)] for loss in (0.001, 0.01, 0.1))
    assert middle_moved([wild, calm, usual]) == usual
    assert middle_moved([wild, calm]) == calm
    assert middle_moved([wild]) == middle_moved([]) == []


def test_bounds_are_wider_where_disturbed_weights_moved_more_and_never_narrower() -> None:
    one, other = epochs(2.0, 1.9), epochs(2.0 * (1 + 3e-3), 1.9, accuracy=0.58)
    assert drifted(one, other, MOMENTUM, False) is not None
    assert drifted(one, other, MOMENTUM, False, [Moved(0.001, 0.02)] * 2) is None
    assert drifted(one, other, MOMENTUM, False, [Moved(0.0001, 0.02)] * 2) is not None
    bounds = [each.allowed for each in differences(one, one, MOMENTUM, False)]
    assert [each.allowed for each in differences(one, one, MOMENTUM, False, [Moved(1e-9, 0.0)])] == bounds
    assert not list(differences(one, one, MOMENTUM, False, [Moved(1.01 * CHAOS / DISTURBANCES, 0.0)]))


def test_epochs_are_counted_as_far_as_their_updates_let_them_be_compared() -> None:
    assert [compared_epochs(epochs(2.0, 1.9, 1.8, 1.7, steps=steps), MOMENTUM, False) for steps in (12, 35, 8)] == [
        2,
        0,
        4,
    ]
