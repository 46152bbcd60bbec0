"""Print whether Keras' fit on TensorFlow says that its compiler plans a step's memory: without XLA, Keras' choice on a
CPU, and with it, its choice on a card.
"""

from __future__ import annotations

import json
from pathlib import Path

import keras
import numpy as np

from adapters.tensorflow.adapter import Adapter
from workloads import weights
from workloads.layers import Dense, Flatten
from workloads.spec import OptimizerSpec, Workload

SMALL = Workload("small", "", (4, 4, 1), (Flatten("flatten"), Dense("dense", 3)))

adapter, order, told = Adapter(), np.arange(4, dtype=np.int32)[None], {}
adapter.count_memory(Path())
adapter.open("cpu", 1, "fit", "float32", "host", "on-demand")
adapter.load(np.zeros((4, *SMALL.input_shape), np.uint8), np.zeros(4, np.int32))
for xla in (False, True):
    if xla:
        keras.Model._resolve_auto_jit_compile = lambda model: True
    adapter.build(SMALL, OptimizerSpec.named("sgd"), weights.draw(SMALL, 0), 0)
    told[adapter.execution] = adapter.memory_use(order).planned
print(json.dumps(told))
