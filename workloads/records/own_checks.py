"""The checks of custom code, which is compared with nothing but itself: made by the runner from the worker's events."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from .build import REDUCED
from .check_name import CheckName
from .events import Event, Events
from .job import TrialSpec
from .result import Check

# Relative. On a CPU every framework gives the same bits for a seed. A GPU adds in any order, which training amplifies.
LOSSES, LOSSES_GPU, LOSSES_REDUCED = 1e-4, 1e-3, 2e-2
# Of the largest logit: another batch size takes other code. Dropout in evaluation, or BatchNorm by the batch, changes
# logits by some percent and more.
LOGITS, LOGITS_REDUCED = 1e-3, 2e-2

Losses = Sequence[float | None]  # None: not a number


def check_own_code(spec: TrialSpec, events: Events) -> Iterator[Check]:
    """Check a trial of custom code that was measured to its end. `events` have the runner's evaluations."""
    last = {event["event"]: event for event in events}
    if spec.task.own_code is None or not spec.passes.epochs or Event.FINISHED not in last:
        return
    trained = [
        event["first_losses"] for event in events if event["event"] == Event.EPOCH_TRAINED and "first_losses" in event
    ]
    again = last.get(Event.TRAINED_AGAIN, {"reason": "the worker ended before it trained again"})
    yield _losses(spec, trained[-1] if trained else [], again.get("losses"), again.get("reason", ""))
    evaluated = last.get(Event.EVALUATED_AGAIN, {"reason": "the worker did not evaluate again"})
    yield _evaluation(spec, last.get(Event.EPOCH_EVALUATED, {}).get("apart"), evaluated.get("reason"))


def _losses(spec: TrialSpec, first: Losses, again: Losses | None, reason: str) -> Check:
    """Compare the first losses with those of the same steps, trained again from the same seed in the same process."""
    name = CheckName.SAME_LOSSES
    if again is None or not (pairs := list(zip(first, again, strict=False))):
        return Check(name, False, f"it was not trained again: {reason or 'there are no losses'}")
    differences = [_apart(*pair) for pair in pairs]
    most = LOSSES if spec.placement.device == "cpu" else LOSSES_GPU
    most = LOSSES_REDUCED if spec.task.precision in REDUCED else most
    what = f"the first {len(pairs)} losses, trained again from the same seed,"
    if not any(differences):
        return Check(name, True, f"{what} are the same")
    step = next(number for number, each in enumerate(differences, start=1) if each == max(differences))
    detail = f"{what} differ by up to {max(differences):.1e} at step {step}, {most:.0e} is allowed"
    return Check(name, max(differences) <= most, detail)


def _apart(one: float | None, other: float | None) -> float:
    """Return the relative difference; infinite if one of them alone is a number."""
    if one is None or other is None:
        return 0.0 if one is other else math.inf
    return abs(one - other) / max(abs(one), abs(other), 1e-6)


def _evaluation(spec: TrialSpec, apart: float | None, reason: str | None) -> Check:
    """Check that an image's logits, in the evaluation of the test split, follow from that image alone."""
    if apart is None:
        why = f"no test image was evaluated again: {reason}" if reason else "logits of test images are not numbers"
        return Check(CheckName.OWN_EVALUATION, False, why)
    most = LOGITS_REDUCED if spec.task.precision in REDUCED else LOGITS
    detail = "test images evaluated again, in another batch, have the logits of the last evaluation"
    if apart > most:
        detail = f"test images evaluated again, in another batch, differ by {apart:.1e} of the largest logit"
        detail += f" ({most:.0e} is allowed): masks or the batch's statistics are in its evaluation"
    return Check(CheckName.OWN_EVALUATION, apart <= most, detail)
