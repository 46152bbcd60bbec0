"""Make the tables of docs/evidence/batch-size.md: how often the answers to "which batch size?" err.

    python tests/benchmarks/simulate_batch_size.py [--runs 200] [--seed 1] [--write docs/evidence/batch-size.md]

Made-up trials with a known truth go through the functions of the command. It takes some five minutes of one core.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import simulate_verdicts
from conftest import make_spec

from runner.batch_size.best import TOLERATED, find_best_size
from workloads.records.batch_answers import Holds, SizeVerdict
from workloads.records.result import Epoch, TrialResult
from workloads.records.status import Status
from workloads.trainings import LEAST_SPEED_UP, TOLERATED_LOSS, least, trained

LARGEST = 4096
SIZES = [1 << power for power in range(13)]
NOISES_PERCENT = (0.5, 1, 2, 3.5, 7)

Curve = Callable[[int], float]


def _peaked(centre: float, width: float) -> Curve:
    return lambda size: math.exp(-(((math.log2(size) - centre) / width) ** 2))


def _jagged(size: int) -> float:
    return _peaked(7.5, 8)(size) * (1.0 if size.bit_length() % 2 else 0.94)


CURVES: dict[str, Curve] = {
    "peaked": _peaked(7.4, 5),
    "broad": _peaked(7.3, 8),
    "saturating": lambda size: size / (size + 16),
    "plateau from 256 on": lambda size: min(1.0, size / 200),
    "jagged by 6 %": _jagged,
    "3 % below at half the size": lambda size: 1.0 if size >= 512 else 0.97 if size == 256 else 0.6,
    "exactly 2 % below at half the size": lambda size: 1.0 if size >= 512 else 0.98 if size == 256 else 0.6,
    "1 % below at half the size": lambda size: 1.0 if size >= 512 else 0.99 if size == 256 else 0.6,
}


@dataclass(frozen=True)
class Trouble:
    """Disturbances of a machine other than noise: outliers are slower by 10 to 30 %; everything slows down by `drift`
    per trial."""

    name: str
    small_times: float = 1.0  # the noise of batch sizes up to 64
    outliers: float = 0.0  # share of the trials
    drift: float = 0.0


CALM = Trouble("")
TROUBLES = (
    Trouble("sizes up to 64 three times as noisy", small_times=3),
    Trouble("one trial in ten slower by 10 to 30 %", outliers=0.1),
    Trouble("slower by 0.1 % with every trial", drift=0.001),
)


@dataclass(frozen=True)
class BestRates:
    """Percent of the searches, and numbers of trials. `stated`: without a doubt in the reason. `wrong`: stated, and
    slower than the tolerance allows, or larger than needed. `false_worse`: any size within the tolerance is called
    worse. `right`: the answer is the correct one, stated or not."""

    stated: float
    wrong: float
    false_worse: float
    right: float
    trials: float
    most_trials: float  # 95 % of the searches take no more


def best_rates(curve: Curve, noise: float, runs: int, seed: int, trouble: Trouble = CALM) -> BestRates:
    drawn = np.random.default_rng((seed, round(1e4 * noise)))
    fit = [size for size in SIZES if curve(size) >= (1 - TOLERATED) * max(map(curve, SIZES)) - 1e-12]
    stated = wrong = false = right = 0
    trials = []
    for run in range(runs):
        count = [0]

        def measure(size: int, count: list[int] = count) -> float:
            count[0] += 1
            spread = noise * (trouble.small_times if size <= 64 else 1)
            slower = float(drawn.uniform(0.1, 0.3)) if drawn.random() < trouble.outliers else 0.0
            return (
                1000 * curve(size) * math.exp(float(drawn.normal(0, spread)) - trouble.drift * count[0]) * (1 - slower)
            )

        answer = find_best_size(measure, LARGEST, seed=run)
        is_right = answer.batch_size == fit[0]
        stated += answer.reason is None
        wrong += answer.reason is None and not is_right
        right += is_right
        false += any(each.verdict is SizeVerdict.WORSE and each.batch_size in fit for each in answer.ratios)
        trials.append(answer.trials)
    return BestRates(
        100 * stated / runs, 100 * wrong / runs, 100 * false / runs, 100 * right / runs,
        statistics.median(trials), float(np.quantile(trials, 0.95)),
    )  # fmt: skip


@dataclass(frozen=True)
class ClaimRates:
    """Percent of the verdicts."""

    holds: float
    does_not: float


def claim_rates(speed_up: float, loss: float, repeats: int, noise: float, runs: int, seed: int) -> ClaimRates:
    """Simulate claims. Times of epochs spread by `noise`, the change of accuracy from repeat to repeat by one point."""
    drawn = np.random.default_rng((seed, repeats, round(100 * speed_up), round(1000 * loss), round(1e4 * noise)))
    specs = {size: [make_spec(batch_size=size, repeat=r, seed=r) for r in range(repeats)] for size in (64, 512)}
    verdicts = []
    for _ in range(runs):
        results = []
        for repeat in range(repeats):
            accuracy = 0.7 + drawn.normal(0, 0.01)
            for size, epoch_s, level in (
                (64, 30.0, accuracy),
                (512, 30 / speed_up, accuracy - loss + drawn.normal(0, 0.01)),
            ):
                epoch = Epoch(epoch_s * math.exp(drawn.normal(0, noise)), 1, 1, 1.0, 1.0, 1.0, float(level))
                results.append(TrialResult(specs[size][repeat], Status.OK, None, "", 1.0, epochs=[epoch]))
        verdicts.append(trained(results, 64, 512).verdict)
    return ClaimRates(*(100 * verdicts.count(verdict) / runs for verdict in (Holds.HOLDS, Holds.DOES_NOT)))


def target_rates(lead: float, repeats: int, noise: float, runs: int, seed: int) -> tuple[float, float]:
    """Percent of the answers that state a wrong batch size as soonest, and the correct one. One of five sizes is sooner
    by that share, none where it is 0. The part shared by a repeat's sizes is as large as the noise."""
    drawn = np.random.default_rng((seed, repeats, round(1000 * noise), round(100 * lead)))
    wrong = right = 0
    for _ in range(runs):
        shared = np.exp(drawn.normal(0, noise, repeats))
        own = np.exp(drawn.normal(0, noise, (5, repeats)))
        costs = {
            size: dict(enumerate((shared * own[place] * (1 - lead * (place == 2))).tolist()))
            for place, size in enumerate((32, 64, 128, 256, 512))
        }
        answer, reason = least(costs, 5 * repeats)
        good = lead > 0 and answer == 128
        right += reason is None and good
        wrong += reason is None and not good
    return 100 * wrong / runs, 100 * right / runs


def _row(name: str, rates: BestRates) -> list[str]:
    numbers = (rates.stated, rates.wrong, rates.false_worse, rates.right)
    return [name, *(f"{number:.1f}" for number in numbers), f"{rates.trials:.0f}", f"{rates.most_trials:.0f}"]


BEST_HEAD = ("stated", "stated and wrong", "a size falsely worse", "answer right", "trials", "95 % within")


def best_table(runs: int, seed: int) -> str:
    rows = []
    for name, curve in CURVES.items():
        for noise in NOISES_PERCENT:
            rows.append(_row(f"{name}, {noise:g} %", best_rates(curve, noise / 100, runs, seed)))
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    return simulate_verdicts.table(["curve, noise", *BEST_HEAD], rows)


def trouble_table(runs: int, seed: int) -> str:
    rows = [
        _row(f"{trouble.name}; {name}", best_rates(CURVES[name], 0.01, runs, seed, trouble))
        for trouble in TROUBLES
        for name in ("peaked", "plateau from 256 on", "3 % below at half the size")
    ]
    return simulate_verdicts.table(["noise 1 %, and", *BEST_HEAD], rows)


def claim_table(runs: int, seed: int) -> str:
    cases = (
        (LEAST_SPEED_UP, 0.0),
        (3.5, TOLERATED_LOSS),
        (LEAST_SPEED_UP, TOLERATED_LOSS),
        (3.5, 0.0),
        (2.5, 0.0),
        (3.5, 0.03),
    )
    rows = []
    for repeats in (3, 5, 10):
        for noise in (0.03, 0.07):
            rates = [claim_rates(*case, repeats, noise, runs, seed) for case in cases]
            rows.append([f"{repeats}, {100 * noise:g} %", *(f"{one.holds:.1f} / {one.does_not:.1f}" for one in rates)])
    return simulate_verdicts.table(["repeats, spread", *(f"{s:g} times, {100 * p:g} points" for s, p in cases)], rows)


def target_table(runs: int, seed: int) -> str:
    rows = []
    for repeats in (3, 5, 10):
        for noise in (0.03, 0.07, 0.15):
            rates = [target_rates(lead, repeats, noise, 4 * runs, seed) for lead in (0, 0.15, 0.3)]
            rows.append([f"{repeats}, {100 * noise:g} %", f"{rates[0][0]:.1f}", *(f"{r:.1f}" for _, r in rates[1:])])
    head = ["repeats, spread", "no difference: one is stated", "15 % sooner: stated", "30 % sooner: stated"]
    return simulate_verdicts.table(head, rows)


TABLES: simulate_verdicts.Tables = {
    "best": best_table,
    "trouble": trouble_table,
    "target": target_table,
    "claim": claim_table,
}

if __name__ == "__main__":
    simulate_verdicts.main(TABLES, str(__doc__))
