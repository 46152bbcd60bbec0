"""Simulate how often `python -m reports compare --fail-on-regression 5%` errs, and what it finds.

Repeats are made up. The draws go through the functions that the command uses: `shift_runs`, `shift_ratio` and
`shift_points`, `cell_tests.evaluate_pairs`, `gate.rule`. A value is that of one run, unless `Replicate` says
otherwise. By hand: `python tests/benchmarks/simulate_verdicts.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from stored import BATCH_SIZES, VERSIONS

from reports.comparing import cell_tests, gate
from reports.comparing.cell_tests import QUANTITIES, AnyTest, CellTest, MeanTest, Replicate
from reports.quantities import Quantity
from workloads.shifts import shift_points, shift_ratio, shift_runs
from workloads.statistics import Verdict, accuracy_step

SPEED, MEMORY, ACCURACY, *_ = QUANTITIES
# {framework, batch size, quantity: values of A, values of B}
Draws = dict[tuple[str, int, Quantity], tuple[list[float], list[float]]]
PLACES = tuple((framework, size) for framework in VERSIONS for size in BATCH_SIZES)
TOLERATED_PERCENT = 5.0
MEMORY_SPREAD, ACCURACY_SPREAD_POINTS, TEST_IMAGES = 0.01, 1.0, 360


@dataclass(frozen=True)
class Truth:
    """The true difference between two sides. `speed_loss` and `memory_change` per cell are shares of A. `noise`
    multiplies the spread of a batch size, `noise_b` that of side B. `drift`: how far whole runs lie apart, the standard
    deviation of a run's logarithm."""

    name: str
    speed_loss: Mapping[tuple[str, int], float] = field(default_factory=dict)
    memory_change: float = 0.0
    noise: Mapping[int, float] = field(default_factory=dict)
    noise_b: float = 1.0
    drift: float = 0.0


def lost(share: float, everywhere: bool) -> Truth:
    """PyTorch slower by that share, at all batch sizes or at 64 alone."""
    places = [("pytorch", size) for size in (BATCH_SIZES if everywhere else (64,))]
    where = "all PyTorch cells" if everywhere else "one cell"
    return Truth(f"{100 * share:g} % slower, {where}", dict.fromkeys(places, share))


NOTHING = Truth("nothing changed")
MEMORY_ONLY = Truth("memory 20 % lower", memory_change=-0.2)
LOSSES = tuple(lost(share, everywhere) for everywhere in (True, False) for share in (0.05, 0.15, 0.30))
TRUTHS = (NOTHING, MEMORY_ONLY, *LOSSES)
DRIFTS = tuple(Truth(f"drift {100 * drift:g} %", drift=drift) for drift in (0.0, 0.02, 0.05, 0.10))
ONE_CELL_LOST = tuple(
    replace(lost(0.15, everywhere=False), name=f"15 % lost in one cell, drift {100 * drift:g} %", drift=drift)
    for drift in (0.0, 0.02, 0.05)
)
UNLIKE = (
    Truth("batch size 4 three times as noisy", noise={4: 3.0}),
    Truth("noise from three times to a third over the batch sizes",
          noise=dict(zip(BATCH_SIZES, np.geomspace(3, 1 / 3, len(BATCH_SIZES)), strict=True))),
    Truth("B twice as noisy as A", noise_b=2.0),
)  # fmt: skip


def draw(
    truth: Truth, repeats: int, spread: float, drawn: np.random.Generator, replicate: Replicate = Replicate.RUNS
) -> Draws:
    """Draw speed, memory and accuracy of every framework and batch size, on both sides.

    Each run has a drift. It is the same in all repeats of one run, and the same on both sides for pairs in turn.
    """
    made: Draws = {}
    drift_a, drift_b = drawn.normal(0, truth.drift, (2, 1 if replicate is Replicate.ONE_RUN else repeats))
    if replicate is Replicate.REPEATS:
        drift_b = drift_a
    for framework, size in PLACES:
        noise = spread * truth.noise.get(size, 1.0)
        speed = 1000 * (1 - truth.speed_loss.get((framework, size), 0.0))
        a = (1000 * np.exp(drift_a + drawn.normal(0, noise, repeats))).tolist()
        b = (speed * np.exp(drift_b + drawn.normal(0, noise * truth.noise_b, repeats))).tolist()
        made[framework, size, SPEED] = a, b
        a = (500 * np.exp(drawn.normal(0, MEMORY_SPREAD, repeats))).tolist()
        b = (500 * (1 + truth.memory_change) * np.exp(drawn.normal(0, MEMORY_SPREAD, repeats))).tolist()
        made[framework, size, MEMORY] = a, b
        base = drawn.normal(90, 2, repeats)  # the seed's effect on both sides
        made[framework, size, ACCURACY] = accuracies(base, drawn), accuracies(base, drawn)
    return made


def cell(place: tuple[str, int, Quantity], a: list[float], b: list[float], replicate: Replicate) -> CellTest:
    """Compare a cell as the command does: several runs, two columns of one run in turn (REPEATS), or one run."""
    framework, size, quantity = place
    if quantity is ACCURACY:
        spread = shift_points(a, b, True, accuracy_step("digits"))
    elif replicate is Replicate.RUNS:
        spread = shift_runs(*({run: [value] for run, value in enumerate(side)} for side in (a, b)))
    else:
        spread = shift_ratio(a, b, paired=replicate is Replicate.REPEATS)
    kind = replicate if quantity is SPEED or replicate is Replicate.RUNS else Replicate.REPEATS
    return replace(cell_tests.build_cell_test((framework, size), framework, quantity, a, b, spread), replicate=kind)


def judged(draws: Draws, replicate: Replicate = Replicate.RUNS) -> list[AnyTest]:
    (tests,) = cell_tests.evaluate_pairs([[cell(place, a, b, replicate) for place, (a, b) in draws.items()]])
    return tests


def accuracies(base: NDArray[np.float64], drawn: np.random.Generator) -> list[float]:
    """Accuracies in percent of TEST_IMAGES; two such sides differ by ACCURACY_SPREAD_POINTS."""
    step = 100 / TEST_IMAGES
    noisy = base + drawn.normal(0, ACCURACY_SPREAD_POINTS / math.sqrt(2), base.shape)
    percents: list[float] = (step * np.round(noisy / step)).tolist()
    return percents


@dataclass(frozen=True)
class Rates:
    """Percent of the runs with each exit code, with exit 0 under --every-cell (for a truth without a loss; else 0), and
    with a speed that is falsely called worse."""

    passed: float
    regression: float
    cannot_be_told: float
    passed_every_cell: float
    false_speed: float
    runs: int

    @property
    def text(self) -> str:
        return f"{self.passed:.0f} / {self.regression:.0f} / {self.cannot_be_told:.0f}"


def rates(
    truth: Truth, repeats: int, spread: float, runs: int, seed: int, replicate: Replicate = Replicate.RUNS
) -> Rates:
    drawn = np.random.default_rng((seed, repeats, round(1000 * spread), len(truth.speed_loss)))
    ended: Counter[int] = Counter()
    strict = false = 0
    for _ in range(runs):
        tests = judged(draw(truth, repeats, spread, drawn, replicate), replicate)
        ended[gate.rule(tests, TOLERATED_PERCENT, False, ()).outcome] += 1
        if not truth.speed_loss:
            strict += gate.rule(tests, TOLERATED_PERCENT, True, ()).outcome is gate.ExitCode.PASSED
        false += falsely_worse(tests, truth)
    passed, regression, cannot_be_told = (100 * ended[code] / runs for code in gate.ExitCode)
    return Rates(passed, regression, cannot_be_told, 100 * strict / runs, 100 * false / runs, runs)


def falsely_worse(tests: Sequence[AnyTest], truth: Truth) -> bool:
    """True if a speed that did not change is called worse, in a cell or in a mean."""
    changed = {framework for framework, _ in truth.speed_loss}

    def is_changed(test: AnyTest) -> bool:
        if isinstance(test, MeanTest):
            return test.framework in changed
        return (test.framework, test.batch_size) in truth.speed_loss

    worse = [test for test in tests if test.verdict is Verdict.WORSE and test.quantity is SPEED]
    return not all(map(is_changed, worse))


def smallest_losses(repeats: int, spread: float, runs: int, seed: int) -> tuple[float, float]:
    """The smallest loss of speed that is said to be found in 80 % of comparisons, in percent, as a mean over the runs.
    Returns that of a framework's mean over its batch sizes, and that of a single cell."""
    drawn = np.random.default_rng((seed, repeats, round(1000 * spread)))
    of_means: list[float] = []
    of_cells: list[float] = []
    for _ in range(runs):
        for test in judged(draw(NOTHING, repeats, spread, drawn)):
            if test.quantity is SPEED:
                (of_means if isinstance(test, MeanTest) else of_cells).append(test.smallest_percent)
    return float(np.mean(of_means)), float(np.mean(of_cells))


def found_percent(loss: float, repeats: int, spread: float, runs: int, seed: int) -> float:
    """How often, in percent, a loss of speed in the cell of PyTorch at 64 alone is called worse."""
    truth = Truth("one cell", {("pytorch", 64): loss})
    drawn = np.random.default_rng((seed, repeats, round(1000 * spread)))
    detected = 0
    for _ in range(runs):
        (cell,) = (
            test
            for test in judged(draw(truth, repeats, spread, drawn))
            if isinstance(test, CellTest) and (test.framework, test.batch_size, test.quantity) == ("pytorch", 64, SPEED)
        )
        detected += cell.verdict is Verdict.WORSE
    return 100 * detected / runs
