"""Test loss and accuracy of each epoch, from the logits that the worker saved and the labels that it was not given."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.datasets import file_digest
from workloads.records.end_evidence import EVALUATION_FILE
from workloads.records.events import Evaluation, Event, Events
from workloads.records.job import TEST_LABELS, Job, Kind, TrialSpec


def evaluate_epochs(folder: Path, spec: TrialSpec, events: Events) -> tuple[Evaluation, ...]:
    """Return the evaluations that the events in this trial's folder report. Raises ValueError, with the file's name,
    if logits or labels are missing or are not of the test split.
    """
    epochs = [event.get("epoch", number) for number, event in enumerate(_evaluated(events))]
    if not epochs:
        return ()
    labels = _read_labels(folder, spec)
    again = next((event for event in reversed(events) if event["event"] == Event.EVALUATED_AGAIN), {})
    by_epoch = {epochs[-1]: again}
    return tuple(
        _evaluate(folder / EVALUATION_FILE.format(epoch=epoch), epoch, labels, by_epoch.get(epoch, {}))
        for epoch in epochs
    )


def left_logits(folder: Path, events: Events) -> bool:
    """True if the folder still has the logits of the evaluations that these events report."""
    return bool(_evaluated(events)) and (folder / EVALUATION_FILE.format(epoch=0)).is_file()


def _evaluated(events: Events) -> Events:
    return [event for event in events if event["event"] == Event.EPOCH_EVALUATED]


def _read_labels(folder: Path, spec: TrialSpec) -> NDArray[np.int32]:
    file = spec.inputs[TEST_LABELS]
    path = folder / Job(Kind.TRIAL, spec).results / file.path
    try:
        if (digest := file_digest(path, "sha256")) != file.sha256:
            raise ValueError(f"{file.path}: sha256 expected {file.sha256}, found {digest}")
        labels: NDArray[np.int32] = np.load(path)
    except OSError as error:
        raise ValueError(f"{file.path}: cannot be read: {error.strerror}") from error
    return labels


def _evaluate(path: Path, epoch: int, labels: NDArray[np.int32], again: dict[str, Any]) -> Evaluation:
    try:
        with np.load(path, allow_pickle=False) as saved:
            logits = saved["logits"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:  # a framework's process wrote it
        raise ValueError(f"{path.name}: no logits can be read: {type(error).__name__}") from error
    if logits.dtype != np.float32 or logits.ndim != 2 or len(logits) != len(labels):
        raise ValueError(f"{path.name}: logits of {len(labels)} images expected, found {logits.dtype} {logits.shape}")
    if labels.max() >= max(2, logits.shape[1]):
        raise ValueError(f"{path.name}: {logits.shape[1]} logits per image, too few for label {labels.max()}")
    loss, accuracy = compute_loss(logits, labels)
    return Evaluation(epoch, loss if math.isfinite(loss) else None, accuracy, _compare_again(logits, again))


def _compare_again(logits: NDArray[np.float32], again: dict[str, Any]) -> float | None:
    """Return how far the logits of the images in EVALUATED_AGAIN are from these, over the largest of these.

    None if there is no such event, or it has no numbers. Raises ValueError if it is not of these images.
    """
    images, values = again.get("images", []), again.get("logits", [])
    if not images or not values:
        return None
    if max(images) >= len(logits) or np.shape(values) != (len(images), logits.shape[1]):
        raise ValueError(f"{Event.EVALUATED_AGAIN}: not {logits.shape[1]} logits of each of {len(images)} test images")
    before = logits[images].astype(np.float64)
    apart = float(np.abs(np.array(values, np.float64) - before).max() / max(float(np.abs(before).max()), 1e-6))
    return apart if math.isfinite(apart) else None


def compute_loss(logits: NDArray[np.float32], labels: NDArray[np.int32]) -> tuple[float, float]:
    """Return (mean loss, accuracy 0..1) of logits (n, outputs), in float64.

    A single logit per image is that of class 1: the loss is the binary cross-entropy.
    """
    exact = logits.astype(np.float64)
    if exact.shape[1] == 1:
        exact = np.concatenate([np.zeros_like(exact), exact], axis=1)  # softmax of (0, z) is the sigmoid of z
    with np.errstate(all="ignore"):  # a training that diverged has logits that are no numbers
        shifted = exact - exact.max(axis=1, keepdims=True)
        losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]
    return float(losses.mean()), float((exact.argmax(axis=1) == labels).mean())
