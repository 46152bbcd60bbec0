"""The speed at the largest batch size, compared with the best measured one: when it is a warning, and on what data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from each import for_each

from runner.batch_size.cliffs import FALLEN, PAIRS, compare_speed
from workloads.records.batch_answers import LargestSpeed, Ratio, SizeVerdict


class Machine:
    """Trials of a made-up speed by batch size, with noise; None where they fail."""

    def __init__(self, speed: Callable[[int], float | None], noise: float = 0.01, seed: int = 0) -> None:
        self.speed, self.noise, self.drawn = speed, noise, np.random.default_rng(seed)
        self.sizes: list[int] = []

    def measure(self, size: int) -> float | None:
        self.sizes.append(size)
        speed = self.speed(size)
        return None if speed is None else speed * float(np.exp(self.drawn.normal(0, self.noise)))

    def compare(self, answer: int, known: Mapping[int, list[float]]) -> LargestSpeed:
        found = compare_speed(self.measure, answer, known)
        assert found is not None
        return found


def falling(to: float, beyond: int = 500) -> Callable[[int], float]:
    return lambda size: 1000.0 * (to if size > beyond else 1.0)


def test_a_fall_that_nobody_measured_is_looked_for_and_told_with_its_interval() -> None:
    machine = Machine(falling(0.15))
    found = machine.compare(640, {640: [150.0, 151.0], 641: [150.0]})
    assert machine.sizes[:3] == [40, 160, 320], "a sixteenth, a quarter and half of it"
    assert len(machine.sizes) == 3 + 2 * PAIRS
    assert found.falls and found.best_batch_size in (40, 160, 320)
    assert found.compared.low is not None and found.compared.high is not None and found.compared.pairs == PAIRS
    assert found.compared.low == pytest.approx(0.15, abs=0.01) and found.compared.high == pytest.approx(0.15, abs=0.01)
    assert found.words.startswith("150 images/s there, 15 % [") and found.words.endswith(
        f": train at {found.best_batch_size}"
    )


def test_sizes_that_were_measured_are_not_tried_again() -> None:
    machine = Machine(falling(1.0))
    found = machine.compare(640, {640: [990.0], 128: [1000.0], 32: [900.0], 1000: [9e9]})
    assert machine.sizes == [] and not found.falls
    assert (found.best_batch_size, found.compared.verdict) == (128, SizeVerdict.UNCERTAIN)
    assert found.words == "990 images/s there, 99 % of the best measured, 1,000 at 128 (single trials)"


def test_one_small_size_that_was_measured_hides_no_fall() -> None:
    machine = Machine(falling(0.5))
    machine.compare(1000, {1000: [500.0], 3: [10.0]})
    assert machine.sizes[:3] == [62, 250, 500]


def test_the_best_itself_is_no_warning() -> None:
    found = Machine(falling(1.0)).compare(64, {64: [1000.0, 1010.0], 16: [500.0]})
    assert (found.compared.verdict, found.falls) == (SizeVerdict.BEST, False)
    assert found.words == "1,005 images/s there, the best measured"


@for_each("share, noise, verdict", [
    (0.6, 0.01, SizeVerdict.WORSE), (0.88, 0.01, SizeVerdict.WITHIN), (0.8, 0.05, SizeVerdict.UNCERTAIN),
])  # fmt: skip
def test_pairs_decide(share: float, noise: float, verdict: SizeVerdict) -> None:
    found = Machine(falling(share), noise, seed=3).compare(640, {640: [1000 * share], 128: [1000.0]})
    assert found.compared.verdict is verdict, found


def test_single_figures_that_were_luck_are_no_warning() -> None:
    found = Machine(falling(1.0)).compare(640, {640: [700.0], 128: [1400.0]})
    assert not found.falls and found.compared.ratio == pytest.approx(1, abs=0.05)


def test_warnings_of_no_loss_beyond_the_limit_are_at_most_the_intervals_share() -> None:
    """At exactly 20 % below: the upper end lies below it in about 2.5 % of all comparisons."""
    warned = sum(
        Machine(falling(1 - FALLEN), 0.03, seed).compare(640, {640: [800.0], 128: [1000.0]}).falls
        for seed in range(400)
    )
    assert warned <= 20


def test_without_a_speed_at_the_largest_there_is_no_comparison_and_failed_pairs_leave_single_figures() -> None:
    assert compare_speed(Machine(lambda _: None).measure, 640, {}) is None
    found = Machine(lambda size: None if size == 128 else 500.0).compare(640, {640: [500.0], 128: [1000.0]})
    assert found.compared == Ratio(640, SizeVerdict.UNCERTAIN, 0.5, None, None, 0) and not found.falls


@for_each("answer, tried", [(1, []), (2, [1]), (3, [1]), (16, [1, 4, 8])])
def test_small_answers_have_few_smaller_sizes(answer: int, tried: list[int]) -> None:
    machine = Machine(falling(1.0))
    machine.compare(answer, {answer: [1000.0]})
    assert machine.sizes == tried
