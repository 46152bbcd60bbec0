"""Run inside TensorFlow's environment: python again.py SOURCE_FILE.

Asks TensorFlow's version of a network, and its source, the probe about the same images three times. Prints as JSON
{rule, whose model: the three answers}: a restarted model must compute what a new one does.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE.parents[1]), str(HERE)]

import planted_imports as planted  # noqa: E402
from ask import SEED, opened  # noqa: E402
from planted_keras import KERAS_NETWORK, KERAS_SOURCE  # noqa: E402

from adapters.tensorflow.source import make_source  # noqa: E402
from adapters.worker.first_probe import ProbeUpdates, gather  # noqa: E402
from adapters.worker.source_voter import SourceVoter  # noqa: E402
from workloads.records.evidence import BATCHES  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402

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
        found[f"{rule}, {name}, restarts"] = asked.restart(task[0].without_dropout(), task[1], task[2])
print(json.dumps(found))
