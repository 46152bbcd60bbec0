"""Print the MemoryUse of two steps with plain SGD as JSON: kept_by_framework.py FRAMEWORK WORKLOAD BATCH_SIZE
FOLDER."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from workloads import weights
from workloads.networks import WORKLOADS
from workloads.spec import OptimizerSpec

framework, name, size, folder = sys.argv[1:]
workload, batch_size = WORKLOADS[name], int(size)
adapter = importlib.import_module(f"adapters.{framework}.adapter").Adapter()
adapter.count_memory(Path(folder))
adapter.open("cpu", 2, "default", "float32", "host", "on-demand")
adapter.load(np.zeros((batch_size, *workload.input_shape), np.uint8), np.zeros(batch_size, np.int32))
adapter.build(workload, OptimizerSpec.named("sgd"), weights.draw(workload, 0), 0)
order = np.arange(batch_size, dtype=np.int32)[None]
for _ in range(4 if framework == "mxnet" else 1):  # it hands out four workspaces in turn
    adapter.read(adapter.train(order))
print(json.dumps(asdict(adapter.memory_use(order))))
