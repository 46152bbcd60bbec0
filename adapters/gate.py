"""The gate's evidence from an adapter that is open and has its data loaded."""

from __future__ import annotations

import math

import numpy as np

from adapters.base import Adapter, Order
from workloads.datasets import Images, Labels
from workloads.gate import EVALUATED_STEPS, LARGE, PROBE_BATCH, PROBE_STEPS, Evidence, fingerprint
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
) -> Evidence:
    """`images`, `labels` are the training split that was loaded, `order` (n,) an epoch's permutation of it.

    Where the workload draws masks, all that must agree in training comes from a twin without dropout.
    """
    steps = np.resize(order, PROBE_STEPS * PROBE_BATCH).reshape(PROBE_STEPS, PROBE_BATCH)
    batch = steps[0]
    adapter.build(workload, optimizer, weights, seed)
    untrained_evaluation = fingerprint(adapter.predict(images[batch]))
    if workload.draws:
        adapter.build(workload.without_dropout(), optimizer, weights, seed)
    probe = adapter.probe(images[batch], labels[batch])
    losses = list(adapter.read(adapter.train(steps[:EVALUATED_STEPS])))
    evaluation = fingerprint(adapter.predict(images[batch]))
    if workload.multiply_adds <= LARGE:
        losses.extend(adapter.read(adapter.train(steps[EVALUATED_STEPS:])))
    in_order = [key for key in workload.parameter_shapes() if key in probe.gradients]
    gradients = {key: fingerprint(probe.gradients[key]) for key in in_order}
    return Evidence(
        loss=probe.loss,
        gradient_norm=math.sqrt(sum(norm**2 for norm, _ in gradients.values())),
        outputs={name: fingerprint(output) for name, output in probe.outputs.items()},
        gradients=gradients,
        losses=[float(loss) for loss in losses],
        evaluation=evaluation,
        untrained_evaluation=untrained_evaluation,
    )
