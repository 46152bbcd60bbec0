"""How often `python -m reports compare --fail-on-regression 5%` errs, and what it finds: repeats are made up.

The draws go through the functions that the command uses: `contrast.of_ratio` and `of_points`, `judging.judged`,
`gate.rule`. By hand: `python tests/reports/simulate_verdicts.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from stored import BATCH_SIZES, VERSIONS

from reports.comparing import contrast, gate, judging
from reports.comparing.contrast import MEASURES, Measure, Verdict
from reports.comparing.judging import Compared
from reports.spread import accuracy_step

SPEED, MEMORY, ACCURACY, *_ = MEASURES
# {framework, batch size, measure: values of A, values of B}
Draws = dict[tuple[str, int, Measure], tuple[list[float], list[float]]]
PLACES = tuple((framework, size) for framework in VERSIONS for size in BATCH_SIZES)
TOLERATED_PERCENT = 5.0
MEMORY_SPREAD, ACCURACY_SPREAD_POINTS, TEST_IMAGES = 0.01, 1.0, 360


@dataclass(frozen=True)
class Truth:
    """`speed_loss` and `memory_change` by place, as shares of A; `noise` multiplies the spread of a batch size, and
    `noise_b` that of side B."""

    name: str
    speed_loss: Mapping[tuple[str, int], float] = field(default_factory=dict)
    memory_change: float = 0.0
    noise: Mapping[int, float] = field(default_factory=dict)
    noise_b: float = 1.0


def lost(share: float, everywhere: bool) -> Truth:
    """PyTorch slower by that share, at all batch sizes or at 64 alone."""
    places = [("pytorch", size) for size in (BATCH_SIZES if everywhere else (64,))]
    where = "all PyTorch cells" if everywhere else "one cell"
    return Truth(f"{100 * share:g} % slower, {where}", dict.fromkeys(places, share))


NOTHING = Truth("nothing changed")
MEMORY_ONLY = Truth("memory 20 % lower", memory_change=-0.2)
LOSSES = tuple(lost(share, everywhere) for everywhere in (True, False) for share in (0.05, 0.15, 0.30))
TRUTHS = (NOTHING, MEMORY_ONLY, *LOSSES)
UNLIKE = (
    Truth("batch size 4 three times as noisy", noise={4: 3.0}),
    Truth("noise from three times to a third over the batch sizes",
          noise=dict(zip(BATCH_SIZES, np.geomspace(3, 1 / 3, len(BATCH_SIZES)), strict=True))),
    Truth("B twice as noisy as A", noise_b=2.0),
)  # fmt: skip


def draw(truth: Truth, repeats: int, spread: float, drawn: np.random.Generator) -> Draws:
    """Speed, memory and accuracy of every framework and batch size, on both sides."""
    made: Draws = {}
    for framework, size in PLACES:
        noise = spread * truth.noise.get(size, 1.0)
        speed = 1000 * (1 - truth.speed_loss.get((framework, size), 0.0))
        a = (1000 * np.exp(drawn.normal(0, noise, repeats))).tolist()
        b = (speed * np.exp(drawn.normal(0, noise * truth.noise_b, repeats))).tolist()
        made[framework, size, SPEED] = a, b
        a = (500 * np.exp(drawn.normal(0, MEMORY_SPREAD, repeats))).tolist()
        b = (500 * (1 + truth.memory_change) * np.exp(drawn.normal(0, MEMORY_SPREAD, repeats))).tolist()
        made[framework, size, MEMORY] = a, b
        base = drawn.normal(90, 2, repeats)  # what a seed does to both sides
        made[framework, size, ACCURACY] = accuracies(base, drawn), accuracies(base, drawn)
    return made


def cells(draws: Draws) -> list[Compared]:
    step = accuracy_step("digits")
    return [
        judging.cell(
            framework, size, measure, a, b,
            contrast.of_points(a, b, True, step) if measure.in_points else contrast.of_ratio(a, b),
        )
        for (framework, size, measure), (a, b) in draws.items()
    ]  # fmt: skip


def accuracies(base: NDArray[np.float64], drawn: np.random.Generator) -> list[float]:
    """Percent of TEST_IMAGES; two such sides differ by ACCURACY_SPREAD_POINTS."""
    step = 100 / TEST_IMAGES
    noisy = base + drawn.normal(0, ACCURACY_SPREAD_POINTS / math.sqrt(2), base.shape)
    percents: list[float] = (step * np.round(noisy / step)).tolist()
    return percents


@dataclass(frozen=True)
class Rates:
    """Of the runs, percent: each exit code, exit 0 with --every-cell (of a truth without a loss; else 0), and a speed
    called worse that is not."""

    passed: float
    regression: float
    cannot_be_told: float
    passed_every_cell: float
    false_speed: float
    runs: int

    @property
    def text(self) -> str:
        return f"{self.passed:.0f} / {self.regression:.0f} / {self.cannot_be_told:.0f}"


def rates(truth: Truth, repeats: int, spread: float, runs: int, seed: int) -> Rates:
    drawn = np.random.default_rng((seed, repeats, round(1000 * spread), len(truth.speed_loss)))
    ended: Counter[int] = Counter()
    strict = false = 0
    for _ in range(runs):
        judged = judging.judged([cells(draw(truth, repeats, spread, drawn))])
        ended[gate.rule(judged, TOLERATED_PERCENT, False, ()).outcome] += 1
        if not truth.speed_loss:
            strict += gate.rule(judged, TOLERATED_PERCENT, True, ()).outcome is gate.Outcome.PASSED
        false += falsely_worse(judged, truth)
    passed, regression, cannot_be_told = (100 * ended[code] / runs for code in gate.Outcome)
    return Rates(passed, regression, cannot_be_told, 100 * strict / runs, 100 * false / runs, runs)


def falsely_worse(judged: Sequence[judging.Judged], truth: Truth) -> bool:
    """Whether a speed that did not change is called worse, in a cell or in a mean."""
    changed = {framework for framework, _ in truth.speed_loss}
    return any(
        verdict is Verdict.REGRESSION and measure is SPEED
        for one in judged
        for verdict, measure in (
            *((c.verdict, c.measure) for c in one.cells if (c.framework, c.batch_size) not in truth.speed_loss),
            *((mean.verdict, mean.measure) for mean in one.means if mean.framework not in changed),
        )
    )


def smallest_losses(repeats: int, spread: float, runs: int, seed: int) -> tuple[float, float]:
    """The smallest loss of speed that is said to be found in 80 % of comparisons, percent, mean over the runs: in a
    framework's mean over its batch sizes, and in a single cell."""
    drawn = np.random.default_rng((seed, repeats, round(1000 * spread)))
    of_means, of_cells = [], []
    for _ in range(runs):
        (judged,) = judging.judged([cells(draw(NOTHING, repeats, spread, drawn))])
        of_means += [gate.smallest_percent(mean) for mean in judged.means if mean.measure is SPEED]
        of_cells += [gate.smallest_percent(cell) for cell in judged.cells if cell.measure is SPEED]
    return float(np.mean(of_means)), float(np.mean(of_cells))


def found_percent(loss: float, repeats: int, spread: float, runs: int, seed: int) -> float:
    """How often a loss of speed in the cell of PyTorch at 64 alone is called worse."""
    truth = Truth("one cell", {("pytorch", 64): loss})
    drawn = np.random.default_rng((seed, repeats, round(1000 * spread)))
    detected = 0
    for _ in range(runs):
        (judged,) = judging.judged([cells(draw(truth, repeats, spread, drawn))])
        (cell,) = (
            one for one in judged.cells if (one.framework, one.batch_size, one.measure) == ("pytorch", 64, SPEED)
        )
        detected += cell.verdict is Verdict.REGRESSION
    return 100 * detected / runs
