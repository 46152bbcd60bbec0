"""Identities that a trial's own figures must satisfy, between counts that were made apart from one another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from runner.figures import Samples, window
from runner.launch import Outcome
from runner.meter import PERIOD_S
from workloads.trial import Check, Epoch, Event, Figure, TrialSpec

SPEED_IDENTITY, STEPS_IDENTITY = "images/s x step time = batch size", "steps of an epoch"
COUNTS = (SPEED_IDENTITY, STEPS_IDENTITY)  # a trial that miscounts has no speed and no accuracy to show


def checks(
    spec: TrialSpec,
    outcome: Outcome,
    figures: dict[str, Figure],
    epochs: list[Epoch],
    samples: Samples,
    found: dict[str, Any],
) -> list[Check]:
    """Identities between figures that were counted apart from one another, and what else casts doubt on them."""
    done: list[Check] = []
    if Event.FINISHED in found:
        detail = f"exit code {outcome.exit_code} after everything was measured"
        done.append(Check("the worker ended well", outcome.exit_code == 0, detail))
    if epochs and spec.batch_size > epochs[0].images:
        detail = f"epochs are one batch of {epochs[0].images}, the window's batches of {spec.batch_size} repeat images"
        done.append(Check("batch size <= training split", False, detail))
    images_per_s, step_time_s = figures["images_per_s"].value, figures["step_time_s"].value
    if images_per_s is not None and step_time_s is not None:
        product = images_per_s * step_time_s
        detail = f"{product:.2f} images a step, batch size {spec.batch_size}"
        done.append(Check(SPEED_IDENTITY, abs(product / spec.batch_size - 1) <= 0.01, detail))
    for number, epoch in enumerate(epochs):
        whole, rest = divmod(epoch.images, spec.batch_size)
        expected = whole + math.ceil(rest / spec.batch_size)
        if epoch.steps != expected:
            detail = f"epoch {number}: {epoch.images} images in {epoch.steps} steps, expected {expected}"
            done.append(Check(STEPS_IDENTITY, False, detail))
    if (edges := window(found)) is not None:
        times = samples["t_ns"][(samples["t_ns"] >= edges[0] - PERIOD_S * 1e9) & (samples["t_ns"] <= edges[1])]
        gap_s = float(np.diff(np.concatenate([[edges[0]], times, [edges[1]]])).max()) / 1e9
        detail = f"longest gap {gap_s:.2f} s, period {PERIOD_S} s"
        done.append(
            Check("samples cover the window", bool(np.all(np.diff(times) > 0)) and gap_s <= 3 * PERIOD_S, detail)
        )
    process, device = figures.get("process_gpu_memory_bytes"), figures.get("device_memory_bytes")
    if process and device and process.value is not None and device.value is not None:
        detail = f"{process.value / 2**20:.0f} of {device.value / 2**20:.0f} MiB"
        done.append(Check("process memory <= device memory", process.value <= device.value, detail))
    return done
