"""Find the time and energy to a target accuracy, from trials that were trained to their end.

A batch size is reported as soonest if the interval of its time over every other one's lies below 1. Times are paired by
repeat, as each repeat shares initial weights and order. One repeat has no interval; the answer then says what it rests
on.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from workloads.records import figures as registry
from workloads.records.batch_answers import Reached, Target
from workloads.records.job import ROOMS, Kind
from workloads.records.result import TrialResult, until
from workloads.records.status import Status
from workloads.statistics import Verdict, decide, mean_interval
from workloads.words import counted

FEWEST = 3  # repeats for an interval
MEASURED = (Status.OK, Status.DIVERGED)  # a training that diverged is a finding: its accuracy is that of its last epoch
ENERGIES = (registry.ENERGY_PER_IMAGE, registry.CPU_ENERGY_PER_IMAGE)  # the first of these that is known

Costs = Mapping[int, Mapping[int, float]]  # batch size -> repeat -> seconds or joules


def target(results: Iterable[TrialResult], accuracy: float) -> Target:
    """Return the answer from one framework's trials, which differ only in batch size and repeat."""
    return answer([reached(result, accuracy) for result in results if result.status in MEASURED], accuracy)


def reached(result: TrialResult, accuracy: float) -> Reached:
    """Return one trial's part. The first epoch's time includes the first step and warm-up."""
    spec = result.spec
    epochs = until(result.epochs, accuracy)
    per_image = result.first_known(*ENERGIES)
    return Reached(
        batch_size=spec.cell.batch_size,
        repeat=spec.draw.repeat,
        learning_rate=spec.rule.learning_rate,
        epochs=len(epochs) or None,
        train_s=sum(epoch.train_s for epoch in epochs) if epochs else None,
        energy_j=per_image * sum(epoch.images for epoch in epochs) if epochs and per_image is not None else None,
        accuracy=result.epochs[-1].test_accuracy if result.epochs else None,
        folder=f"{ROOMS[Kind.TRIAL]}/{spec.id}",
    )


def answer(every: Sequence[Reached], accuracy: float) -> Target:
    """Return the answer by one rule, for parts from any source."""
    in_order = tuple(sorted(every, key=lambda each: (each.batch_size, each.repeat)))
    soonest, reason = least(_costs(in_order, lambda each: each.train_s), len(in_order))
    cheapest, energy_reason = least(_costs(in_order, lambda each: each.energy_j), len(in_order))
    reasons = [reason, *_shortfalls(in_order)]
    if cheapest is None and soonest is not None:
        energy_reason = "no energy is known of a batch size that reached it in every repeat"
    return Target(
        accuracy=accuracy,
        batch_size=soonest,
        reason="; ".join(each for each in reasons if each) or None,
        reached=in_order,
        least_energy=cheapest,
        energy_reason=energy_reason,
    )


def _costs(every: Iterable[Reached], cost: Callable[[Reached], float | None]) -> Costs:
    """Return the costs of the batch sizes that reached it, and whose cost is known, in every repeat."""
    by_size: dict[int, dict[int, float | None]] = {}
    for each in every:
        by_size.setdefault(each.batch_size, {})[each.repeat] = cost(each)
    return {
        size: {repeat: value for repeat, value in costs.items() if value is not None}
        for size, costs in by_size.items()
        if None not in costs.values()
    }


def _shortfalls(every: Sequence[Reached]) -> list[str]:
    """Return a line for each batch size that did not reach it in every repeat."""
    lines = []
    for size in dict.fromkeys(each.batch_size for each in every):
        repeats = [each for each in every if each.batch_size == size]
        missed = sum(each.epochs is None for each in repeats)
        if missed:
            count = f"in {missed} of {len(repeats)} repeats" if len(repeats) > 1 else "in its only repeat"
            lines.append(f"{size} did not reach it {count}")
    return lines


def least(costs: Costs, trials: int) -> tuple[int | None, str | None]:
    """Return (batch size, which others may be as good) of the least geometric mean of the repeats."""
    if not costs:
        return None, f"none of {counted(trials, 'trial')} reached it at a batch size that did so in every repeat"
    means = {size: statistics.fmean(math.log(value) for value in repeats.values()) for size, repeats in costs.items()}
    leader = min(sorted(means), key=lambda size: means[size])
    untold = [size for size in sorted(costs) if size != leader and not _below(costs[leader], costs[size])]
    if not untold:
        return leader, None
    if min(len(repeats) for repeats in costs.values()) < FEWEST:
        return leader, f"in these runs; order without an interval, which needs {FEWEST} repeats"
    return leader, f"by its mean; {', '.join(map(str, untold))} cannot be told from it"


def _below(costs: Mapping[int, float], others: Mapping[int, float]) -> bool:
    """True if the interval of the ratio of costs, paired by repeat, lies below 1."""
    pairs = [math.log(costs[repeat] / others[repeat]) for repeat in costs if repeat in others]
    return len(pairs) >= FEWEST and decide(*mean_interval(pairs)[1:]) is Verdict.WORSE
