"""Run inside the environment of Keras on JAX: python compiled_probes.py

Prints how often XLA compiles in each of three probes, and in each of three calls for the gradients of custom code.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]

from settings import BATCH_NORM  # noqa: E402

from adapters.worker.__main__ import adapter_for  # noqa: E402
from workloads import weights  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402

COMPILED = "/jax/core/compile/backend_compile_duration"
IMAGES = np.zeros((4, *BATCH_NORM.input_shape), np.uint8)
LABELS = np.zeros(4, np.int32)

events: list[str] = []
adapter = adapter_for("keras_jax", 1)
adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
adapter.load(IMAGES, LABELS)
adapter.build(BATCH_NORM, OptimizerSpec.named("momentum"), weights.draw(BATCH_NORM, 3), 5)
jax: Any = import_module("jax")
jax.monitoring.register_event_duration_secs_listener(lambda event, duration, **details: events.append(event))
counts: dict[str, list[int]] = {}
for verb in ("probe", "parameter_gradients"):
    for _ in range(3):
        events.clear()
        getattr(adapter, verb)(IMAGES, LABELS)
        counts.setdefault(verb, []).append(events.count(COMPILED))
print(json.dumps(counts))
