"""The gate's check of a trial's end: the referee's answer to the worker's file, and its verdict.

All of it happens after `finished`, when everything timed or sampled is done.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.gate.end_referee import EndReferee
from runner.gate.tolerances import ROUNDOFF
from runner.results.assemble import judge_convergence
from workloads.layers import Masked
from workloads.networks import find_trained
from workloads.records.build import REDUCED
from workloads.records.check_name import CheckName
from workloads.records.end_evidence import (
    END_FILE,
    Difference,
    DropoutMasks,
    EndCall,
    Missing,
    TrialEnd,
    TrialMiddle,
)
from workloads.records.events import Event
from workloads.records.figures import PRODUCT, PRODUCT_BY_CPU_TIME, SPEED, WINDOW
from workloads.records.files import EVENTS_FILE
from workloads.records.job import TrialSpec
from workloads.records.outstanding import FIRST_TWO, Outstanding
from workloads.records.reported import FAST_ALGORITHMS
from workloads.records.result import Check, TrialResult
from workloads.records.status import Status
from workloads.records.stored_events import read_events
from workloads.spec import Workload
from workloads.words import compare_with_allowed, format_count, show_both

REFEREE_TIMEOUT_S = 300.0
REFEREE_MULTIPLY_ADDS = 10**9  # of one image: above this, the referee takes more than a minute for each repeat
TOO_LARGE = "the workload is too large for it"

# Relative. docs/reference/gate.md shows the values of correct and incorrect frameworks.
EVALUATION, LOSSES, UPDATES = 1e-4, 5e-4, 1e-3
# For Adam and AdamW: the part of the gradient that weights may move against. Rounding contributes little; earlier
# gradients, which they continue to apply, gave 0.044 in one of 90 steps of correct trials.
TURNED = 0.1
# A value on a kink (ReLU, pooling) amplifies rounding in one batch, by some percent, but not in every batch. So updates
# are suspect if all steps, at least this many, are off by UPDATES, or one by GROSS.
GROSS, FEWEST_STEPS = 0.2, 2
# For a call of several steps, whose rows follow each other with unseen weights between them: rounding grows from row to
# row, and so may a value on a kink. A misplaced batch changes either by tens of percent.
CALL_LOSSES, CALL_UPDATES = 2e-2, 0.2
# For the loss of the trial's last update, at weights computed back from those after it. What a twentieth of the
# gradient of the step after it does to that loss is allowed, too.
LAST_LOSS = 2e-3
# Times the rounding of float32, or of the trial's precision, in the referee's own answer. A loss is a mean: over one
# batch its rounding cancels by chance, so the largest of all steps counts, and at least one rounding.
ROUNDINGS = 5
TELLING = 0.5  # an update with a larger relative uncertainty is not judged: almost nothing is left to learn

# Adam's second moment, unknown, changes quickly at first, and distorts the inferred gradient.
FEWEST_UPDATES = 20
# For a Dropout or a StochasticDepth: tolerance of its share of zeros, besides what chance does to this many values, and
# of its scale. Chance gives a share at this many nats per value once in 60 million times (Chernoff): for many values
# that is six standard deviations, for few images at a small rate it is more.
MASK_NATS, MASK_SHARE, MASK_SCALE = 18, 0.005, 0.01

CORE_HERTZ = 6e9
CORE_FLOP = 2 * 2 * 16  # per cycle: two units, a fused multiply-add each, of 16 lanes of float32
REDUCED_CORE_FLOP = 2 * 16 * 16 * 32 // 16  # AMX: a product of two tiles of 16 x 32 two-byte numbers in 16 cycles
GPU_FLOP_S, REDUCED_GPU_FLOP_S = 2e15, 5e16  # ten times and more what any card of 2026 does


def gather(referee: EndReferee, folder: Path, spec: TrialSpec, referee_multiply_adds: int) -> dict[str, Any]:
    """Return `TrialEnd` as JSON from the worker's files; empty if the trial has no end, and for custom code.
    END_FILE stays, for the caller that stores the result to remove.
    """
    try:
        events = {event["event"]: event for event in read_events(folder / EVENTS_FILE)}
    except ValueError:  # the trial's result reports it
        return {}
    if Event.FINISHED not in events or spec.task.own_code:
        return {}
    settled, probed = (events.get(event, {}) for event in (Event.WINDOW_SETTLED, Event.END_PROBED))
    told = {name: settled[name] for name in Outstanding.__dataclass_fields__ if name in settled}
    end = TrialEnd(Outstanding(**told) if told.keys() >= {*FIRST_TWO} else None)
    if end.outstanding is None or not (folder / END_FILE).is_file() or "reason" in probed:
        reason = settled.get("reason", probed.get("reason", "the worker ended before it answered"))
        limited = spec.placement.memory_limit_bytes is not None
        ran_out = limited and any(event.get("out_of_memory") for event in (settled, probed))
        return replace(end, missing=Missing.MEMORY if ran_out else Missing.WORKER, reason=reason).to_json()
    steps = {name: probed[name] for name in ("asked_steps", "idle_steps", "masks") if name in probed}
    workload = find_trained(spec, folder.parent.parent)
    if workload is None or workload.multiply_adds > referee_multiply_adds:
        return replace(end, missing=Missing.REFEREE, reason=TOO_LARGE).to_json() | steps
    try:
        return end.to_json() | steps | referee.ask(folder, REFEREE_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return replace(end, missing=Missing.REFEREE, reason=f"{type(error).__name__}: {error}").to_json() | steps


def check_end(trial: TrialResult, workload: Workload) -> list[Check]:
    """Check this trial by itself; unknown quantities are left out."""
    return [*_possible(trial, workload), *(_end(trial, workload, TrialEnd.from_json(trial.end)) if trial.end else ())]


def is_ours(trial: TrialResult, check: Check) -> bool:
    """True for a check that fails because we could not compare the end, which does not flag the trial."""
    return check.name == CheckName.END_ANSWERED and trial.end.get("missing") != Missing.WORKER


def _possible(trial: TrialResult, workload: Workload) -> Iterator[Check]:
    speed = trial.figures.get(SPEED.name)
    if speed is None or speed.value is None:
        return
    needed = speed.value * workload.step_flop / FAST_ALGORITHMS
    reduced = trial.spec.task.precision in REDUCED
    most, who = (REDUCED_GPU_FLOP_S if reduced else GPU_FLOP_S) * trial.spec.placement.devices, "any GPU can do"
    if trial.spec.placement.device == "cpu":
        most = CORE_HERTZ * (REDUCED_CORE_FLOP if reduced else CORE_FLOP) * trial.spec.placement.threads
        who = f"{format_count(trial.spec.placement.threads, 'core')} can do"
        # By processor time, because other processes may have slowed each of its calls. In reduced precision it casts
        # weights; on a GPU this was never measured.
        product = None if reduced else trial.first_known(PRODUCT_BY_CPU_TIME, PRODUCT)
        if product is not None and product < most:
            most, who = product, "its fastest product of matrices does"
    least, can = show_both(needed / 1e9, most / 1e9, "f", digits=0, fewer=0)
    detail = f"{speed.value:,.0f} images/s need at least {least} GFLOP/s; {who} {can} GFLOP/s"
    yield Check(CheckName.POSSIBLE, needed <= most, detail)


def _end(trial: TrialResult, workload: Workload, end: TrialEnd) -> Iterator[Check]:
    if end.outstanding is not None:
        yield _nothing_left(trial, end.outstanding)
    if end.missing is Missing.WORKER:
        yield Check(CheckName.END_ANSWERED, False, f"it gave no evidence at the trial's end: {end.reason}")
    if end.missing is Missing.MEMORY:
        yield Check(CheckName.END_ANSWERED, False, f"our probe of the trial's end ran out of memory: {end.reason}")
    small = workload.multiply_adds <= REFEREE_MULTIPLY_ADDS  # of a larger one the referee is never asked
    if end.missing is Missing.RUNNER or (end.missing is Missing.REFEREE and small):
        yield Check(CheckName.END_ANSWERED, False, f"the referee did not compare the trial's end: {end.reason}")
    if judge_convergence(trial.figures)[0] is Status.DIVERGED:
        return  # weights that are not numbers agree with nothing
    yield from _compared(trial, end, "at the trial's end")
    if end.last_evaluation:
        apart, passed = _judged(end.last_evaluation.difference, EVALUATION)
        detail = f"the logits of {end.last_evaluation.images} test images after the last epoch differ by {apart}"
        yield Check(CheckName.LAST_EVALUATION, passed, detail)
    if end.last:
        apart, passed = _judged(end.last, LAST_LOSS)
        yield Check(CheckName.LAST_LOSS, passed, f"the loss of the trial's last update differs by {apart}")
    if end.middle and (found := _middle(trial, end.middle)):
        yield found
    if end.masks:
        yield _masks(workload, end.masks)


def _middle(trial: TrialResult, middle: TrialMiddle) -> Check | None:
    """Return the first of the end's checks that fails in the middle, else the first; None if nothing was answered.

    Updates that a correct framework may turn are left out: Adam's first ones, and those in reduced precision.
    """
    early = trial.spec.task.optimizer.name in ("adam", "adamw") and middle.updates < FEWEST_UPDATES
    steps = middle.steps
    if early or trial.spec.task.precision in REDUCED:
        steps = tuple(replace(step, update=None) for step in steps)
    asked = {name: getattr(middle, name) for name in ("images", "evaluation", "asked_steps", "idle_steps")}
    when = f"after {middle.updates} updates, in epoch {middle.epoch + 1},"
    found = list(_compared(trial, TrialEnd(None, steps=steps, **asked), when))
    if not found and middle.asked_steps:
        found = [Check(CheckName.MIDDLE, True, f"{when} all {middle.asked_steps} steps changed weights")]
    first = next((check for check in found if not check.passed), found[0] if found else None)
    return first and replace(first, name=CheckName.MIDDLE)


def _masks(workload: Workload, masks: tuple[DropoutMasks, ...]) -> Check:
    """Check the first Dropout or StochasticDepth whose zeros or scale do not match its rate, else the first."""
    rates = {layer.name: layer.rate for layer, _ in workload.walk() if isinstance(layer, Masked)}
    said = []
    for mask in masks:
        rate = rates[mask.layer]
        allowed = MASK_SHARE + _chance(rate, mask.values, 1.0 if mask.zeros > rate else 0.0)
        zeros, most = show_both(abs(mask.zeros - rate), allowed, "f", digits=4, fewer=0)
        said.append((abs(mask.zeros - rate) <= allowed, f"the zeros of {mask.layer} are {zeros} off (allowed {most})"))
        if mask.scale is not None:
            scaled = abs(mask.scale * (1 - rate) - 1)
            what = f"the values that {mask.layer} keeps are scaled by {mask.scale:.4f}, {1 / (1 - rate):.4f} expected"
            said.append((scaled <= MASK_SCALE, what))
    passed, detail = next((each for each in said if not each[0]), said[0])
    return Check(CheckName.MASKS, passed, f"at the trial's end {detail}")


def _chance(rate: float, values: int, end: float) -> float:
    """Return how far chance takes a share of so many values from their rate, towards `end`: up to MASK_NATS."""
    if rate == 0:
        return 0.0
    share, beyond = rate, end
    for _ in range(40):  # halvings, until float32 would not show the difference
        middle = (share + beyond) / 2
        parts = ((middle, rate), (1 - middle, 1 - rate))
        nats = values * sum(each * math.log(each / expected) for each, expected in parts if each)
        share, beyond = (share, middle) if nats > MASK_NATS else (middle, beyond)
    return abs(share - rate)


def _compared(trial: TrialResult, end: TrialEnd, when: str) -> Iterator[Check]:
    """Yield the checks of the referee's answers at one moment of the trial."""
    if end.evaluation is not None:
        apart, passed = _judged(end.evaluation, EVALUATION)
        detail = f"the logits of {end.images} test images in evaluation mode differ by {apart}"
        yield Check(CheckName.END_EVALUATION, passed, f"{when} {detail}")
    rounding = max((step.loss.rounding for step in end.steps), default=0.0)
    base = max(LOSSES, ROUNDOFF.get(trial.spec.task.precision, 0.0))
    said = [
        (f"a step of {format_count(step.batch_size, 'image')}", *_judged(replace(step.loss, rounding=rounding), base))
        for step in end.steps
    ]
    if call := end.call:
        where = f"step {call.row} of {_call_words(call)}"
        said.append((where, *_judged(call.loss, max(CALL_LOSSES, base))))
    if said:
        where, apart, passed = next((each for each in said if not each[-1]), said[0])
        detail = f"the loss of {where} differs by {apart}"
        yield Check(CheckName.END_LOSSES, passed, f"{when} {detail}")
    yield from _updates(trial, end, when)


def _call_words(call: EndCall) -> str:
    return f"a call of {format_count(call.rows, 'step')} of {format_count(call.batch_size, 'image')}"


def _updates(trial: TrialResult, end: TrialEnd, when: str) -> Iterator[Check]:
    # An update whose float16 gradients overflowed is left out, by every framework.
    tolerated = max(0, end.asked_steps - 1) if trial.spec.task.precision == "float16" else 0
    if end.idle_steps > tolerated:
        detail = f"{end.idle_steps} of {end.asked_steps} steps changed no weight"
        yield Check(CheckName.END_UPDATES, False, f"{when} {detail}")
        return
    base = TURNED if trial.spec.task.optimizer.name in ("adam", "adamw") else UPDATES
    telling = [(step, step.update) for step in end.steps if step.update and step.update.resolution < TELLING]
    fine = [(step, *_judged(update, base)) for step, update in telling]
    gross = [(step, *_judged(update, max(base, GROSS))) for step, update in telling]
    suspect = [each for each in gross if not each[-1]]
    if not suspect and len(fine) >= FEWEST_STEPS and not any(passed for *_, passed in fine):
        suspect = fine
    said = [
        (f"the update of {step.parameter} by a step of {format_count(step.batch_size, 'image')}", apart, passed)
        for step, apart, passed in suspect or gross
    ]
    if (call := end.call) and call.update.resolution < TELLING:
        what = f"the update of {call.parameter} by {_call_words(call)}"
        said.append((what, *_judged(call.update, CALL_UPDATES)))
    said.sort(key=lambda each: each[-1])  # failed ones first
    for what, apart, passed in said[:1]:
        yield Check(CheckName.END_UPDATES, passed, f"{when} {what} differs by {apart}")


def _judged(difference: Difference, base: float) -> tuple[str, bool]:
    """Return (difference and tolerance as text, True if within tolerance)."""
    allowed = max(base, ROUNDINGS * difference.rounding) + difference.resolution
    if difference.apart is None:
        return f"a value that is not a number (allowed {allowed:.0e})", False
    return compare_with_allowed(difference.apart, allowed), difference.apart <= allowed


def _nothing_left(trial: TrialResult, copies: Outstanding) -> Check:
    window = trial.figures.get(WINDOW.name)
    window_s = window.value if window is not None and window.value is not None else trial.spec.window_s
    left_s, allowed_s = copies.compare_with_allowed(window_s, trial.spec.placement.device == "cpu")
    left, allowed = show_both(max(0.0, left_s), allowed_s, "f", digits=3, fewer=0)
    detail = f"{left} s of work were left when the window of {window_s:.2f} s ended (allowed {allowed} s)"
    detail += f"; copied {len(copies.again_s)} times again" * bool(copies.again_s)
    return Check(CheckName.NOTHING_LEFT, left_s <= allowed_s, detail)
