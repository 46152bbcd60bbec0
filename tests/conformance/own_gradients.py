"""Run inside a framework's environment: python own_gradients.py OUT_FILE FRAMEWORK

Takes the gradients of one batch by layer (`probe`) and by parameter, as for own code. Writes the norms of each array in
their order of size, and what the second call left of weights, statistics and of the next update.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]

from settings import BATCH_NORM  # noqa: E402

from adapters.base import Adapter  # noqa: E402
from adapters.worker.__main__ import adapter_for  # noqa: E402
from workloads import weights  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402

IMAGES = 12


def norms(gradients: dict[str, np.ndarray]) -> np.ndarray:
    return np.sort([float(np.linalg.norm(array.astype(np.float64))) for array in gradients.values()])


def loss_after(adapter: Adapter, asked: bool) -> tuple[float, dict[str, np.ndarray]]:
    """Return (loss of the second of two updates, the weights after it); by parameter is asked between them."""
    adapter.build(BATCH_NORM, OptimizerSpec.named("momentum"), weights.draw(BATCH_NORM, 3), 5)
    order = np.arange(IMAGES, dtype=np.int32)[None]
    adapter.read(adapter.train(order))
    if asked:
        adapter.parameter_gradients(images, labels)
    return float(adapter.read(adapter.train(order))[0]), adapter.weights()


if __name__ == "__main__":
    out, framework = sys.argv[1:]
    generator = np.random.default_rng(7)
    images = generator.integers(0, 256, (IMAGES, *BATCH_NORM.input_shape), np.uint8)
    labels = generator.integers(0, BATCH_NORM.classes, IMAGES, np.int32)
    adapter = adapter_for(framework, 1)
    adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
    adapter.load(images, labels)
    (loss, _), (asked_loss, left) = loss_after(adapter, False), loss_after(adapter, True)
    by_layer, by_parameter = adapter.probe(images, labels).gradients, adapter.parameter_gradients(images, labels)
    after = adapter.weights()
    moved = max(float(np.abs(after[key] - left[key]).max()) for key in left)
    np.savez(out, by_layer=norms(by_layer), by_parameter=norms(by_parameter), losses=[loss, asked_loss], moved=moved)
