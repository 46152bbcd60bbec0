"""The learning rate of every step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from each import for_each

from workloads.schedules import LEAST, compute_rates, count_steps
from workloads.spec import SCHEDULE_NAMES, OptimizerSpec, ScheduleName

RULE = OptimizerSpec("momentum", 0.5)


def of(schedule: ScheduleName, steps: int, warm_up: float = 0.0) -> list[float]:
    every: list[float] = compute_rates(replace(RULE, schedule=schedule, warm_up=warm_up), steps).tolist()
    return every


@for_each("schedule", SCHEDULE_NAMES)
@for_each("steps", [1, 2, 3, 7, 120, 100_000])
@for_each("warm_up", [0.0, 0.3])
def test_every_rate_is_above_0_and_none_above_the_highest(schedule: ScheduleName, steps: int, warm_up: float) -> None:
    every = np.array(of(schedule, steps, 0 if schedule == "one-cycle" else warm_up))
    assert every.shape == (steps,) and every.min() > 0 and every.max() <= 0.5
    if steps > 2 and schedule != "one-cycle":  # its peak is between two steps, unless 0.3 x steps is a whole number
        assert every.max() == 0.5


def test_cosine_falls_to_its_least_and_is_half_way_in_the_middle() -> None:
    every = of("cosine", 101)
    assert every[0] == 0.5 and every == sorted(every, reverse=True)
    assert every[50] == pytest.approx(0.5 * (1 + LEAST) / 2) and every[-1] == pytest.approx(0.5 * LEAST)


# torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=STEPS, cycle_momentum=False) of PyTorch 2.13.
ONE_CYCLE = {
    10: [
        0.02, 0.26, 0.5, 0.47524231600673683, 0.40587282697488153, 0.30563101096814466, 0.19437098903185537,
        0.09412917302511849, 0.024759683993263143, 2e-06,
    ],
    4: [0.02, 0.405872826974882, 0.141530500000000, 2e-06],
    2: [0.405872826974881, 2e-06],
    1: [2e-06],
}  # fmt: skip


@pytest.mark.parametrize("steps", ONE_CYCLE)
def test_one_cycle_is_pytorchs_with_momentum_as_it_is(steps: int) -> None:
    np.testing.assert_allclose(of("one-cycle", steps), ONE_CYCLE[steps], rtol=1e-5)


def test_step_is_a_tenth_from_half_on_and_a_hundredth_from_three_quarters_on() -> None:
    np.testing.assert_allclose(of("step", 8), [0.5, 0.5, 0.5, 0.5, 0.05, 0.05, 0.005, 0.005], rtol=1e-6)


def test_step_drops_at_the_same_steps_with_a_warm_up() -> None:
    np.testing.assert_allclose(of("step", 8, 2), [0.25, 0.5, 0.5, 0.5, 0.05, 0.05, 0.005, 0.005], rtol=1e-6)
    np.testing.assert_allclose(of("step", 8, 5)[3:], [0.4, 0.5, 0.05, 0.005, 0.005], rtol=1e-6)


def test_a_warm_up_rises_by_equal_steps_before_the_schedule() -> None:
    np.testing.assert_allclose(of("constant", 6, 4), [0.125, 0.25, 0.375, 0.5, 0.5, 0.5])
    assert of("cosine", 24, 4)[4:] == of("cosine", 20)
    assert of("cosine", 24, 4 / 24) == of("cosine", 24, 4)


@pytest.mark.parametrize("warm_up", [6, 7, 100])
def test_a_warm_up_as_long_as_the_training_is_refused(warm_up: int) -> None:
    with pytest.raises(ValueError, match=f"a warm-up of {warm_up} steps leaves none of the 6 steps"):
        of("constant", 6, warm_up)


@pytest.mark.parametrize(("last_batch", "steps"), [("keep", 4), ("drop", 3)])
def test_the_steps_of_an_epoch_are_those_that_are_trained(last_batch: str, steps: int) -> None:
    assert count_steps(10, 3, last_batch) == steps
    assert count_steps(9, 3, last_batch) == 3
