"""The referee of trials' ends: python -m adapters.numpy.end_referee, in the runner's Python.

Each line of its standard input names a folder, as JSON. It reads job.json, END_FILE and the trial's inputs there. It
prints one line of JSON: the difference between the framework's results and those of the same weights here. It computes
in float32, which is quick, with rounding far below the tolerances. If a doubt remains, it computes in float64, and the
difference between the two counts as rounding. For a trial in reduced precision, float32 is the truth. Rounding is then
the difference between that and the referee in the trial's precision.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from adapters.base import Order, parts
from adapters.numpy.adapter import Adapter
from adapters.numpy.end_asked import Asked, read
from adapters.numpy.end_call import SavedCall, call_difference, follow, images_at_once, images_of_part, last_difference
from adapters.numpy.end_updates import DOUBTFUL, Step, loss_apart, surplus, update_differences
from adapters.numpy.layers import sequence
from adapters.numpy.passes import Array
from adapters.shared import shares
from workloads import weights
from workloads.records.build import FLOAT32, FLOAT64
from workloads.records.end_evidence import (
    CALL,
    EVALUATED_FILE,
    EVALUATION_FILE,
    IDLE_LOSS,
    LAST,
    MIDDLE_FILE,
    SHOWN_AT_ONCE,
    Difference,
    Digests,
    EndCall,
    EndStep,
    follows_whole_gradient,
)
from workloads.records.files import JOB_FILE, without_nan
from workloads.records.job import Job

SMALL_LOGITS = 1e-6
LEAST_RATE = 0.01  # of the optimizer's rate: with less, as at the start of a warm-up, a step may change nothing


Answers = tuple[Array | None, list[Step]]  # (logits if they were requested, one entry per step), in one precision


def answers(asked: Asked, precision: str) -> Answers:
    """Compute the answers in this precision, from the weights that the worker saved."""
    logits = _logits(asked, precision) if "logits" in asked.saved else None
    return logits, [_step(asked, number, precision) for number in range(asked.steps)]


def _built(asked: Asked, number: int, precision: str) -> Adapter:
    adapter = Adapter(precision)
    adapter.build(asked.workload, asked.rule, asked.weights(number), 0)
    return adapter


def _logits(asked: Asked, precision: str) -> Array:
    after = int(asked.saved.get("evaluated_after", np.array(0)))
    adapter, size, images = _built(asked, after, precision), images_at_once(asked.workload), asked.test_images
    return np.concatenate([adapter.predict(images[first : first + size]) for first in range(0, len(images), size)])


def _step(asked: Asked, number: int, precision: str) -> Step:
    """Compute a step from the weights before it; for a large batch only the last layer's gradients."""
    batch = asked.batch(number)
    images, labels = asked.images[batch], asked.labels[batch]
    adapter, rule, devices = _built(asked, number, precision), asked.rule.name, asked.spec.placement.devices
    # The first step of two is needed only for its loss if the optimizer's state hides its update.
    if follows_whole_gradient(asked.workload, len(batch)) and (number or rule in SHOWN_AT_ONCE):
        if devices > 1:
            loss, gradients = adapter.divide(images, labels, devices)
        else:
            part = images_of_part(asked.workload, precision, asked.spec.part)
            loss, gradients = adapter.accumulate(images, labels, part)
        return Step(loss, gradients, {key: adapter.state[key] for key in asked.workload.statistic_shapes()})
    *front, last = asked.workload.layers
    features = []
    for number_of_piece, piece in enumerate(_at_once(asked, len(batch))):
        run = adapter.new_pass(training=True)
        features.append(sequence(tuple(front), adapter.rescaled(images[piece]), run)[0])
        if number_of_piece == 0 or devices == 1:
            adapter.state |= run.statistics
    loss, run = adapter.differentiate_behind((last,), np.concatenate(features), labels)
    return Step(loss, run.gradients, {key: adapter.state[key] for key in asked.workload.statistic_shapes()})


def _at_once(asked: Asked, images: int) -> list[Order]:
    """Return the pieces of an update: BatchNorm needs the images that went through at once, a device's share."""
    every = np.arange(images, dtype=np.int32)
    if not asked.workload.statistic_shapes():
        return parts(every, images_at_once(asked.workload))
    if (devices := asked.spec.placement.devices) > 1:
        return [share.rows for share in shares(every, devices) if share.weight]
    return parts(every, asked.spec.part or images)


def evaluation_apart(logits: Array, expected: Array) -> float:
    """Return the largest difference of one image's logits, relative to the mean size of all."""
    expected = expected.astype(np.float64)
    size = math.sqrt(float(np.square(expected).sum(axis=1).mean()))
    return float(np.sqrt(np.square(logits - expected).sum(axis=1)).max()) / max(size, SMALL_LOGITS)


def differences(asked: Asked, exact: Answers, quick: Answers) -> tuple[Difference | None, list[EndStep]]:
    """Return (difference of the logits, of each step) from the more exact answers; the quick ones give the rounding."""
    (true_logits, true_steps), (quick_logits, quick_steps) = exact, quick
    evaluation = None
    if true_logits is not None and quick_logits is not None:
        logits = asked.saved["logits"][: len(asked.test_images)]
        evaluation = Difference(evaluation_apart(logits, true_logits), evaluation_apart(quick_logits, true_logits))
    around = [asked.weights(number) for number in range(asked.steps + 1)]
    taken, rules = int(asked.saved["steps"]), asked.rules
    steps = []
    for number in range(asked.steps):
        loss, true_loss = float(asked.saved[f"loss/{number}"][0]), true_steps[number].loss
        known = update_differences(rules, around, true_steps, quick_steps, number, taken)
        worst = max(known, key=lambda key: surplus(known[key]), default=None)
        size = len(asked.batch(number))
        steps.append(
            EndStep(
                batch_size=size,
                partial=size == len(asked.labels) % asked.spec.global_batch,
                loss=Difference(loss_apart(loss, true_loss), loss_apart(quick_steps[number].loss, true_loss)),
                update=None if worst is None else known[worst],
                parameter=worst,
                whole=follows_whole_gradient(asked.workload, size),
            )
        )
    return evaluation, steps


def _saved(asked: Asked, where: str) -> SavedCall:
    return SavedCall(where, asked.workload, asked.rule, asked.spec.part, asked.images, asked.labels, asked.saved)


def _last(asked: Asked) -> Difference | None:
    """Return the error of the loss of the trial's last update; None if the worker did not ask."""
    if f"{LAST}/order" not in asked.saved:
        return None
    last = _saved(asked, LAST)
    after = {f"{LAST}/weights/1/{key}": array for key, array in asked.weights(0).items()}
    return last_difference(replace(last, saved={**last.saved, **after}))


def _called(asked: Asked) -> EndCall | None:
    """Return the error of the call of several steps; None if the worker made none, or at a rate of 0."""
    if f"{CALL}/order" not in asked.saved or asked.rule.learning_rate == 0:
        return None
    spec = asked.spec
    call = _saved(asked, CALL)
    quick = follow(call, FLOAT32)
    if spec.task.precision != FLOAT32:
        return call_difference(call, quick, follow(call, spec.task.precision))
    found = call_difference(call, quick, quick)
    if all(surplus(each) <= DOUBTFUL for each in (found.loss, found.update)):
        return found
    return call_difference(call, follow(call, FLOAT64), quick)


def _judged(asked: Asked) -> dict[str, Any]:
    """Return the framework's errors in everything saved at one moment: `images`, `evaluation`, `steps`, `digests`."""
    precision, quick = asked.spec.task.precision, answers(asked, FLOAT32)
    evaluation, steps = differences(asked, quick, quick if precision == FLOAT32 else answers(asked, precision))
    found = [evaluation, *(each for step in steps for each in (step.loss, step.update))]
    if precision == FLOAT32 and any(not surplus(each) <= DOUBTFUL for each in found if each):
        evaluation, steps = differences(asked, answers(asked, FLOAT64), quick)
    return {
        "images": len(asked.test_images) if evaluation else 0,
        "evaluation": asdict(evaluation) if evaluation else None,
        "steps": [asdict(step) for step in steps],
        "digests": asdict(_digests(asked.saved)),
    }


def _digests(saved: dict[str, Array]) -> Digests:
    """Return digests of the saved arrays, each with its name."""
    hashes = {name: hashlib.sha256() for name in ("weights", "images", "answers")}
    kinds = {"weights": "weights", "batch": "images", "evaluated": "images", "loss": "answers", "logits": "answers"}
    for key in sorted(saved):
        if kind := kinds.get(key.split("/")[0]):
            hashes[kind].update(f"{key} {saved[key].dtype} {saved[key].shape} ".encode())
            hashes[kind].update(np.ascontiguousarray(saved[key]).tobytes())
    return Digests(**{name: each.hexdigest() for name, each in hashes.items()})


def judge_middle(folder: Path) -> dict[str, Any] | None:
    """Return the fields of `TrialMiddle`; None if the trial saved no middle."""
    if not (folder / MIDDLE_FILE).is_file():
        return None
    asked = read(folder, MIDDLE_FILE)
    moment = {"epoch": int(asked.saved["epoch"]), "updates": int(asked.saved["steps"])}
    if "reason" in asked.saved:
        return moment | {"reason": str(asked.saved["reason"])}
    return moment | _idle(asked) | _judged(asked)


def judge_last_evaluation(folder: Path) -> dict[str, Any] | None:
    """Return the fields of `LastEvaluation`; None if the trial saved no weights of its last evaluation."""
    if not (folder / EVALUATED_FILE).is_file():
        return None
    epochs = Job.from_json(json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))).trial.passes.epochs
    found = _judged(
        read(folder, EVALUATED_FILE, weights.load(folder / EVALUATION_FILE.format(epoch=epochs - 1))["logits"])
    )
    return {"images": found["images"], "difference": found["evaluation"]}


def _idle(asked: Asked) -> dict[str, int]:
    """Count the updates that had something left to learn, and those of them that changed no weight."""
    losses = [key for key in asked.saved if key.startswith("loss/")]
    rates, least = asked.saved.get("rates"), LEAST_RATE * asked.spec.task.optimizer.learning_rate
    found = {"asked_steps": 0, "idle_steps": 0}
    for number in range(len(losses)):
        if asked.saved[f"loss/{number}"][0] > IDLE_LOSS and (rates is None or rates[number] >= least):
            before, after = asked.weights(number), asked.weights(number + 1)
            found["asked_steps"] += 1
            found["idle_steps"] += all(np.array_equal(before[key], array) for key, array in after.items())
    return found


def main(folder: Path) -> None:
    """Print one line of JSON: everything in `TrialEnd` that the referee computes; null if not a number."""
    asked = read(folder)
    called, last = _called(asked), _last(asked)
    answer = _judged(asked) | {"call": asdict(called) if called else None, "last": asdict(last) if last else None}
    answer |= {"middle": judge_middle(folder), "last_evaluation": judge_last_evaluation(folder)}
    print(json.dumps(without_nan(answer), allow_nan=False), flush=True)


if __name__ == "__main__":
    for line in sys.stdin:
        main(Path(json.loads(line)).resolve())
