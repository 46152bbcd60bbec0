"""Simulate how often parity, an order and a stable cell are stated in error: made-up repeats, real verdicts.

By hand: `python tests/benchmarks/simulate_verdicts.py`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from conftest import make_spec
from simulate_compare import TEST_IMAGES, accuracies
from stored import BATCH_SIZES, VERSIONS

from reports import parity
from reports.order import borrow_spread, find_extreme, read_point
from runner import stable
from workloads.records.figures import Figure
from workloads.records.job import Draw, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.statistics import LEAST_SPREAD, Described, accuracy_step, describe

LAST = tuple(VERSIONS)[-1]  # the framework that differs where any does


@dataclass(frozen=True)
class Parity:
    """Percent of the reports that call any pair not comparable that does not differ. Percent of the pairs that differ,
    and of those that do not, that are called so. Percent of all pairs that agree."""

    false_reports: float
    false_pairs: float
    true_pairs: float
    agree: float


def parity_rates(points_apart: float, repeats: int, runs: int, seed: int) -> Parity:
    """Simulate reports of three frameworks at nine batch sizes; one of them is so many points below the others."""
    drawn = np.random.default_rng((seed, repeats, round(10 * points_apart)))
    frameworks, step = tuple(VERSIONS), accuracy_step("digits")
    assert step == 100 / TEST_IMAGES
    reports = false = true = agree = apart = alike = 0
    for _ in range(runs):
        cells, differs = [], []
        for _ in BATCH_SIZES:
            base = drawn.normal(85, 2, repeats)
            of = {name: accuracies(base - (points_apart if name == LAST else 0), drawn) for name in frameworks}
            for place, a in enumerate(frameworks):
                for b in frameworks[place + 1 :]:
                    cells.append(parity.compute_difference([x - y for x, y in zip(of[a], of[b], strict=True)], step))
                    differs.append(LAST in (a, b) and points_apart > 0)
        verdicts = parity.decide_verdicts(cells)
        wrong = sum(v == parity.NOT_COMPARABLE and not d for v, d in zip(verdicts, differs, strict=True))
        true += sum(v == parity.NOT_COMPARABLE and d for v, d in zip(verdicts, differs, strict=True))
        reports += wrong > 0
        false += wrong
        apart += sum(differs)
        alike += len(differs) - sum(differs)
        agree += verdicts.count(parity.AGREE)
    named = 100 * true / apart if apart else math.nan
    return Parity(100 * reports / runs, 100 * false / alike, named, 100 * agree / (apart + alike))


@dataclass(frozen=True)
class Orders:
    """Percent of the reports that name a wrong framework as the fastest at any batch size, as a statement or as that of
    this run. Percent of the batch sizes at which the correct one is named, in either way."""

    wrong_stated: float
    wrong_seen: float
    right: float


def order_rates(lead: float, repeats: int, noise: float, runs: int, seed: int, known: int = 0) -> Orders:
    """Simulate reports of three frameworks at nine batch sizes; one is faster by that share, none where it is 0.

    `known` further cells with three repeats each give the spread that single repeats are compared with.
    """
    drawn = np.random.default_rng((seed, repeats, round(1000 * noise), round(100 * lead)))
    stated = seen = right = 0
    for _ in range(runs):
        wrong_stated = wrong_seen = False
        others = {f"repeated {number}": _cell(1000, noise, 3, drawn) for number in range(known)}
        for _ in BATCH_SIZES:
            cells = {name: _cell(1000 * (1 + lead * (name == LAST)), noise, repeats, drawn) for name in VERSIONS}
            points = {name: read_point(cell, LEAST_SPREAD * cell.mean) for name, cell in cells.items()}
            fastest = find_extreme(borrow_spread(points, cells | others, LEAST_SPREAD, False))
            named = fastest.stated or fastest.seen
            good = named and lead > 0 and fastest.name == LAST
            right += good
            wrong_stated |= fastest.stated and not good
            wrong_seen |= fastest.seen and not good
        stated += wrong_stated
        seen += wrong_seen
    return Orders(100 * stated / runs, 100 * seen / runs, 100 * right / (runs * len(BATCH_SIZES)))


def _cell(mean: float, noise: float, repeats: int, drawn: np.random.Generator) -> Described:
    """Numbers of a cell that an order needs."""
    return describe((mean * np.exp(drawn.normal(0, noise, repeats))).tolist())


@dataclass(frozen=True)
class Stable:
    """Percent of cells that end as stable. Percent of these whose interval holds the true mean, NaN if fewer than
    FEWEST_STABLE are stable. Number of stable cells."""

    stable: float
    covered: float
    count: int


FEWEST_STABLE = 20


@dataclass(frozen=True)
class Shared:
    """Conditions that the cells of a run share."""

    cells: int = 1
    correlation: float = 0.0  # between the machine's effects on a trial and on the next one, whatever their cells
    before: bool = False  # True: as the runner did it without rounds and tests for drift


ALONE = Shared()


def stable_rates(noise: float, limit: int, runs: int, seed: int, shared: Shared = ALONE) -> Stable:
    """Simulate cells with a true mean of 1000 images/s, repeated by `stable.follow`."""
    count, before = shared.cells, shared.before
    drawn = np.random.default_rng((seed, round(1000 * noise), limit, round(100 * shared.correlation), count))
    specs = [make_spec(framework="pytorch", batch_size=32 * (number + 1)) for number in range(count)]
    keys = {(spec.cell.framework, spec.cell.batch_size) for spec in specs}
    ended = held = 0
    with patch.object(stable, "has_drift", return_value=False) if before else nullcontext():
        for _ in range(runs):
            machine = _Machine(specs, noise, shared.correlation, drawn)
            first = range(stable.FEWEST)
            rounds = [first] if before else [range(each, each + 1) for each in first]
            started = [result for repeats in rounds for result in machine.run(repeats, keys)]
            for cell in stable.collect_cells(stable.follow(started, stable.FEWEST, limit, machine.run)):
                if cell.stable:
                    assert cell.reach is not None
                    mean = statistics.fmean(cell.speeds)
                    ended += 1
                    held += abs(mean - 1000) <= cell.reach * mean
    return Stable(100 * ended / (runs * count), 100 * held / ended if ended >= FEWEST_STABLE else math.nan, ended)


class _Machine:
    """A machine in one run: its effect on a trial depends on its effect on the trial before."""

    def __init__(
        self, specs: Sequence[TrialSpec], noise: float, correlation: float, drawn: np.random.Generator
    ) -> None:
        self.specs, self.noise, self.correlation, self.drawn = specs, noise, correlation, drawn
        self.state, self.trials = float(drawn.normal()), 0

    def run(self, repeats: range, keys: Collection[stable.Key]) -> list[TrialResult]:
        """Run one round, or several that are shuffled together."""
        cells = [(repeat, spec) for repeat in repeats for spec in self.specs]
        results = []
        for place in self.drawn.permutation(len(cells)):
            repeat, spec = cells[place]
            if (spec.cell.framework, spec.cell.batch_size) in keys:
                speed = Figure(1000 * (1 + self.noise * self.state), "drawn")
                fresh = math.sqrt(1 - self.correlation**2) * float(self.drawn.normal())
                self.state, self.trials = self.correlation * self.state + fresh, self.trials + 1
                named, began = {"images_per_s": speed}, f"{self.trials:06d}"
                results.append(TrialResult(_Repeat(spec, repeat), Status.OK, None, began, 1.0, figures=named))  # type: ignore[arg-type]  # two fields of a spec will do
        return results


class _Repeat:
    """A spec with a new id and draw only: to make and hash a whole one takes longer than a run."""

    def __init__(self, spec: TrialSpec, repeat: int) -> None:
        self._spec, self.cell, self.draw = spec, spec.cell, Draw(repeat, 0)
        self.id = f"{spec.cell.batch_size}-{repeat}"

    def __getattr__(self, name: str) -> object:
        return getattr(self._spec, name)
