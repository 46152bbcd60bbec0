"""Run inside TensorFlow's environment: python again.py SOURCE_FILE.

Asks TensorFlow's version of a network, and its source, the probe about the same images three times. Prints as JSON
{rule, whose model: the three answers}: a restored model must compute what a new one does. With a mistake planted in
`build` all three answers must have it. "lost" are the largest values of gradients of which the first is None.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE.parents[1]), str(HERE)]

import planted_imports as planted  # noqa: E402
from ask import SEED, opened  # noqa: E402
from planted_keras import KERAS_NETWORK, KERAS_SOURCE  # noqa: E402

from adapters.base import take_snapshot  # noqa: E402
from adapters.keras_shared import optimizers  # noqa: E402
from adapters.tensorflow.source import make_source  # noqa: E402
from adapters.worker.first_probe import ProbeUpdates, gather  # noqa: E402
from adapters.worker.source_voter import SourceVoter  # noqa: E402
from workloads.records.evidence import BATCHES  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402

make_optimizer = optimizers.make_optimizer


def halve_rate(spec: OptimizerSpec) -> Any:
    """Return the rule with half of its rate."""
    return make_optimizer(replace(spec, learning_rate=spec.learning_rate / 2))


def count_a_step(spec: OptimizerSpec) -> Any:
    """Return the rule with a step counted before the first one."""
    rule = make_optimizer(spec)
    rule.iterations.assign(1)
    return rule


PLANTED = {"half the rate": halve_rate, "a step too many": count_a_step}
images, labels, order = planted.draw_images()
same = np.resize(order, sum(BATCHES))  # of one draw, hence of each
adapter, file = opened("tensorflow"), Path(sys.argv[1])
adapter.build_model(make_source(adapter).maker(file, "make_model"), KERAS_SOURCE.code, planted.OPTIMIZER, SEED)
own = planted.trained(make_source(adapter).tensors())
found: dict[str, Any] = {}
for rule in ("momentum", "adam", "rmsprop"):
    task = KERAS_NETWORK, OptimizerSpec.named(rule), KERAS_SOURCE.take(own, KERAS_NETWORK.weight_shapes()), SEED
    voter = SourceVoter(adapter, make_source(adapter), KERAS_SOURCE, file, own)
    for name, asked in (("own", adapter), ("source", voter)):
        evidence = gather(asked, task, images, labels, same, ProbeUpdates(imported=True))
        found[f"{rule}, {name}"] = [{**each.to_json(), "again": []} for each in evidence.probes]
        found[f"{rule}, {name}, restored"] = take_snapshot(asked) is not None
for error, plant in PLANTED.items():
    task = KERAS_NETWORK, OptimizerSpec.named("adam"), KERAS_SOURCE.take(own, KERAS_NETWORK.weight_shapes()), SEED
    optimizers.make_optimizer = plant
    found[error] = gather(adapter, task, images, labels, same, ProbeUpdates(imported=True)).to_json()
    found[f"{error}, restored"] = take_snapshot(adapter) is not None
differentiate = adapter.differentiate


def lose_first(compute: Any, variables: Any) -> tuple[Any, list[Any]]:
    """Differentiate as usual; the first gradient is that of a variable that the loss does not depend on."""
    computed, gradients = differentiate(compute, variables)
    return computed, [None, *gradients[1:]]


adapter.differentiate = lose_first
found["lost"] = [float(np.abs(each).max()) for each in adapter.probe(images[:4], labels[:4]).gradients.values()]
print(json.dumps(found))
