"""The estimators of the gradient noise scale, on gradients with known noise and on the referee's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from adapters.numpy.adapter import Adapter
from adapters.worker.noise_steps import norms_of
from runner.batch_size.noise import Measured, apart, finder, point, pooled
from workloads import weights
from workloads.catalogue import TINY
from workloads.datasets import DATASETS, load
from workloads.noise_scale import PARTS, PROGRESS, SMALL_BATCH, STEPS, WINDOW, Norms, draw, estimates, updates_before
from workloads.spec import OptimizerSpec

Array = NDArray[np.float64]
LARGE_BATCH = PARTS * SMALL_BATCH
DIMENSIONS = 30
SPECTRUM = 1 / np.arange(1, DIMENSIONS + 1)  # the noise's, which is no sphere in a network either


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def measured(noise_scale: float, seed: int, steps: int = STEPS) -> Measured:
    """Norms of gradients with |G|^2 = 1 and S = `noise_scale`."""
    deviations = np.sqrt(noise_scale * SPECTRUM / SPECTRUM.sum() / SMALL_BATCH)
    gradients = generator(seed).standard_normal((steps, PARTS, DIMENSIONS)) * deviations + DIMENSIONS**-0.5
    return Measured(0.5, (gradients**2).sum(-1), (gradients.mean(1) ** 2).sum(-1), SMALL_BATCH, LARGE_BATCH)


def stated(small: Array, large: Array) -> Measured:
    return Measured(0.0, small, large, SMALL_BATCH, LARGE_BATCH)


def test_two_batch_sizes_are_the_form_by_single_examples_where_they_are_one_and_all() -> None:
    gradients = generator().standard_normal((40, 7)) + 0.1
    mean = gradients.mean(axis=0)
    trace = ((gradients - mean) ** 2).sum() / 39
    small, large = (gradients**2).sum(axis=1).mean(), (mean**2).sum()
    assert estimates(small, large, 1, 40) == pytest.approx(((mean**2).sum() - trace / 40, trace), rel=1e-12)


@pytest.mark.parametrize(("small_batch", "large_batch"), [(1, 2), (16, 128), (64, 1280)])
def test_both_estimates_are_those_that_the_expected_norms_were_made_of(small_batch: int, large_batch: int) -> None:
    small, large = (3.0 + 500.0 / size for size in (small_batch, large_batch))
    assert estimates(small, large, small_batch, large_batch) == pytest.approx((3.0, 500.0), rel=1e-12)


@pytest.mark.parametrize("noise_scale", [10.0, 1000.0])
def test_estimates_of_gradients_with_known_noise_are_unbiased_within_the_error_of_the_simulation(
    noise_scale: float,
) -> None:
    many = measured(noise_scale, seed=1, steps=20_000)
    each = estimates(many.small.mean(axis=1), many.large, SMALL_BATCH, LARGE_BATCH)
    for values, truth in zip(each, (1.0, noise_scale), strict=True):
        assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(len(values))


def test_norms_that_are_streamed_are_those_of_the_gradients_and_of_their_mean() -> None:
    gradients = [{"a/kernel": g, "a/bias": g[0]} for g in generator().standard_normal((5, 3, 2)).astype(np.float32)]
    norms = Norms()
    for each in gradients:
        norms.add(each)
    flat = np.array([np.concatenate([each["a/kernel"].ravel(), each["a/bias"]]) for each in gradients], np.float64)
    assert norms.small == pytest.approx((flat**2).sum(axis=1), rel=1e-12)
    assert norms.large == pytest.approx((flat.mean(axis=0) ** 2).sum(), rel=1e-12)


def test_what_is_drawn_of_a_split_tells_its_own_gradient_and_noise(tmp_path: Path) -> None:
    """The truth is the referee's gradient of every single image, in float64; with replacement it is that of any
    split."""
    train, _ = load(DATASETS["digits-64"], tmp_path, TINY.input_shape)
    adapter = Adapter("float64")
    adapter.build(TINY, OptimizerSpec.named("sgd"), weights.draw(TINY, 0), 0)
    singles = [adapter.probe(train.images[[n]], train.labels[[n]]).gradients for n in range(len(train.labels))]
    flat = np.array([np.concatenate([array.ravel() for array in each.values()]) for each in singles])
    trace = ((flat - flat.mean(axis=0)) ** 2).sum() / len(flat)
    norms = [norms_of(adapter, train.images, train.labels, step) for step in draw(len(flat), seed=0)[0]]
    small, large = np.array([each.small for each in norms]), np.array([each.large for each in norms])
    each = estimates(small.mean(axis=1), large, SMALL_BATCH, LARGE_BATCH)
    for values, truth in zip(each, ((flat.mean(axis=0) ** 2).sum(), trace), strict=True):
        assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(STEPS)
        assert values.std() / np.sqrt(STEPS) < 0.2 * truth, "the test tells something"


@pytest.mark.parametrize("noise_scale", [30.0, 300.0])
def test_the_interval_holds_the_noise_scale_about_as_often_as_it_says(
    noise_scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured, 600 draws: 94 %; by chance 100 draws are below 86 % once in a hundred times."""
    monkeypatch.setattr("workloads.statistics.RESAMPLES", 499)
    points = [point(measured(noise_scale, seed)) for seed in range(100)]
    held = [each.low <= noise_scale <= each.high for each in points if each.low is not None and each.high is not None]
    assert len(held) >= 95, "at so much noise |G|^2 is not lost"
    assert np.mean(held) >= 0.86


def test_a_noise_scale_is_the_ratio_of_means_within_its_interval_and_the_same_when_asked_again() -> None:
    each = measured(100.0, seed=3)
    squared_gradient, trace = estimates(each.small.mean(), each.large.mean(), SMALL_BATCH, LARGE_BATCH)
    answer = point(each)
    assert (answer.squared_gradient, answer.trace) == pytest.approx((squared_gradient, trace), rel=1e-12)
    assert answer.noise_scale == pytest.approx(trace / squared_gradient, rel=1e-12)
    assert answer.low is not None and answer.high is not None and answer.noise_scale is not None
    assert answer.low < answer.noise_scale < answer.high and answer.at_least is None
    assert (answer.steps, answer.small_batch, answer.large_batch, answer.progress) == (STEPS, 16, 128, 0.5)
    assert point(each) == answer


def test_a_gradient_that_is_lost_in_the_noise_gives_no_number_but_more_than_one_that_holds() -> None:
    """The true noise scale is 300 large batches."""
    truth = 300.0 * LARGE_BATCH
    points = [point(measured(truth, seed)) for seed in range(40)]
    lost = [each for each in points if each.noise_scale is None]
    assert len(lost) >= 34 and any(each.squared_gradient < 0 for each in lost)
    assert all((each.low, each.high) == (None, None) for each in lost)
    bounds = np.array([each.at_least for each in lost], float)
    assert (bounds >= LARGE_BATCH).all() and np.mean(bounds <= truth) >= 0.9


def test_what_gives_no_number_says_so() -> None:
    # a gradient that is surely negative says more than the large batch
    small = 1 + 0.01 * generator().standard_normal((STEPS, PARTS))
    answer = point(stated(small, small.mean(axis=1) / 10))  # the mean of eight independent ones is an eighth
    assert answer.squared_gradient < 0
    assert (answer.noise_scale, answer.at_least) == (None, LARGE_BATCH)
    # without noise the noise scale is 0 and without any gradient it is unknown
    none = point(stated(np.ones((STEPS, PARTS)), np.ones(STEPS)))
    assert (none.noise_scale, none.low, none.high, none.at_least) == (0.0, None, None, None)
    dead = point(stated(np.zeros((STEPS, PARTS)), np.zeros(STEPS)))
    assert (dead.noise_scale, dead.low, dead.high, dead.at_least) == (None, None, None, None)
    # steps that do not differ give no interval and so no number
    answer = point(stated(np.full((STEPS, PARTS), 2.0), np.ones(STEPS)))
    assert (answer.noise_scale, answer.low, answer.high, answer.at_least) == (None, None, None, None)
    # a point without numbers is known as such
    each = measured(10.0, 1)
    assert each.finite
    assert not replace(each, large=np.full(STEPS, np.nan)).finite
    assert not replace(each, small=np.full((STEPS, PARTS), np.inf)).finite


def test_pooled_points_average_gradient_and_noise_apart() -> None:
    points = [measured(20.0, 1), replace(measured(2000.0, 2), progress=1.0)]
    whole = pooled(points)
    assert [each.progress for each in whole.points] == [0.5, 1.0]
    traces, squares = ([getattr(each, name) for each in whole.points] for name in ("trace", "squared_gradient"))
    assert whole.noise_scale == pytest.approx(sum(traces) / sum(squares), rel=1e-9)
    assert whole.low is not None and whole.high is not None and whole.noise_scale is not None
    assert whole.low < whole.noise_scale < whole.high
    whole = pooled([measured(1e6, 11), measured(1e6, 12)])
    assert whole.noise_scale is None and whole.at_least is not None and 0 < whole.at_least < 1e6


def test_apart_is_that_of_the_typical_batch_and_of_the_mean_where_they_are_most() -> None:
    base = measured(10.0, 1)
    assert apart([base], [base]) == (0, 0)
    base = replace(base, large=np.full(STEPS, 2.0))
    assert apart([base, replace(base, large=np.full(STEPS, 2.25))], [base, base]) == pytest.approx((0.125, 0.125))
    kink = base.large.copy()
    kink[3] = 3.0
    assert apart([replace(base, large=kink)], [base]) == pytest.approx((0, 1 / 2 / STEPS)), "one batch of many"
    none = replace(base, large=np.zeros(STEPS))
    assert (apart([none], [none]), apart([base], [none])) == ((0, 0), (2, 2))


def published_finder(gradients: Array, batch_size: int) -> list[float]:
    """The noise scale after each window as fastai_bs_finder computes it, from (batches, parameters). It takes means
    over parameters in place of sums, counts averages in batches, and uses the last batch of a window for the small
    one."""
    big, curve, averages = batch_size * WINDOW, [], {"scale": 0.0, "noise": 0.0}
    for iteration in range(len(gradients)):
        if iteration % WINDOW == WINDOW - 1:
            g_big = (gradients[iteration - WINDOW + 1 : iteration + 1].mean(axis=0) ** 2).mean()
            g_small = (gradients[iteration] ** 2).mean()
            new = {
                "noise": (big * g_big - batch_size * g_small) / (big - batch_size),
                "scale": (g_small - g_big) / (1 / batch_size - 1 / big),
            }
            averages = {name: 0.99 * averages[name] + 0.01 * new[name] for name in averages}
            unbiased = {name: average / (1 - 0.99 ** (iteration + 1)) for name, average in averages.items()}
            curve.append(unbiased["scale"] / unbiased["noise"])
    return curve


def test_the_finder_is_the_published_one() -> None:
    gradients = generator().standard_normal((10 * WINDOW, 12)) + np.linspace(2, 1, 10 * WINDOW)[:, None]
    windows = gradients.reshape(10, WINDOW, 12)
    figure, negative = finder((windows**2).sum(-1), (windows.mean(1) ** 2).sum(-1), 64)
    assert figure == pytest.approx(np.mean(published_finder(gradients, 64)), rel=1e-9)
    assert negative == 0


def test_the_finder_counts_its_windows_without_a_gradient_and_has_no_figure_where_they_outweigh() -> None:
    small = np.ones((3, WINDOW))
    assert finder(small, np.array([0.01, 0.5, 0.04]), 64) == (None, 2)
    assert finder(small, np.array([2.0, 2.0, 2.0]), 64) == (None, 0), (
        "the batch is smaller than the mean: S is negative"
    )
    figure, negative = finder(small, np.array([0.5, 0.01, 0.04]), 64)
    assert figure is not None and figure > 0 and negative == 2


def test_weights_are_held_at_the_start_the_end_and_parts_of_all_updates() -> None:
    assert updates_before(100) == [0, 25, 50, 100]
    assert updates_before(1)[0] == 0 and updates_before(1)[-1] == 1


@pytest.mark.parametrize("count", [1, 64, 60_000])
def test_images_are_drawn_from_the_whole_split_anew_for_every_point_and_seed(count: int) -> None:
    drawn = draw(count, 0)
    assert drawn.shape == (len(PROGRESS), STEPS, PARTS, SMALL_BATCH) and drawn.dtype == np.int32
    assert drawn.min() >= 0 and drawn.max() < count
    assert drawn.mean() == pytest.approx((count - 1) / 2, abs=4 * count / np.sqrt(12 * drawn.size))
    assert np.array_equal(drawn, draw(count, 0))
    if count > 1:
        assert not np.array_equal(drawn, draw(count, 1)) and not np.array_equal(drawn[0], drawn[1])
