"""How far rounding may move a trial's first losses, and what the gate asks to learn that.

A flagged trial's probe is asked again from weights that are off by rounding (docs/reference/tolerances.md).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from runner.gate.sizes import compare
from runner.input_files import write
from runner.launch import Launcher, LaunchFailed, Unavailable
from workloads import schedules, weights
from workloads.records.evidence import Evidence
from workloads.records.job import Installation, TrialSpec
from workloads.records.result import Epoch
from workloads.spec import OptimizerSpec

# Number of updates that multiply rounding by ten. It holds at a learning rate of 0.1, summed over all updates that
# momentum makes of one gradient, or of 0.001 for rules that divide by the gradient's size.
TENFOLD = {"sgd": 10.0, "momentum": 10.0, "nesterov": 8.0, "adam": 5.0, "adamw": 5.0, "rmsprop": 3.0}
TENFOLD_RATE = {"sgd": 0.1, "momentum": 0.1, "nesterov": 0.1, "adam": 0.001, "adamw": 0.001, "rmsprop": 0.001}
SLOWEST = 60.0  # updates for a factor of ten, however small the rate
# Times what moves the probe's losses: a trial's batches are others. Of correct trials of vgg-11 the second loss was
# 3.6 times as far apart as disturbed weights moved the probe's; of a narrow ResNet-18 (AdamW at 0.003) the fifth 9.2
# times. Three times that is allowed, together with DISTURBANCES.
OTHER_BATCHES = 10

# Frameworks that can be asked, as they are installed now. A trial of another installation is not asked about.
Launchers = Mapping[tuple[str, Installation], Launcher]
Installed = Mapping[str, Installation]  # by framework
Pair = tuple[Evidence, Evidence]  # from a trial's weights, and from disturbed ones


def find_askable(installed: Installed, launchers: Mapping[str, Launcher | Unavailable]) -> Launchers:
    """Return the frameworks of a run, except those that cannot be started. Some may have no trial in it."""
    return {
        (framework, installation): launcher
        for framework, installation in installed.items()
        if not isinstance(launcher := launchers[framework], Unavailable)
    }


def disturb_weights(spec: TrialSpec, results: Path, number: int) -> TrialSpec:
    """Return the same trial with disturbed weights as its input. Raises LaunchFailed if there are none."""
    archive = io.BytesIO()
    try:
        weights.save(archive, weights.disturbed(weights.load(results / spec.inputs["weights"].path), number))
        stem = f"{spec.task.workload}-seed{spec.draw.seed}-disturbed{number}"
        return replace(spec, inputs={**spec.inputs, "weights": write(results, stem, ".npz", archive.getbuffer())})
    except (OSError, KeyError, ValueError) as error:
        raise LaunchFailed(f"no weights to disturb: {error}") from error


def compute_loss_growth(epochs: Sequence[Epoch], rule: OptimizerSpec, known: int, losses: int) -> list[float]:
    """Return the factor by which rounding of each later loss up to `losses` may exceed that of step `known`."""
    rates = np.array([rule.learning_rate], np.float64)
    if rule.changes_rate:
        rates = np.array(schedules.compute_rates(rule, sum(epoch.steps for epoch in epochs)), np.float64)
    if rule.name in ("momentum", "nesterov"):
        rates = rates / (1 - rule.momentum)
    tenfolds = np.resize(np.maximum(1 / SLOWEST, rates / (TENFOLD[rule.name] * TENFOLD_RATE[rule.name])), losses)
    return [float(10.0 ** min(100.0, grown)) for grown in np.cumsum(tenfolds[known - 1 : losses - 1])]


def compute_loss_shifts(pairs: Sequence[Pair], growth: Sequence[float] = ()) -> list[tuple[float, ...]]:
    """Return by how much each disturbance may move the loss of each step, relatively: the most of all probes up to the
    next step. A value on a kink that one training meets at some step may be met a step earlier with rounding.

    `growth` extends it to steps that the probe does not make.
    """
    by_pair = []
    for given, disturbed in pairs:
        probes = zip(given.probes, disturbed.probes, strict=False)
        by_probe = [map(compare, other.losses, probe.losses) for probe, other in probes]
        most = list(accumulate((OTHER_BATCHES * max(step) for step in zip(*by_probe, strict=False)), max))
        shifted = [*most[1:], *most[-1:]]
        by_pair.append([*shifted, *(most[-1] * times for times in growth)])
    return list(zip(*by_pair, strict=False))
