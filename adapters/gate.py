"""The gate's evidence from an adapter that is open and has its data loaded."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from adapters.base import Adapter, Order
from workloads.datasets import Images, Labels
from workloads.gate import EVALUATED_STEPS, LARGE, PROBE_BATCH, PROBE_STEPS, Evidence, Fingerprint, fingerprint
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights


def gather(
    adapter: Adapter,
    workload: Workload,
    optimizer: OptimizerSpec,
    weights: Weights,
    seed: int,
    images: Images,
    labels: Labels,
    order: Order,
    probed: Callable[[], None] = lambda: None,
) -> Evidence:
    """`images`, `labels` are the training split that was loaded, `order` (n,) an epoch's permutation of it.

    Builds twice: a twin without dropout for all that must agree in training, then (after calling `probed`) the
    workload itself, which is left standing, untrained.
    """
    steps = np.resize(order, PROBE_STEPS * PROBE_BATCH).reshape(PROBE_STEPS, PROBE_BATCH)
    batch = steps[0]
    adapter.build(workload.without_dropout(), optimizer, weights, seed)
    loss, outputs, gradients = _probe(adapter, images[batch], labels[batch])
    losses = list(adapter.read(adapter.train(steps[:EVALUATED_STEPS])))
    evaluation = fingerprint(adapter.predict(images[batch]))
    if workload.multiply_adds <= LARGE:
        losses.extend(adapter.read(adapter.train(steps[EVALUATED_STEPS:])))
    probed()
    adapter.build(workload, optimizer, weights, seed)
    in_order = [key for key in workload.parameter_shapes() if key in gradients]
    return Evidence(
        loss=loss,
        gradient_norm=math.sqrt(sum(norm**2 for norm, _ in gradients.values())),
        outputs=outputs,
        gradients={key: gradients[key] for key in in_order},
        losses=[float(loss) for loss in losses],
        evaluation=evaluation,
        untrained_evaluation=fingerprint(adapter.predict(images[batch])),
    )


def _probe(
    adapter: Adapter, images: Images, labels: Labels
) -> tuple[float, dict[str, Fingerprint], dict[str, Fingerprint]]:
    """(loss, outputs, gradients): the arrays themselves are gone before the trial's own model is built."""
    probe = adapter.probe(images, labels)
    outputs = {name: fingerprint(output) for name, output in probe.outputs.items()}
    return probe.loss, outputs, {key: fingerprint(gradient) for key, gradient in probe.gradients.items()}
