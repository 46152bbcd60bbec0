"""Print what Keras' fit on TensorFlow costs in memory: numpy's arrays in one call, in images of it, and whether its
compiler plans a step's memory: without XLA, Keras' choice on a CPU, and with it, its choice on a card.
"""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import keras
import numpy as np

from adapters.tensorflow.adapter import Adapter
from workloads import weights
from workloads.layers import Dense, Flatten
from workloads.spec import OptimizerSpec, Workload

SMALL = Workload("small", "", (64, 64, 3), (Flatten("flatten"), Dense("dense", 3)))
IMAGES = np.zeros((64, *SMALL.input_shape), np.uint8)

adapter, order, planned = Adapter(), np.arange(64, dtype=np.int32).reshape(16, 4), {}
adapter.count_memory(Path())
adapter.open("cpu", 1, "fit", "float32", "host", "on-demand")
adapter.load(IMAGES, np.zeros(64, np.int32))
for xla in (False, True):
    if xla:
        keras.Model._resolve_auto_jit_compile = lambda model: True
    adapter.build(SMALL, OptimizerSpec.named("sgd"), weights.draw(SMALL, 0), 0)
    planned[adapter.execution] = adapter.memory_use(order[:1]).planned
tracemalloc.start()
adapter.train(np.tile(order, (8, 1)))
print(json.dumps({"planned": planned, "copies": tracemalloc.get_traced_memory()[1] / (8 * IMAGES.nbytes)}))
