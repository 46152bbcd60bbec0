"""Say what trainings at several batch sizes show: time to a target accuracy, and the benefit of a larger size.

A batch size is reported as soonest if the interval of its time over every other one's lies below 1. One repeat has no
interval; the answer then says what it rests on.

The published claim on a larger size is "3 to 4 times faster at equal quality". It holds if both 95 % intervals agree
with it. That of an epoch's speed-up must be at LEAST_SPEED_UP or above, and that of the change of accuracy at
-TOLERATED_LOSS or above. The claim does not hold if either interval is wholly on the other side. In all other cases it
is uncertain. How often the verdict errs: docs/guide/batch-size.md.

All values are paired by repeat: the trials of a repeat share initial weights and order of the images.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from workloads.records import figures as registry
from workloads.records.batch_answers import Holds, Reached, Target, Trained
from workloads.records.job import ROOMS, Kind
from workloads.records.result import TrialResult, select_epochs
from workloads.records.status import Status
from workloads.statistics import Verdict, accuracy_step, decide, mean_interval
from workloads.words import format_count

FEWEST = 3  # repeats for an interval
MEASURED = (Status.OK, Status.DIVERGED)  # a training that diverged is a finding: its accuracy is that of its last epoch
ENERGIES = (registry.ENERGY_PER_IMAGE, registry.CPU_ENERGY_PER_IMAGE)  # the first of these that is known

LEAST_SPEED_UP = 3.0
TOLERATED_LOSS = 0.01  # of accuracy, 0 ... 1

Costs = Mapping[int, Mapping[int, float]]  # batch size -> repeat -> seconds or joules


def target(results: Iterable[TrialResult], accuracy: float) -> Target:
    """Return the answer from one framework's trials, which differ only in batch size and repeat."""
    return answer([reached(result, accuracy) for result in results], accuracy)


def reached(result: TrialResult, accuracy: float) -> Reached:
    """Return one trial's part. The first epoch's time includes the first step and warm-up.

    A training whose status is not in MEASURED has no figures.
    """
    spec, trained_epochs = result.spec, result.epochs if result.status in MEASURED else []
    epochs = select_epochs(trained_epochs, accuracy)
    per_image = result.first_known(*ENERGIES)
    return Reached(
        batch_size=spec.cell.batch_size,
        repeat=spec.draw.repeat,
        learning_rate=spec.rule.learning_rate,
        epochs=len(epochs) or None,
        train_s=sum(epoch.train_s for epoch in epochs) if epochs else None,
        energy_j=per_image * sum(epoch.images for epoch in epochs) if epochs and per_image is not None else None,
        accuracy=trained_epochs[-1].test_accuracy if trained_epochs else None,
        folder=f"{ROOMS[Kind.TRIAL]}/{spec.id}",
        status=result.status,
    )


def answer(every: Sequence[Reached], accuracy: float) -> Target:
    """Return the answer by one rule, for parts from any source."""
    in_order = tuple(sorted(every, key=lambda each: (each.batch_size, each.repeat)))
    soonest, reason = least(_costs(in_order, lambda each: each.train_s), len(in_order))
    cheapest, energy_reason = least(_costs(in_order, lambda each: each.energy_j), len(in_order))
    reasons = [reason, *_shortfalls(in_order)]
    if cheapest is None and soonest is not None:
        energy_reason = "energy is unknown for every batch size that reached it in all repeats"
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
    """Return lines for each batch size that did not reach it in every repeat, or where a training did not end well."""
    lines = []
    for size in dict.fromkeys(each.batch_size for each in every):
        repeats = [each for each in every if each.batch_size == size]
        failed = [each.status for each in repeats if each.status not in (None, *MEASURED)]
        missed = sum(each.epochs is None for each in repeats) - len(failed)
        if missed:
            count = f"in {missed} of {len(repeats)} repeats" if len(repeats) > 1 else "in its only repeat"
            lines.append(f"{size} did not reach it {count}")
        if failed:
            statuses = ", ".join(sorted({str(status).replace("_", " ") for status in failed}))
            trainings = format_count(len(repeats), "training")
            lines.append(f"{size}: {len(failed)} of {trainings} did not end well ({statuses})")
    return lines


def least(costs: Costs, trials: int) -> tuple[int | None, str | None]:
    """Return (batch size, which others may be as good) of the least geometric mean of the repeats."""
    if not costs:
        return None, f"no batch size reached it in every repeat ({format_count(trials, 'trial')} made)"
    means = {size: statistics.fmean(math.log(value) for value in repeats.values()) for size, repeats in costs.items()}
    leader = min(sorted(means), key=lambda size: means[size])
    untold = [size for size in sorted(costs) if size != leader and not _below(costs[leader], costs[size])]
    if not untold:
        return leader, None
    if min(len(repeats) for repeats in costs.values()) < FEWEST:
        return leader, f"in these runs; the order has no interval, which needs {FEWEST} repeats"
    return leader, f"by its mean; not significantly different: {', '.join(map(str, untold))}"


def _below(costs: Mapping[int, float], others: Mapping[int, float]) -> bool:
    """True if the interval of the ratio of costs, paired by repeat, lies below 1."""
    pairs = [math.log(costs[repeat] / others[repeat]) for repeat in costs if repeat in others]
    return len(pairs) >= FEWEST and decide(*mean_interval(pairs)[1:]) is Verdict.WORSE


def trained(results: Iterable[TrialResult], in_use: int, found: int) -> Trained:
    """Compare one framework's trials at these two batch sizes; other sizes are ignored.

    Raises ValueError where they differ in more than batch size and repeat.
    """
    chosen = [
        result
        for result in results
        if result.status in MEASURED and result.epochs and result.spec.cell.batch_size in (in_use, found)
    ]
    if len(group_alike(chosen)) > 1:
        raise ValueError("the trials differ in more than batch size and repeat")
    by_repeat = {(result.spec.cell.batch_size, result.spec.draw.repeat): result for result in chosen}
    pairs = [
        (by_repeat[in_use, repeat], result)
        for (size, repeat), result in sorted(by_repeat.items())
        if size == found and (in_use, repeat) in by_repeat
    ]
    return _compared(pairs, in_use, found)


def group_alike(results: Iterable[TrialResult]) -> list[list[TrialResult]]:
    """Group the trials that differ in nothing but batch size and repeat: they are of one processor, too."""
    groups: dict[object, list[TrialResult]] = {}
    for result in results:
        computer = result.machine.get("cpu_model"), str(result.machine.get("cpu_flags"))
        alike = result.spec.cell.framework, *result.spec.setting[1:], result.spec.draw.first_seed  # all but the cell
        groups.setdefault((*alike, *computer), []).append(result)
    return list(groups.values())


def _compared(pairs: Sequence[tuple[TrialResult, TrialResult]], in_use: int, found: int) -> Trained:
    if not pairs:
        nothing = (None,) * 6
        return Trained(found, in_use, *nothing, 0, Holds.UNCERTAIN)
    task = pairs[0][0].spec.task
    faster = [*map(math.exp, _interval([math.log(epoch_s(before) / epoch_s(after)) for before, after in pairs]))]
    changes = [after.epochs[-1].test_accuracy - before.epochs[-1].test_accuracy for before, after in pairs]
    changed = _interval(changes, accuracy_step(task.dataset, task.source) / 100)
    found_to_be = {
        decide(*faster[1:], margin=(LEAST_SPEED_UP, math.inf)),
        decide(*changed[1:], margin=(-TOLERATED_LOSS, math.inf)),
    }
    holds = Holds.HOLDS if found_to_be == {Verdict.WITHIN} else Holds.UNCERTAIN
    verdict = Holds.DOES_NOT if Verdict.WORSE in found_to_be else holds
    speed_up, speed_low, speed_high, change, low, high = (
        None if math.isnan(end) else end for end in (*faster, *changed)
    )
    return Trained(found, in_use, speed_up, speed_low, speed_high, change, low, high, len(pairs), verdict)


def epoch_s(result: TrialResult) -> float:
    """Return the mean training time of an epoch.

    The first epoch, which includes the first step, is left out if there are more.
    """
    return statistics.fmean(epoch.train_s for epoch in result.epochs[1:] or result.epochs)


def _interval(values: Sequence[float], least_spread: float = 0.0) -> tuple[float, float, float]:
    """Return (mean, low, high). The spread is assumed to be at least `least_spread`."""
    if len(values) < FEWEST:
        return statistics.fmean(values), math.nan, math.nan
    return mean_interval(values, least_spread)
