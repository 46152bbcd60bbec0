"""--fail-on-regression X%: fail, pass, or say that it is uncertain.

A loss is how much worse B is: percent of A, for accuracy percentage points.

REGRESSION: a loss is established (the test of its family excludes chance) and measured at X or more. This may be in a
cell or in a framework's mean over its batch sizes. A cell that did not end as well as in A counts, too.

PASSED: there is no regression, and every one-sided bound of the loss is below X. There is one for each quantity and
framework, over its batch sizes: non-inferiority, each claim at 1 - ERROR. All of them must hold, so their number needs
no correction.

UNCERTAIN: neither, or a side has one run, whose repeats do not show how runs differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from workloads.statistics import POWER, Verdict

from .cell_tests import AnyTest, CellTest, MeanTest, Untested
from .pairing import name_before

MOST_REPEATS = 100  # more are not recommended
SEVERAL_RUNS = (
    "measure both in turn with python -m runner compare A B, or give folders that hold several runs of each side "
    "(a/1, a/2 and b/1, b/2), or compare two columns of one run with --frameworks"
)


class ExitCode(IntEnum):
    """Exit code of the command."""

    PASSED = 0
    REGRESSION = 1
    UNCERTAIN = 2


@dataclass(frozen=True)
class Ruling:
    """Result of the gate: `head` is one sentence; `lines` give the reasons."""

    outcome: ExitCode
    head: str
    lines: tuple[str, ...] = ()


def rule(tests: Sequence[AnyTest], tolerated_percent: float, every_cell: bool, ended_worse: Sequence[str]) -> Ruling:
    """Decide on the tests.

    `every_cell`: the loss must be excluded for each cell, too. `ended_worse`: a line for each cell that did not end as
    well as in A.
    """
    means = [test for test in tests if isinstance(test, MeanTest)]
    cells = [test for test in tests if isinstance(test, CellTest) and test.quantity.better]
    everything: list[AnyTest] = [*means, *cells]
    losses = [test for test in everything if is_loss(test, tolerated_percent)]
    if losses or ended_worse:
        head = f"{len(losses) + len(ended_worse)} worse by {tolerated_percent:g} % or more"
        return Ruling(ExitCode.REGRESSION, head, (*ended_worse, *map(describe_loss, losses)))
    tested = [cell for cell in cells if cell.estimate]
    claimed = [*means, *(tested if every_cell else ())]
    if of_one_run := [test.quantity.name for test in claimed if test.verdict is Untested.ONE_RUN]:
        names = " and ".join(dict.fromkeys(of_one_run))
        return Ruling(ExitCode.UNCERTAIN, f"uncertain: {names}: one run on a side; {SEVERAL_RUNS}")
    open_ = [test for test in claimed if is_open(test, tolerated_percent)]
    untested = [cell for cell in cells if cell.verdict is Untested.NOT_TESTED]
    if open_ or untested or not claimed:
        head = (
            f"uncertain: a loss of {tolerated_percent:g} % is not excluded in {len(open_)} of {len(claimed)} "
            f"values{f'; {len(untested)} values could not be tested' if untested else ''}"
        )
        open_.sort(key=lambda test: test.at_most_percent, reverse=True)
        lines = [describe_open(test, tolerated_percent) for test in open_]
        lines += [f"{_subject(cell)}: {cell.spread.untested}" for cell in untested]
        return Ruling(ExitCode.UNCERTAIN, head, tuple(lines))
    whose = "every cell and every framework's mean" if every_cell else "every framework's mean"
    bounds = _highest(claimed, lambda test: test.at_most_percent)
    head = f"passed: no regression of {tolerated_percent:g} % or more; {say_power(tests, tolerated_percent)}"
    excluded = f"such a loss is excluded for {whose}, {len(claimed)} values; the highest bounds are {bounds}"
    single = "nothing is excluded for a single cell; --every-cell tests each cell, too"
    return Ruling(ExitCode.PASSED, head, (excluded,) if every_cell else (excluded, single))


def find_smallest_losses(tests: Iterable[AnyTest]) -> dict[str, dict[str, AnyTest]]:
    """Find the least sensitive test of each quantity.

    Returns {"single_cell": {quantity: test}, "framework_mean": {...}}.
    """
    judged = [test for test in tests if test.is_judged]
    cells: list[AnyTest] = [test for test in judged if isinstance(test, CellTest)]
    means: list[AnyTest] = [test for test in judged if isinstance(test, MeanTest)]
    return {
        name: {test.quantity.name: test for test in sorted(of_kind, key=lambda test: test.smallest_percent)}
        for name, of_kind in (("single_cell", cells), ("framework_mean", means))
    }


def say_power(tests: Iterable[AnyTest], least_percent: float = 0.0) -> str:
    """Name the smallest loss that would have been found, at least `least_percent`; "" without a test."""
    cells, means = (
        _highest(of_kind.values(), lambda test: max(test.smallest_percent, least_percent))
        for of_kind in find_smallest_losses(tests).values()
    )
    if not cells:
        return ""
    return (
        f"{100 * POWER:g} % of such comparisons would have found a loss in a single cell of {cells}, and in a "
        f"framework's mean of {means}"
    )


def _subject(test: AnyTest) -> str:
    return f"{name_before(test.section)}{test.name}: {test.quantity.name}"


def _change(test: AnyTest) -> str:
    percent = test.loss_percent
    return f"{_subject(test)} {'worse' if percent >= 0 else 'better'} by {abs(percent):.1f} {test.unit}"


def is_loss(test: AnyTest, tolerated_percent: float) -> bool:
    """True if a loss is established, and has this size or more."""
    return test.verdict is Verdict.WORSE and test.loss_percent >= tolerated_percent


def is_open(test: AnyTest, tolerated_percent: float) -> bool:
    """True if such a loss is not excluded. The cell or mean must have been tested."""
    return test.at_most_percent >= tolerated_percent


def describe_loss(test: AnyTest) -> str:
    """Return the line of a test for which `is_loss` holds."""
    low, high = sorted(map(test.percent, test.loss.interval))
    return f"{_change(test)} [{low:.1f}, {high:.1f}] (adjusted p {test.p_worse:.2g})"


def describe_open(test: AnyTest, tolerated_percent: float) -> str:
    """Return the line of a test for which `is_open` holds."""
    tolerated = f"{tolerated_percent:g} {test.unit}"
    needed = test.repeats_needed(tolerated_percent)
    number = f"about {needed}" if needed <= MOST_REPEATS else f"more than {MOST_REPEATS}"
    advice = f"{number} {test.replicate} on both sides would exclude {tolerated}"
    if needed <= test.repeats:  # enough without a loss: what is measured keeps it open, and not their number
        advice = f"the measured loss is too near {tolerated}, or beyond it: more {test.replicate} may not exclude it"
    known = "a loss is established, but not one of this size; " if test.verdict is Verdict.WORSE else ""
    return (
        f"{_change(test)}, {known}the loss may be up to {test.at_most_percent:.1f} {test.unit}; the "
        f"smallest that such {test.replicate} find in {100 * POWER:g} % of comparisons is {test.smallest_percent:.1f} "
        f"{test.unit}; {advice}"
    )


def _highest(tests: Iterable[AnyTest], percent: Callable[[AnyTest], float]) -> str:
    """Format the highest of each quantity: "speed 3.1 %, accuracy 0.8 points"."""
    by_quantity = {test.quantity.name: test for test in sorted(tests, key=percent)}
    return ", ".join(f"{name} {percent(test):.1f} {test.unit}" for name, test in sorted(by_quantity.items()))
