"""--fail-on-regression X%: fail, pass, or say that it cannot be told.

A loss is what B is worse by: percent of A, of accuracy percentage points. REGRESSION: a loss is established (the test
of its family says that it is not by chance) and it is measured at X or more, in a cell or in a framework's mean over
its batch sizes; or a cell did not end as well as in A. PASSED: no such thing, and of every quantity and framework the
one-sided bound of the loss, over its batch sizes, lies below X: non-inferiority, each claim at 1 - ERROR. All of them
must hold, so that their number needs no correction. CANNOT_BE_TOLD: neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ..order import ERROR
from .contrast import POWER, Estimate, Verdict
from .judging import Compared, Judged, Mean, Tested

MOST_REPEATS = 100  # more are not advised


class Outcome(IntEnum):
    """The exit code."""

    PASSED = 0
    REGRESSION = 1
    CANNOT_BE_TOLD = 2


@dataclass(frozen=True)
class Ruling:
    """`head` is one sentence; `lines` name what it rests on."""

    outcome: Outcome
    head: str
    lines: tuple[str, ...] = ()


def rule(judged: Sequence[Judged], tolerated_percent: float, every_cell: bool, ended_worse: Sequence[str]) -> Ruling:
    """`every_cell`: the loss must be excluded of each cell, too. `ended_worse`: a line for each cell that did not end
    as well as in A.
    """
    means = [item for one in judged for item in one.means]
    cells = [item for one in judged for item in one.cells if item.measure.better]
    everything: list[Tested] = [*means, *cells]
    losses = [item for item in everything if _established(item) and _percent(item) >= tolerated_percent]
    if losses or ended_worse:
        head = f"{len(losses) + len(ended_worse)} worse by {tolerated_percent:g} % or more"
        return Ruling(Outcome.REGRESSION, head, (*ended_worse, *map(_loss, losses)))
    claimed: list[Tested] = [*means, *(cell for cell in cells if every_cell and cell.judgement)]
    open_ = [item for item in claimed if _at_most(item) >= tolerated_percent]
    untested = [cell for cell in cells if cell.verdict is Verdict.NOT_TESTED]
    if open_ or untested or not claimed:
        head = (
            f"cannot be told: a loss of {tolerated_percent:g} % is not excluded in {len(open_)} of {len(claimed)} "
            f"values{f'; {len(untested)} values could not be tested' if untested else ''}"
        )
        lines = [_open(item, tolerated_percent) for item in sorted(open_, key=_at_most, reverse=True)]
        lines += [f"{cell.name}: {cell.measure.quantity.name}: {_why(cell)}" for cell in untested]
        return Ruling(Outcome.CANNOT_BE_TOLD, head, tuple(lines))
    whose = "every cell and every framework's mean" if every_cell else "every framework's mean"
    head = (
        f"passed: of {whose} over its batch sizes, {len(claimed)} values, a loss of {tolerated_percent:g} % is "
        f"excluded; the highest bounds are {_highest(claimed, _at_most)}"
    )
    return Ruling(Outcome.PASSED, head, () if every_cell else (_single_cell(cells, tolerated_percent),))


def _worsening(item: Tested) -> Estimate:
    assert item.judgement is not None  # asked of what was tested alone
    return item.judgement.estimate.worsening(item.measure.better)


def _established(item: Tested) -> bool:
    return item.judgement is not None and item.judgement.worse <= ERROR


def _percent(item: Tested) -> float:
    return item.measure.loss_percent(_worsening(item).value)


def _at_most(item: Tested) -> float:
    return item.measure.loss_percent(_worsening(item).at_most)


def smallest_percent(item: Tested) -> float:
    """The smallest loss that a share POWER of such comparisons establishes."""
    assert item.judgement is not None
    return item.measure.loss_percent(_worsening(item).detectable(item.judgement.tests))


def repeats_needed(item: Tested, tolerated_percent: float) -> int:
    """With so many on both sides a share POWER of comparisons without a loss would pass this claim."""
    estimate = _worsening(item)
    wanted = item.measure.loss(tolerated_percent)
    fewest = item.repeats if isinstance(item, Mean) else min(item.n_a, item.n_b)
    return math.ceil(fewest * ((estimate.reach(1 - ERROR) + estimate.reach(POWER)) / wanted) ** 2)


def _unit(item: Tested) -> str:
    return "points" if item.measure.in_points else "%"


def _subject(item: Tested) -> str:
    return f"{item.name}: {item.measure.quantity.name}"


def _change(item: Tested) -> str:
    percent = _percent(item)
    return f"{'worse' if percent >= 0 else 'better'} by {abs(percent):.1f} {_unit(item)}"


def _loss(item: Tested) -> str:
    assert item.judgement is not None
    ends = sorted(item.measure.loss_percent(end) for end in _worsening(item).interval)
    interval = f"[{ends[0]:.1f}, {ends[1]:.1f}]"
    return f"{_subject(item)} {_change(item)} {interval} (adjusted p {item.judgement.worse:.2g})"


def _open(item: Tested, tolerated_percent: float) -> str:
    needed = repeats_needed(item, tolerated_percent)
    advice = f"about {needed}" if needed <= MOST_REPEATS else f"more than {MOST_REPEATS}"
    known = "a loss is established, but not one of this size; " if _established(item) else ""
    return (
        f"{_subject(item)} {_change(item)}, {known}the loss may be up to {_at_most(item):.1f} {_unit(item)}; the "
        f"smallest that such repeats find in {100 * POWER:g} % of runs is {smallest_percent(item):.1f} {_unit(item)}; "
        f"{advice} repeats on both sides would exclude {tolerated_percent:g}"
    )


def _why(cell: Compared) -> str:
    return cell.shift.untested if cell.shift else "no value"


def _highest(items: Sequence[Tested], key: Callable[[Tested], float]) -> str:
    """The highest of each quantity: "speed 3.1 %, accuracy 0.8 points"."""
    by_quantity: dict[str, Tested] = {}
    for item in sorted(items, key=key):
        by_quantity[item.measure.quantity.name] = item
    return ", ".join(f"{name} {key(item):.1f} {_unit(item)}" for name, item in sorted(by_quantity.items()))


def _single_cell(cells: Sequence[Compared], tolerated_percent: float) -> str:
    """What a pass by means leaves open of a single cell."""

    def from_on(item: Tested) -> float:
        return max(smallest_percent(item), tolerated_percent)

    return (
        f"of a single cell nothing is claimed: a loss in one alone is found in {100 * POWER:g} % of runs from "
        f"{_highest([cell for cell in cells if cell.judgement], from_on)} on; --every-cell asks it of each"
    )
