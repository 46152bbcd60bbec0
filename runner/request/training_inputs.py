"""Compute a study's schedule and augmentation for its trials: learning rates by step, flips and crops by epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.request.parser import BadInput
from workloads import augmentation, schedules
from workloads.layers import Shape
from workloads.records.job import ANEW, AUGMENTATION, RATES, InputFile
from workloads.study import Study


def rates(study: Study, images: int) -> dict[str, NDArray[np.float32]]:
    """Return {"rates/BATCH_SIZE": (steps,)} for this many training images; empty where all steps have one rate.

    Raises BadInput.
    """
    if not study.optimizer_spec.changes_rate:
        return {}
    computed = {}
    for batch_size in study.batch_sizes:
        of_update = study.accumulate * study.devices * batch_size
        steps = study.epochs * schedules.steps_of(images, of_update, study.last_batch)
        try:
            computed[f"{RATES}/{batch_size}"] = schedules.rates(study.optimizer_spec.at(of_update), steps)
        except ValueError as error:
            raise BadInput(f"--warm-up {study.warm_up:g}: at batch size {batch_size} {error}") from error
    return computed


def draws(study: Study, order: NDArray[np.int32], shape: Shape, seed: int) -> dict[str, NDArray[Any]]:
    """Return {"augmentation": (epochs + 1, n, 3)} for images of `shape` (h, w, c) in an order of (epochs + 1, n).

    Empty where no image changes from epoch to epoch.
    """
    if study.augment not in ANEW:
        return {}
    epochs, count = order.shape
    return {AUGMENTATION: augmentation.draw(epochs, count, shape, seed)}


def of_batch_size(inputs: dict[str, InputFile], batch_size: int) -> dict[str, InputFile]:
    """Return the inputs of a trial at this batch size from a repeat's inputs; its rates are named RATES."""
    shared = {name: file for name, file in inputs.items() if not name.startswith(f"{RATES}/")}
    own = inputs.get(f"{RATES}/{batch_size}")
    return shared | ({RATES: own} if own else {})
