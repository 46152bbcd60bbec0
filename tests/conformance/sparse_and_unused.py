"""Run inside TensorFlow's environment: python sparse_and_unused.py

Trains a custom model with an Embedding, whose gradient is sparse, and a weight that the loss does not depend on: whole
updates, then updates in parts. Prints the gradients' bytes in each account of memory, how far apart the weights are
after one update, and the unused weight then.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np

from adapters.tensorflow.adapter import Adapter
from workloads.records.network import OwnCode
from workloads.spec import OptimizerSpec

ROWS, WIDTH, CLASSES = 1024, 4, 3
OWN = OwnCode("tensorflow", "model.py", "make_model", "0" * 12, CLASSES, (8, 8, 1))
MOMENTUM = OptimizerSpec.named("momentum", weight_decay=0.1)
PART = 2


class Unused(keras.layers.Layer):
    """Gives its input, and has a weight."""

    def build(self, input_shape: Any) -> None:
        """Add the weight."""
        self.unused = self.add_weight(shape=(5,), initializer="ones", name="unused")

    def call(self, inputs: Any) -> Any:
        """Return the input."""
        return inputs


def make_model(classes: int) -> keras.Model:
    """Return a model that looks up each pixel's value."""
    entering = keras.Input(OWN.input_shape)
    values = keras.ops.cast(keras.layers.Flatten()(entering) * 255, "int32")
    inner = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(ROWS, WIDTH)(values))
    return keras.Model(entering, keras.layers.Dense(classes)(Unused()(inner)))


chance = np.random.default_rng(0)
adapter, order = Adapter(), np.arange(8, dtype=np.int32).reshape(2, 4)
adapter.count_memory(Path())
adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
adapter.load(chance.integers(0, 256, (8, *OWN.input_shape), np.uint8), chance.integers(0, CLASSES, 8, np.int32))
gradients, states = [], []
for part in (None, PART):
    adapter.build_model(make_model, OWN, MOMENTUM, 0)
    adapter.read(adapter.train(order[:1], part=part))
    states.append({variable.path: variable.numpy() for variable in adapter.model.trainable_variables})
    gradients.append(adapter.memory_use(order, part=part).gradients)
whole, in_parts = (list(state.values()) for state in states)
apart = max(float(np.abs(one - other).max()) for one, other in zip(whole, in_parts, strict=True))
unused = [array.tolist() for state in states for path, array in state.items() if path.endswith("unused")]
print(json.dumps({"gradients": gradients, "apart": apart, "unused": unused}))
