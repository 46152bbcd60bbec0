"""How far two runs' epochs may be apart, and what is not compared."""

from __future__ import annotations

import pytest

from runner.gate.drift import CHAOS, allowed_training_loss, differences, drifted
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
    # Seen of osu-cnn on the digits at batch size 128: the most of three frameworks after 12 and 24 updates.
    assert drifted(epochs(2.0, 1.9), epochs(2.0 * (1 + 1e-6), 1.9 * (1 + 1e-4)), MOMENTUM, False) is None


@pytest.mark.parametrize("losses", [(2.0, None), (2.0, 4.5)])
def test_a_run_that_diverges_is_not_compared_from_there_on(losses: tuple[float, None] | tuple[float, float]) -> None:
    compared = list(differences(epochs(2.0, 1.9), epochs(*losses), MOMENTUM, False))
    assert {each.epoch for each in compared} == {0}
    assert {each.epoch for each in differences(epochs(*losses), epochs(2.0, 1.9), MOMENTUM, False)} == {0}
