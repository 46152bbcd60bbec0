"""Compare a trial's epochs with those of the frameworks that were fed the same batches."""

from __future__ import annotations

from collections.abc import Sequence

from runner.gate import drift, trial_end
from runner.gate.disturbed import Disturbed
from runner.gate.drift import Moved
from runner.gate.rivals import framework_of, held_against, outvoted
from workloads.records.check_name import CheckName
from workloads.records.result import Check, TrialResult
from workloads.spec import Workload

FAR = 30  # factor above or below the frameworks' middle movement that is reported


def check(
    trial: TrialResult, workload: Workload, same: list[TrialResult], disturbed: Disturbed | None = None
) -> list[Check]:
    """Compare with the epochs of `same`, trials fed the same batches, that are not flagged at their own end. No
    check if no epoch can be compared. If it differs, the frameworks are asked by `disturbed` how much rounding can
    change.
    """
    rule, normalised = trial.spec.rule, bool(workload.statistic_shapes())
    rivals = [
        rival
        for rival in same
        if any(drift.differences(trial.epochs, rival.epochs, rule, normalised))
        and all(check.passed for check in trial_end.checks(rival, workload))
    ]
    if workload.draws or not rivals:
        return []
    verdict = _compared(trial, rivals, normalised, [])
    if verdict.passed or disturbed is None:
        return [verdict]
    epochs = drift.compared_epochs(trial.epochs, rule, normalised)
    movements = {framework_of(each): _moved(each, disturbed, epochs) for each in (trial, *rivals)}
    movements = {name: moved for name, moved in movements.items() if moved}
    if not (middle := drift.middle_moved(list(movements.values()))):
        return [verdict]
    verdict = _compared(trial, rivals, normalised, middle)
    return [
        Check(verdict.name, verdict.passed, f"{verdict.detail}; {_movement_words(movements, middle)}", verdict.against)
    ]


def untold(check: Check) -> bool:
    """True if it fails because rounding leaves nothing to compare, which does not flag the trial."""
    return check.name == CheckName.EPOCHS_AGREE and not check.against


def _moved(trial: TrialResult, disturbed: Disturbed, epochs: int) -> list[Moved]:
    trainings = disturbed.trainings(trial, epochs)
    return drift.moved(trial.epochs[:epochs], [training.epochs for training in trainings])


def _compared(trial: TrialResult, rivals: list[TrialResult], normalised: bool, disturbed: Sequence[Moved]) -> Check:
    """Compare within the bounds from disturbed weights; `against` is empty if these bound nothing."""
    rule = trial.spec.rule
    last, apart = 0, {}
    for rival in rivals:
        how = (trial.epochs, rival.epochs, rule, normalised, disturbed)
        last = max([last, *(each.epoch + 1 for each in drift.differences(*how))])
        apart[framework_of(rival)] = drift.drifted(*how)
    if not last:
        detail = f"cannot be told: rounding may have grown to more than {drift.CHAOS:.0%} of the first epoch's loss"
        return Check(CheckName.EPOCHS_AGREE, False, detail)
    against = tuple(apart)
    if differing := outvoted(rivals, lambda rival: str(apart[framework_of(rival)] or "")):
        names = [name for name, _ in differing]  # the detail is of the nearest: another may be the wrong one
        nearest = min(filter(None, map(apart.get, names)), key=lambda each: each.apart / each.allowed)
        return Check(CheckName.EPOCHS_AGREE, False, f"differs from {', '.join(names)}: {nearest}", against)
    until = f" up to epoch {last}" if disturbed else ""
    return Check(CheckName.EPOCHS_AGREE, True, f"{held_against(against)}{until}", against)


def _movement_words(movements: dict[str, list[Moved]], middle: Sequence[Moved]) -> str:
    """Describe how far a disturbance of the weights moved each framework, and which are far from the middle one. The
    epoch is the last one below all bounds, else the first.
    """
    below = [number for number, moved in enumerate(middle) if moved.loss <= drift.CHAOS]
    epoch = below[-1] if below else 0
    figures = {name: moved[epoch].loss for name, moved in sorted(movements.items())}
    usual = middle[epoch].loss
    far = [name for name, loss in figures.items() if not usual / FAR <= loss <= usual * FAR]
    odd = f" ({', '.join(far)} far from the others)" if far else ""
    words = ", ".join(f"{name} by {loss:.1e}" for name, loss in figures.items())
    return f"rounding in the weights moves the losses up to epoch {epoch + 1} of {words}{odd}"
