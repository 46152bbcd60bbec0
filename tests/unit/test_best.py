"""The search for the best batch size, on curves whose best is known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from each import for_each
from published_curve import of_curve

from runner.batch_size.best import FAILURES, FEWEST, LIMIT, Disturbed, find_best_size
from workloads.records.batch_answers import Best, SizeVerdict

Curve = Callable[[int], float]
SIZES = [1 << power for power in range(13)]


def peaked(centre: float, width: float) -> Curve:
    return lambda size: 1000 * math.exp(-(((math.log2(size) - centre) / width) ** 2))


CURVES: dict[str, Curve] = {
    "peaked": peaked(7.4, 5),
    "broad": peaked(7.3, 8),
    "at the first": peaked(0, 5),
    "at the last": peaked(12, 5),
    "saturating": lambda size: 1000 * size / (size + 16),
    "plateau": lambda size: 1000 * min(1.0, size / 200),
    "jagged": lambda size: peaked(7.5, 8)(size) * (1.0 if size.bit_length() % 2 else 0.94),
    "flat": lambda size: 1000.0,
}


def right(curve: Curve, better: int = 1) -> int:
    """Return the smallest power of two within 2 % of the best."""
    top = max(better * math.log(curve(size)) for size in SIZES)
    return next(size for size in SIZES if better * math.log(curve(size)) >= top + math.log(0.98))


def noisy(curve: Curve, noise: float, seed: int, drift: float = 0.0) -> Curve:
    """Add noise to a curve; each trial is also slower than the one before by `drift`."""
    drawn, count = np.random.default_rng(seed), Counter[str]()

    def measure(size: int) -> float:
        count["trials"] += 1
        return curve(size) * math.exp(float(drawn.normal(0, noise)) - drift * count["trials"])

    return measure


def verdicts(answer: Best) -> dict[int, SizeVerdict]:
    return {ratio.batch_size: ratio.verdict for ratio in answer.ratios}


@for_each("name", CURVES)
@for_each("seed", [1, 2])
def test_with_little_noise_the_answer_is_the_smallest_size_within_two_percent(name: str, seed: int) -> None:
    answer = find_best_size(noisy(CURVES[name], 0.001, seed), 4096, seed=seed)
    assert answer.batch_size == right(CURVES[name])
    assert answer.reason is None
    assert verdicts(answer)[right(CURVES[name])] in (SizeVerdict.BEST, SizeVerdict.WITHIN)
    assert list(verdicts(answer).values()).count(SizeVerdict.BEST) == 1


@pytest.mark.parametrize("name", CURVES)
def test_least_energy_is_the_same_search_for_the_least(name: str) -> None:
    def joules(size: int) -> float:
        return 100 / CURVES[name](size)

    answer = find_best_size(noisy(joules, 0.001, 1), 4096, better=-1)
    assert answer.batch_size == right(joules, better=-1) == right(CURVES[name])
    told = [ratio for ratio in answer.ratios if ratio.verdict is not SizeVerdict.UNCERTAIN]
    assert told and all((ratio.ratio < 0.98) == (ratio.verdict is SizeVerdict.WORSE) for ratio in told)


@pytest.mark.parametrize("largest", [1, 2, 3, 100, 1419])
def test_the_bound_is_tried_and_nothing_beyond_it(largest: int) -> None:
    asked: list[int] = []

    def measure(size: int) -> float:
        asked.append(size)
        return 1000 * size / (size + 4) * (2 if size == largest else 1)

    assert find_best_size(measure, largest).batch_size == largest
    assert largest in asked and max(asked) == largest and min(asked) == 1


def random_curve(drawn: np.random.Generator) -> Curve:
    """A curve peaked anywhere and of any width, cut off to a plateau or not, jagged at powers of four or not."""
    bell, cut = peaked(drawn.uniform(-2, 14), drawn.uniform(3, 15)), drawn.uniform(0.7, 1.5)
    teeth = drawn.uniform(0, 0.1) * drawn.integers(0, 2)
    return lambda size: min(cut * 1000, bell(size)) * (1.0 if size.bit_length() % 2 else 1 - teeth)


@for_each("seed", range(24))
def test_whatever_the_curve_and_the_noise_what_is_stated_is_so_and_what_is_shown_supports_it(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    curve, noise, largest = random_curve(drawn), drawn.uniform(0, 0.07), int(drawn.integers(1, 5000))
    answer = find_best_size(noisy(curve, noise, seed), largest, seed=seed)
    sizes = [point.batch_size for point in answer.points]
    top = max(map(curve, sizes))
    assert answer.batch_size in sizes and max(sizes) == largest
    if answer.reason is None:
        assert curve(answer.batch_size) >= 0.98 * top
        smaller = [size for size in sizes if size < answer.batch_size and curve(size) >= 0.99 * top]
        assert not smaller, "one percent from the limit is told apart, or the answer has a doubt"
    assert list(verdicts(answer).values()).count(SizeVerdict.BEST) == 1 and list(verdicts(answer)) == sorted(
        verdicts(answer)
    )
    for ratio in answer.ratios:
        if ratio.verdict is SizeVerdict.WITHIN and ratio.low is not None:
            assert ratio.low >= 0.98 and ratio.pairs >= FEWEST
        if ratio.verdict is SizeVerdict.WORSE:
            assert ratio.high is not None and ratio.high < 0.98 and ratio.pairs > FEWEST
    assert answer.trials <= 14 * (1 + LIMIT)


def test_every_trial_is_counted_and_every_size_has_a_point() -> None:
    asked: list[int] = []

    def measure(size: int) -> float:
        asked.append(size)
        return curve(size)

    curve = noisy(CURVES["plateau"], 0.01, 1)
    answer = find_best_size(measure, 4096)
    assert answer.trials == len(asked) and {point.batch_size for point in answer.points} == set(asked)
    assert all(point.low <= point.mean <= point.high for point in answer.points if point.low and point.high)
    repeated = {point.batch_size for point in answer.points if point.trials > 1}
    assert repeated == {ratio.batch_size for ratio in answer.ratios}, "only what may be the best is tried again"


def test_each_block_has_each_candidate_once_in_an_order_that_the_seed_draws() -> None:
    def order(seed: int) -> list[int]:
        asked: list[int] = []

        def measure(size: int) -> float:
            asked.append(size)
            return {256: 100.0, 512: 99.0, 1024: 97.5}.get(size, 10.0) * math.exp(drawn.normal(0, 0.001))

        drawn = np.random.default_rng(1)
        find_best_size(measure, 1024, seed=seed)
        first = next(place for place in range(len(asked)) if asked.count(asked[place]) > 1 and place >= 8)
        return asked[first:]

    blocks = order(1)
    assert sorted(blocks[:3]) == sorted(blocks[3:6]) == [256, 512, 1024]
    assert order(1) == blocks, "a command that goes on asks for the same trials"
    assert order(2) != blocks


def test_a_machine_that_slows_down_makes_nothing_worse() -> None:
    """A tenth over 40 trials, and blocks of several sizes."""
    for seed in range(5):
        answer = find_best_size(noisy(CURVES["plateau"], 0.003, seed, drift=0.0025), 4096, seed=seed)
        assert answer.batch_size == 256 and SizeVerdict.WORSE not in [verdicts(answer).get(size) for size in SIZES[8:]]


@pytest.mark.parametrize("failing", [{512}, {128, 256}, {1, 4, 16}, set(SIZES[9:])])
def test_sizes_that_fail_do_not_end_the_search(failing: set[int]) -> None:
    measure = noisy(CURVES["at the last"], 0.001, 1)
    answer = find_best_size(lambda size: None if size in failing else measure(size), 4096)
    assert answer.batch_size == max(size for size in SIZES if size not in failing)
    assert not failing & {point.batch_size for point in answer.points}


def test_a_size_that_fails_when_it_is_tried_again_is_left_out_and_named() -> None:
    calls: Counter[int] = Counter()
    measure = noisy(lambda size: {256: 1000.0, 512: 1001.0}.get(size, 100.0), 0.001, 1)

    def sometimes(size: int) -> float | None:
        calls[size] += 1
        return None if size == 256 and calls[size] > 1 else measure(size)

    answer = find_best_size(sometimes, 4096)
    assert answer.batch_size == 512 and calls[256] == 1 + FAILURES
    assert verdicts(answer) == {256: SizeVerdict.UNCERTAIN, 512: SizeVerdict.BEST}
    assert answer.reason is not None and "256 failed when it was tried again" in answer.reason


def at_the_fifth_and_sixth_trial_of_128(disturbed: bool) -> Callable[[int], float | None]:
    """Return a measure of two near sizes: 128 is 11 % faster than 64, whose first figures spread by 5 %."""
    calls: Counter[int] = Counter()

    def measure(size: int) -> float | None:
        calls[size] += 1
        if size == 128 and calls[size] in (5, 6):
            if disturbed:
                raise Disturbed
            return None
        spread = {2: 1.05, 4: 1 / 1.05}.get(calls[size], 1.0) if size == 64 else 1.0
        return spread * {64: 900.0, 128: 1000.0}.get(size, 100.0)

    return measure


def test_a_faster_size_that_fails_at_last_is_named_with_what_its_pairs_had_shown() -> None:
    answer = find_best_size(at_the_fifth_and_sixth_trial_of_128(disturbed=False), 4096)
    assert answer.batch_size == 64
    assert answer.reason is not None and "128 failed" in answer.reason and "111.1 % [" in answer.reason
    assert verdicts(answer) == {64: SizeVerdict.BEST, 128: SizeVerdict.UNCERTAIN}, "64 is within 2 % of nothing"


def test_trials_that_other_processes_disturb_cost_pairs_and_no_size() -> None:
    answer = find_best_size(at_the_fifth_and_sixth_trial_of_128(disturbed=True), 4096)
    assert (answer.batch_size, answer.reason) == (128, None)
    assert verdicts(answer) == {64: SizeVerdict.WORSE, 128: SizeVerdict.BEST}


def test_a_size_that_was_worse_only_than_one_that_fails_at_last_runs_again() -> None:
    calls: Counter[int] = Counter()

    def measure(size: int) -> float | None:
        calls[size] += 1
        spread = math.exp(0.032 if calls[size] % 2 == 0 else -0.032) if size == 32 else 1.0
        figure = spread * {32: 930.0, 64: 950.0, 128: 1000.0}.get(size, 100.0)
        return None if size == 128 and calls[size] > 5 else figure

    answer = find_best_size(measure, 4096)
    assert answer.batch_size == 64 and answer.reason is not None and "128 failed" in answer.reason
    assert list(verdicts(answer)) == [32, 64, 128] and verdicts(answer)[64] is SizeVerdict.BEST


def test_no_size_is_called_within_unless_it_is_so_of_a_size_that_failed_at_last() -> None:
    """32 is as fast as 64; 128 was faster than both."""
    calls: Counter[int] = Counter()

    def measure(size: int) -> float | None:
        calls[size] += 1
        spread = {2: 1.06, 3: 1 / 1.06}.get(calls[size], 1.0) if size in (32, 64) else 1.0
        figure = spread * {32: 950.0, 64: 950.0, 128: 1000.0}.get(size, 100.0)
        return None if size == 128 and calls[size] > 3 else figure

    answer = find_best_size(measure, 4096)
    assert answer.batch_size in (32, 64) and answer.reason is not None and "128 failed" in answer.reason
    assert SizeVerdict.WITHIN not in verdicts(answer).values()


def test_where_every_repeat_is_disturbed_there_is_no_answer() -> None:
    calls: Counter[int] = Counter()

    def measure(size: int) -> float:
        calls[size] += 1
        if calls[size] > 1:
            raise Disturbed
        return 1000.0

    answer = find_best_size(measure, 4)
    assert answer.batch_size is None and answer.reason is not None and "disturbed" in answer.reason
    assert answer.trials == 3 * (1 + LIMIT)


def test_one_failure_among_the_repeats_costs_a_pair_and_no_more() -> None:
    calls: Counter[int] = Counter()
    measure = noisy(CURVES["plateau"], 0.003, 1)

    def sometimes(size: int) -> float | None:
        calls[size] += 1
        return None if size == 256 and calls[size] == 3 else measure(size)

    assert find_best_size(sometimes, 4096).batch_size == 256


def test_where_not_even_one_image_fits_nothing_is_tried() -> None:
    assert find_best_size(CURVES["flat"], 0) == Best(None, "there is no batch size from 1 to 0")
    assert find_best_size(CURVES["at the last"], 7, smallest=5).batch_size == 7


def test_without_any_figure_there_is_no_answer_and_a_reason() -> None:
    answer = find_best_size(lambda size: None, 64)
    assert answer.batch_size is None and answer.reason == "none of 7 trials gave a figure"
    assert not answer.points and not answer.ratios and answer.trials == 7


@pytest.mark.parametrize("figure", [0.0, -1.0, math.nan, math.inf])
def test_a_figure_that_is_none_is_refused(figure: float) -> None:
    with pytest.raises(ValueError, match="batch size 1: a figure of"):
        find_best_size(lambda size: figure, 64)


def test_what_noise_hides_is_said_and_costs_few_trials() -> None:
    answer = find_best_size(noisy(CURVES["flat"], 0.07, 1), 4096)
    assert answer.batch_size is not None and answer.reason is not None
    assert "not significantly different" in answer.reason
    assert answer.trials < 13 * (1 + LIMIT) / 2, "it ends where more blocks would not help"


def test_a_smaller_size_at_the_edge_of_two_percent_is_named() -> None:
    answer = find_best_size(noisy(lambda size: {256: 980.0, 512: 1000.0}.get(size, 100.0), 0.005, 1), 4096)
    assert answer.batch_size == 512
    assert verdicts(answer)[256] is SizeVerdict.UNCERTAIN
    assert answer.reason is not None and answer.reason.startswith("may be smaller still: 256 has 9")


ZEUS_EPOCH_S = {512: 8.28, 1024: 7.61, 2048: 7.69, 4096: 8.37}


@pytest.mark.parametrize(
    ("figures", "better", "size", "worse"),
    [
        ({size: 50_000 / epoch_s for size, epoch_s in ZEUS_EPOCH_S.items()}, 1, 1024, {512, 4096}),
        ({1: 100.0, 2: 98.0, 4: 97.0}, 1, 1, {4}),
        ({1: 97.0, 2: 98.0, 4: 100.0}, 1, 2, {1}),
        ({8: 3.0}, -1, 8, set()),
    ],
)
def test_single_figures_are_judged_by_the_same_rule_and_marked_as_such(
    figures: Mapping[int, float], better: int, size: int, worse: set[int]
) -> None:
    answer = of_curve(figures, better)  # type: ignore[arg-type]
    assert answer.batch_size == size and answer.reason is not None and "single figures" in answer.reason
    assert {one for one, verdict in verdicts(answer).items() if verdict is SizeVerdict.WORSE} == worse
    assert all(ratio.low is None and ratio.pairs == 1 for ratio in answer.ratios)
    assert of_curve({}) == Best(None, "there are no figures")


@for_each("top, falls_to", [(64, 0.5), (256, 0.2), (96, 0.5), (192, 0.1)])
def test_a_size_between_powers_of_two_is_found_where_the_figure_falls_beyond_it(top: int, falls_to: float) -> None:
    def cliff(size: int) -> float:
        return 1000 * math.pow(min(size, top) / top, 0.2) * (1.0 if size <= top else falls_to)

    answer = find_best_size(noisy(cliff, 0.002, 1), 4096)
    assert answer.batch_size == top
    between = {point.batch_size for point in answer.points} - set(SIZES)
    assert between == {96 if top < 128 else 192 if top == 192 else 384}, "only next to the cliff"


def test_no_size_between_powers_of_two_is_tried_on_a_smooth_curve() -> None:
    answer = find_best_size(CURVES["broad"], 4096)
    assert {point.batch_size for point in answer.points} <= set(SIZES)
