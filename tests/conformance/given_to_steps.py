"""Run inside TensorFlow's environment: python given_to_steps.py

Trains and evaluates with both feeds, at one rate, at changing rates and in parts. Prints for each compiled function
whether everything that it was given was a tensor.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]

from settings import PLAIN  # noqa: E402

from adapters.tensorflow.adapter import Adapter  # noqa: E402
from workloads import weights  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402

IMAGES = np.zeros((8, *PLAIN.input_shape), np.uint8)
ORDER, RATES = np.arange(8, dtype=np.int32).reshape(2, 4), np.array([0.25, 0.5], np.float32)

given: dict[str, bool] = {}


def record(owner: Any, name: str) -> None:
    """Have calls of this function noted."""
    function: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any) -> Any:
        given[name] = given.get(name, True) and all(map(tf.is_tensor, arguments))
        return function(*arguments)

    setattr(owner, name, call)


adapter = Adapter()
adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
for resident in (False, True):
    adapter.resident = resident
    adapter.load(IMAGES, np.zeros(8, np.int32))
    adapter.build(PLAIN, OptimizerSpec.named("momentum"), weights.draw(PLAIN, 0), 0)
    adapter.train(ORDER, part=2)  # makes what accumulates
    for name in ("logits", "train_step", "train_step_at"):
        record(adapter, name)
    for name in ("add", "apply_at"):
        record(adapter.accumulation, name)
    adapter.predict(IMAGES)
    adapter.read(adapter.train(ORDER))
    adapter.read(adapter.train(ORDER, RATES))
    adapter.read(adapter.train(ORDER, RATES, part=3))
print(json.dumps(given))
