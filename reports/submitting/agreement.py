"""Compare a submitted trial with the same trial run again here, and label it.

The bounds rest on 129 pairs of the same trial from different sessions in our publications (docs/evidence/margins.md).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from workloads.records import figures as registry
from workloads.records.figures import FigureSpec, read_value
from workloads.records.result import TrialResult

from ..checking.recompute_attempt import SAME_PARTS
from .labels import Label

FIRST_LOSSES, LOSS = 4, 1e-3  # how many, relative: in pairs at most 2e-7; later ones drift apart as chaos does
FIRST_EPOCH = 0.3  # of the first epoch's training loss, relative: at most 0.08
ACCURACY = 0.25  # of the last epoch, share: at most 0.19, of batch size 4
MEMORY = 1.5  # times: at most 1.26 of the peak of steps, 1.21 of the resident size
EXACT = tuple(registry.MEMORY_PARTS[part] for part in SAME_PARTS)
PEAKS = (registry.STEPS_PEAK, registry.HOST_MEMORY)
PROCESSOR = ("cpu_model", "cpu_flags", "cores")
SAME_PRODUCT = 1.25  # times: one name of a processor may mean several, whose products of matrices differ
SPEED = 1.3  # times, on the same processor
USED = 1.5  # times, on the same processor: of the usage at most 1.09 in 27 pairs; no machine of ours counts energy


@dataclass(frozen=True)
class Agreement:
    """Label that a trial earned, what disagrees, and a note about what was not compared."""

    label: Label
    findings: tuple[str, ...]
    note: str = ""


def draw_cells(trials: Iterable[str], sha256: str, count: int) -> list[str]:
    """Draw trials by the file's checksum: whoever packed the file did not choose them, and anybody draws the same."""
    return sorted(trials, key=lambda trial: hashlib.sha256(f"{sha256} {trial}".encode()).hexdigest())[:count]


def compare_rerun(submitted: TrialResult, again: TrialResult) -> Agreement:
    """Compare ending, losses, accuracy and memory; speed, usage and energy only where the processor is the same.

    Nothing is compared if the framework has another version.
    """
    was, now = (result.facts.get("framework_version") for result in (submitted, again))
    if was != now:
        return Agreement(Label.CLAIMED, (), f"not compared: its framework_version is {ascii(was)[:40]}, here {now!r}")
    if again.status is not submitted.status:
        ended = f"status: submitted: {submitted.status}; run again: {again.status} ({again.reason})"
        return Agreement(Label.CLAIMED, (ended,))
    findings = [*_losses(submitted, again), *_memory(submitted, again)]
    other = explain_other_processor(submitted, again)
    if other is None:
        findings += _speed(submitted, again)
    if findings:
        return Agreement(Label.CLAIMED, tuple(findings))
    if other is not None:
        return Agreement(Label.RECOMPUTED, (), f"speed not compared: {other}")
    unknown = [spec for spec in _list_used(submitted) if _is_known(submitted, spec) and not _is_known(again, spec)]
    note = f"{', '.join(spec.label for spec in unknown)} not compared: unknown here" if unknown else ""
    return Agreement(Label.RERUN, (), note)


def _losses(submitted: TrialResult, again: TrialResult) -> Iterator[str]:
    differing = [
        name
        for name, file in again.spec.inputs.items()
        if name not in submitted.spec.inputs or submitted.spec.inputs[name].sha256 != file.sha256
    ]
    if differing:
        yield f"inputs: {', '.join(differing)} differ from those of its seed"
    pairs = zip(submitted.first_losses[:FIRST_LOSSES], again.first_losses[:FIRST_LOSSES], strict=False)
    for number, (was, now) in enumerate(pairs):
        if was is None or now is None or not math.isclose(was, now, rel_tol=LOSS):
            yield f"first_losses: step {number + 1}: submitted: {was}; run again: {now}"
            break
    if len(submitted.first_losses) < (count := min(FIRST_LOSSES, len(again.first_losses))):
        yield f"first_losses: submitted: {len(submitted.first_losses)} of {count} steps"
    if not submitted.first_losses or len(submitted.epochs) != len(again.epochs):
        yield "epochs: their losses are missing, so they were not compared"
    elif submitted.epochs:
        was, now = submitted.epochs[0].train_loss, again.epochs[0].train_loss
        if was is None or now is None or not math.isclose(was, now, rel_tol=FIRST_EPOCH):
            yield f"train_loss of epoch 0: submitted: {was}; run again: {now}"
        was, now = submitted.epochs[-1].test_accuracy, again.epochs[-1].test_accuracy
        if abs(was - now) > ACCURACY:
            yield f"test_accuracy: submitted: {was:.4f}; run again: {now:.4f}"


def _memory(submitted: TrialResult, again: TrialResult) -> Iterator[str]:
    for spec in EXACT:
        was, now = (read_value(result.figures, spec) for result in (submitted, again))
        if was is not None and now is not None and was != now:
            yield f"{spec.name}: submitted: {was:,.0f}; run again: {now:,.0f}"
    for spec in PEAKS:
        yield from _ratio(spec, submitted, again, MEMORY)


def _speed(submitted: TrialResult, again: TrialResult) -> Iterator[str]:
    yield from _ratio(registry.SPEED, submitted, again, SPEED)
    for spec in _list_used(submitted):
        yield from _ratio(spec, submitted, again, USED)


def _list_used(submitted: TrialResult) -> Iterator[FigureSpec]:
    """Yield what is compared of the usage. Counters of energy are of a processor, so of a trial that had all of it."""
    yield registry.CPU_USAGE
    if submitted.spec.placement.threads == submitted.machine.get("cores"):
        yield registry.CPU_ENERGY_PER_IMAGE


def _is_known(result: TrialResult, spec: FigureSpec) -> bool:
    return read_value(result.figures, spec) is not None


def _ratio(spec: FigureSpec, submitted: TrialResult, again: TrialResult, most: float) -> Iterator[str]:
    """Yield a line if one value is more than `most` times the other; unknown ones are not compared."""
    was, now = (read_value(result.figures, spec) for result in (submitted, again))
    if was and now and not 1 / most <= was / now <= most:
        yield f"{spec.name}: submitted: {was:,.6g}; run again: {now:,.6g}; at most {most:g} times is allowed"


def explain_other_processor(submitted: TrialResult, again: TrialResult) -> str | None:
    """Return why the speeds of two trials cannot be compared; None where they can."""
    differing = [name for name in PROCESSOR if submitted.machine.get(name) != again.machine.get(name)]
    if differing:
        return f"different {', '.join(differing)} here"
    was, now = (read_value(result.figures, registry.PRODUCT) for result in (submitted, again))
    if not was or not now:
        return "the speed of the fastest matrix product is unknown"
    if not 1 / SAME_PRODUCT <= was / now <= SAME_PRODUCT:
        return f"the processor's name is the same, but its matrix product is {was / now:.2f} times as fast as here"
    return None
