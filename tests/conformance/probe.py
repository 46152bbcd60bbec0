"""Run inside a framework's environment: python probe.py FRAMEWORK REQUEST_JSON OUT_NPZ.

Trains a few steps of one optimizer through the adapter's verbs; writes losses, final weights and logits.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from workloads import weights
from workloads.catalogue import WORKLOADS
from workloads.spec import OptimizerSpec


def main(framework: str, request: dict, out: str) -> None:
    adapter = import_module(f"adapters.{framework}.adapter").Adapter()
    adapter.open("cpu", request["threads"], "default", request["feed"])
    with np.load(request["data"]) as data:
        images, labels, order = data["images"], data["labels"], data["order"]
    workload = WORKLOADS[request["workload"]]
    adapter.load(images, labels)
    adapter.build(workload, OptimizerSpec(**request["optimizer"]), weights.draw(workload, request["seed"]))
    before = adapter.weights()
    losses = adapter.read(adapter.train(order))
    after = adapter.weights()
    arrays = {f"before/{key}": array for key, array in before.items()}
    arrays |= {f"after/{key}": array for key, array in after.items()}
    memory = json.dumps(adapter.memory())
    np.savez(out, losses=losses, logits=adapter.predict(images[:33]), memory=memory, **arrays)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
