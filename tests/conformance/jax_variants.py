"""Run inside JAX's environment: the same steps in one batch, in parts, on the device, in a loop and in fewer digits.

Prints one line of JSON: how far each way's weights are from those of the plain one, relative to what they moved.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent)]

import jax  # noqa: E402
from flax import nnx  # noqa: E402

from adapters.base import Unsupported  # noqa: E402
from adapters.jax.adapter import Adapter  # noqa: E402
from adapters.jax_shared.libraries import count_allocated, take_device  # noqa: E402
from workloads import weights  # noqa: E402
from workloads.networks import WORKLOADS  # noqa: E402
from workloads.records.network import OwnCode  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402

NETWORK = WORKLOADS["tiny"]
RULE = OptimizerSpec("momentum", 0.01)
DRAWN = np.random.default_rng(0)
IMAGES = DRAWN.integers(0, 256, (48, *NETWORK.input_shape), dtype=np.uint8)
LABELS = DRAWN.integers(0, NETWORK.classes, 48).astype(np.int32)
ORDER = DRAWN.permutation(48).astype(np.int32).reshape(4, 12)
START = weights.draw(NETWORK, 0)


def opened(profile: str = "default", precision: str = "float32", feed: str = "host") -> Adapter:
    adapter = Adapter()
    adapter.open("cpu", int(os.environ["OMP_NUM_THREADS"]), profile, precision, feed, "on-demand")
    adapter.load(IMAGES, LABELS)
    adapter.build(NETWORK, RULE, START, 0)
    return adapter


def trained(adapter: Adapter, part: int | None = None) -> np.ndarray:
    """Return the change of all weights in one vector."""
    adapter.read(adapter.train(ORDER, part=part))
    return np.concatenate([(array - START[key]).ravel() for key, array in adapter.weights().items()])


class Net(nnx.Module):
    """A model as a user writes it."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        values = int(np.prod(NETWORK.input_shape))
        self.norm, self.drop = nnx.BatchNorm(values, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)
        self.dense = nnx.Linear(values, NETWORK.classes, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.dense(self.drop(self.norm(x.reshape(len(x), -1))))


class Card:
    """A card's device, as an H100 answered: `bytes_reserved` is 0 whatever the pool holds."""

    platform = "gpu"

    def memory_stats(self) -> dict[str, int]:
        return {"peak_bytes_in_use": 1028706304, "bytes_reserved": 0, "peak_pool_bytes": 1073741824}


missing = []
for platforms in ("cuda", "cuda,cpu"):  # as JAX's adapter and Keras' ask for a card, which this build cannot use
    try:
        take_device(platforms, 1, "float32", "on-demand")
    except Unsupported as error:
        missing.append(str(error))
plain = opened()
restore = plain.snapshot()
assert restore is not None
expected = trained(plain)
restore()
again = trained(plain)
ways = {
    "parts": (opened(), 5),
    "device": (opened(feed="device"), None),
    "loop": (opened("tuned", feed="device"), None),
    "bfloat16": (opened(precision="bfloat16"), None),
    "float16": (opened(precision="float16"), None),
}
apart = {
    name: float(np.linalg.norm(trained(adapter, part) - expected) / np.linalg.norm(expected))
    for name, (adapter, part) in ways.items()
}
scaled = opened(precision="float16")
scales = [float(scaled.state.scale)]
scaled.steps.workload = replace(NETWORK, scale=1e4)  # each of the four steps overflows
moved = trained(scaled)
scales.append(float(scaled.state.scale))
use = plain.memory_use(ORDER)
try:
    opened("tuned").train(ORDER, part=5)
except Unsupported as error:
    parts_refused = str(error)

own = OwnCode("jax", "net.py", "make_model", "0" * 12, NETWORK.classes, NETWORK.input_shape)
plain.build_model(lambda classes: Net(nnx.Rngs(np.random.randint(2**31))), own, RULE, 0)
gradients = plain.parameter_gradients(IMAGES[:8], LABELS[:8])
losses = plain.read(plain.train(np.tile(ORDER, (5, 1))))
try:
    jax.numpy.zeros(2**45).block_until_ready()
except jax.errors.JaxRuntimeError as error:
    refused = plain.out_of_memory(error)
print(
    json.dumps(
        {
            "apart": apart,
            "restored": bool((again == expected).all()),
            "scale": scales,
            "overflow_moves": float(np.abs(moved).max()),
            "own_gradients": float(min(np.abs(each).max() for each in gradients.values())),
            "own_losses_fall": bool(losses[-4:].mean() < losses[:4].mean()),
            "memory": {"planned": use.planned, "before": use.before, "step_peak": use.step_peak, "peak": use.peak},
            "missing": missing,
            "card": count_allocated(Card()),
            "parts_refused": parts_refused,
            "refused": [refused, plain.out_of_memory(ValueError("RESOURCE_EXHAUSTED"))],
        }
    )
)
