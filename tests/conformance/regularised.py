"""Run inside an environment with Keras: python regularised.py FRAMEWORK PROFILE prints losses as JSON.

They are those of two updates of a user's model, "plain", and of the same model with layers that add losses, "adding".
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

import keras  # noqa: E402
from keras import layers  # noqa: E402

from adapters.worker.__main__ import adapter_for  # noqa: E402
from workloads.records.network import OwnCode  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402

OWN = OwnCode("tensorflow", "net.py", "make_model", "0" * 12, 3, (4, 4, 1))
IMAGES = 8


class Adding(layers.Layer):
    """A layer that changes nothing and adds a loss."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(keras.ops.mean(inputs) * 0 + 100.0)
        return inputs


def make_plain(classes: int) -> keras.Model:
    return keras.Sequential([keras.Input(OWN.input_shape), layers.Flatten(), layers.Dense(classes)])


def make_adding(classes: int) -> keras.Model:
    head = layers.Dense(classes, kernel_regularizer=keras.regularizers.L2(1.0))
    return keras.Sequential([keras.Input(OWN.input_shape), layers.Flatten(), Adding(), head])


if __name__ == "__main__":
    framework, profile = sys.argv[1:]
    generator = np.random.default_rng(7)
    adapter = adapter_for(framework, 1)
    adapter.open("cpu", 1, profile, "float32", "host", "on-demand")
    images = generator.integers(0, 256, (IMAGES, *OWN.input_shape), np.uint8)
    adapter.load(images, generator.integers(0, OWN.classes, IMAGES, np.int32))
    losses = {}
    for name, make in (("plain", make_plain), ("adding", make_adding)):
        adapter.build_model(make, OWN, OptimizerSpec("sgd", 0.1), 5)
        order = np.arange(IMAGES, dtype=np.int32).reshape(2, -1)
        losses[name] = [float(loss) for loss in adapter.read(adapter.train(order))]
    print(json.dumps(losses))
