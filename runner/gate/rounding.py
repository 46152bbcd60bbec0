"""How far rounding may move a trial's first losses, and what the gate asks to learn what rounding does.

A flagged trial's probe is asked again from weights that are off by rounding, and then with other images
(docs/reference/tolerances.md).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from runner.gate.sizes import compare
from runner.gate.tolerances import DeviationKind, Truth, compute_deviations, find_misnamed
from runner.input_files import write, write_array
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
# A value on the other side of a kink leaves outputs as they are. It moved a gradient by at most 2e-2, and the change of
# five steps by 5e-2. A larger difference is no such accident, and other images are not asked about.
KINK = 0.05
MOVED_BY_KINKS = (DeviationKind.GRADIENTS, DeviationKind.UPDATES, DeviationKind.LOSSES, DeviationKind.EVALUATION)

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


def may_be_kink(evidence: Evidence, truth: Truth) -> bool:
    """True if whatever is not allowed in the evidence may come from values on the other side of a kink."""
    if find_misnamed(evidence, truth):
        return False
    wrong = [each for each in compute_deviations(evidence, truth) if not each.ratio <= 1]
    return bool(wrong) and all(each.kind in MOVED_BY_KINKS and each.apart <= KINK for each in wrong)


def take_other_images(spec: TrialSpec, results: Path) -> TrialSpec:
    """Return the same trial with the epoch's images from its middle on: its probe takes none that it took before, if
    there are enough. Raises LaunchFailed if the order of the images cannot be read.
    """
    try:
        epoch = np.load(results / spec.inputs["order"].path, mmap_mode="r")[:1]
        shifted = np.roll(epoch, -(epoch.shape[1] // 2), axis=1)
        order = write_array(results, f"{spec.task.dataset}-order-seed{spec.draw.seed}-shifted", shifted)
    except (OSError, KeyError, ValueError, IndexError) as error:
        raise LaunchFailed(f"no order of images to shift: {error}") from error
    return replace(spec, inputs={**spec.inputs, "order": order})


def join_probes(evidence: Evidence, other: Evidence) -> Evidence:
    """Return the evidence with the probes of both."""
    return replace(evidence, again=[*evidence.again, replace(other, again=[]), *other.again])


def join_truths(truth: Truth, other: Truth) -> Truth:
    """Return the truth of the probes of both, by the largest effect of rounding in any of them."""
    pairs = zip(truth.disturbed, other.disturbed, strict=False)
    return replace(
        truth,
        expected=join_probes(truth.expected, other.expected),
        rounded=join_probes(truth.rounded, other.rounded),
        disturbed=tuple((join_probes(a, c), join_probes(b, d)) for (a, b), (c, d) in pairs),
        widest=True,
    )


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
