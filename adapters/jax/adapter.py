"""JAX with optax. Default profile: the jitted step with donated buffers of JAX's and optax's guides. Tuned: all steps
of a call in one lax.scan.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
from jax import numpy as jnp

from adapters import base
from adapters.base import Count, Facts, Floats, MemoryUse, Order, Probe, Unsupported, parts
from adapters.jax.steps import Steps, network_of
from adapters.jax_shared.libraries import count_allocated, is_out_of_memory, read_facts, take_device
from adapters.shared import NO_PARTS, without_layers
from workloads.activations import pooled_values
from workloads.datasets import Images, Labels
from workloads.records.build import BFLOAT16, FLOAT16, TUNED
from workloads.records.network import OwnCode
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights


class Adapter(base.Adapter):
    execution = base.JIT

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        self.device = take_device(device, threads, precision, allocator)
        jnp.zeros(1).block_until_ready()
        self.dtype = {BFLOAT16: jnp.bfloat16, FLOAT16: jnp.float16}.get(precision, jnp.float32)
        self.scales, self.precision = precision == FLOAT16, precision
        self.tuned, self.on_device = profile == TUNED, feed == "device"
        self.state: Any = None  # a State
        self.total: Any = None  # gradients of parts, once there were some
        return read_facts(self.device, device, threads, precision, allocator) | {"optax_version": optax.__version__}

    def load(self, images: Images, labels: Labels) -> None:
        self.images, self.labels = images, labels
        self.resident: tuple[jax.Array, ...] = ()
        if self.on_device:
            self.resident = jnp.array(np.asarray(images)), jnp.array(labels)

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int) -> None:
        self._drop()
        parameters, statistics = (
            {key: jnp.array(weights[key]) for key in shapes}
            for shapes in (workload.parameter_shapes(), workload.statistic_shapes())
        )
        network = network_of(workload, self.dtype)
        self._begin(Steps(workload, optimizer, network, workload.draws, self.scales), parameters, statistics, seed)

    def _drop(self) -> None:
        self.state = self.total = None  # an earlier model is freed before the new one is made
        gc.collect()

    def _begin(self, steps: Steps, parameters: Any, statistics: Any, seed: int) -> None:
        self.steps, self.workload, self.rate = steps, steps.workload, np.float32(steps.rule.learning_rate)
        self.state = steps.start(parameters, statistics, seed)

    def snapshot(self) -> Callable[[], None] | None:
        if self.workload.draws:
            return None
        kept, rate = copied(self.state), self.rate

        def restore() -> None:
            self.state, self.rate, self.total = copied(kept), rate, None

        return restore

    def build_model(self, make_model: Callable[[int], Any], own: OwnCode, optimizer: OptimizerSpec, seed: int) -> int:
        from adapters.jax.own import take_model  # Flax is imported for own code alone

        if self.dtype != jnp.float32:
            raise Unsupported(
                f"JAX in {self.precision}: a model's own code chooses its precision (dtype= of its layers)"
            )
        self._drop()
        network, parameters, statistics, nbytes = take_model(make_model, own, seed)
        steps = Steps(without_layers(own), optimizer, network, draws=False, scales=False)
        self._begin(steps, parameters, statistics, seed)
        return nbytes

    def probe(self, images: Images, labels: Labels) -> Probe:
        loss, gradients, outputs = self._differentiated(images, labels)
        names = [layer.name for layer, _ in self.workload.walk()]  # jit sorts dictionaries
        return Probe(loss, {name: np.array(outputs[name], np.float32) for name in names}, gradients)

    def _differentiated(self, images: Images, labels: Labels) -> tuple[float, Any, dict[str, jax.Array]]:
        """Return (loss, its gradients as arrays of numpy, the layers' outputs); nothing is changed."""
        gradients, loss, _, outputs = self.steps.gradients(self.state, (images, labels))
        scale = np.float32(self.state.scale)  # 1 if losses are not scaled
        return float(loss), jax.tree.map(lambda gradient: np.array(gradient) / scale, gradients), outputs

    def parameter_gradients(self, images: Images, labels: Labels) -> dict[str, Floats]:
        gradients = jax.tree_util.tree_leaves_with_path(self._differentiated(images, labels)[1])
        return {jax.tree_util.keystr(path): gradient for path, gradient in gradients}

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[jax.Array]:
        if part is not None and self.tuned:
            raise Unsupported(NO_PARTS)
        each = np.full(len(order), self.rate) if rates is None else rates.astype(np.float32)
        self.rate = each[-1]
        if part is not None:
            return [self._accumulated(batch, rate, part) for batch, rate in zip(order, each, strict=True)]
        if self.tuned:
            self.state, losses = self.steps.loop(self.state, each, self._inputs(order), self.resident)
            return [losses]
        losses = []
        for batch, rate in zip(order, each, strict=True):
            self.state, loss = self.steps.step(self.state, rate, self._inputs(batch), self.resident)
            losses.append(loss)
        return losses

    def _accumulated(self, batch: Order, rate: np.float32, part: int) -> jax.Array:
        if self.total is None:
            self.total = jax.tree.map(jnp.zeros_like, self.state.parameters)
        losses = []
        for piece in parts(batch, part):
            inputs = np.float32(len(piece) / len(batch)), self._inputs(piece), self.resident
            self.state, self.total, loss = self.steps.add(self.state, self.total, *inputs)
            losses.append(loss)
        self.state, self.total = self.steps.apply(self.state, self.total, rate)
        return sum(losses[1:], start=losses[0])

    def _inputs(self, rows: Order) -> Any:
        """Return the batches of these rows, or the rows if the split is on the device."""
        return rows if self.resident else (self.images[rows], self.labels[rows])

    def read(self, handle: list[jax.Array]) -> Floats:
        return np.concatenate([np.atleast_1d(losses) for losses in jax.device_get(handle)])

    def predict(self, images: Images) -> Floats:
        return np.array(self.steps.logits(self.state, images))

    def weights(self) -> Weights:
        return {key: np.array(array) for key, array in (self.state.parameters | self.state.statistics).items()}

    def memory(self) -> dict[str, Count]:
        return count_allocated(self.device) | {
            "parameters": nbytes(self.state.parameters),
            "gradients": "they exist only inside the compiled step" if self.total is None else nbytes(self.total),
            "optimizer": nbytes(self.state.optimizer),
        }

    def memory_use(self, order: Order, part: int | None = None) -> MemoryUse:
        """Return what XLA planned for the compiled step. A step's arrays are its arguments and results, and temporary
        memory, which XLA shares among values that are not needed at the same time.
        """
        state, rate, batch = self.state, self.rate, parts(order[0], part)[0]
        inputs = self.images[batch].nbytes + self.labels[batch].nbytes
        before = nbytes((state, self.total, self.resident))
        if part is not None:
            share, resident = np.float32(1), self.resident
            peaks = [
                planned_bytes(self.steps.add, state, self.total, share, self._inputs(batch), resident),
                planned_bytes(self.steps.apply, state, self.total, rate) + nbytes(resident),
            ]
            step_peak = peak = max(peaks)
        elif self.tuned:
            step_peak, peak = (
                planned_bytes(self.steps.loop, state, np.full(len(rows), rate), self._inputs(rows), self.resident)
                for rows in (order[:1], order)
            )
        else:
            step_peak = planned_bytes(self.steps.step, state, rate, self._inputs(batch), self.resident)
            # Steps that are called ahead have their batches already.
            peak = step_peak + (len(order) - 1) * nbytes(self._inputs(batch))
        why = "XLA plans a whole step" if pooled_values(self.workload) else 0
        return MemoryUse(before, inputs, before, nbytes(state.parameters), step_peak, peak, why, planned=True)

    def synchronize(self) -> None:
        jax.block_until_ready((self.state, self.resident))

    def out_of_memory(self, error: BaseException) -> bool:
        return is_out_of_memory(error)


def copied(tree: Any) -> Any:
    """Return the tree with arrays of its own: a step takes those that it is given."""
    return jax.tree.map(lambda leaf: leaf.copy(), tree)


def nbytes(tree: Any) -> int:
    """Return the bytes of all arrays of numbers in it."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def planned_bytes(function: Any, *arguments: Any) -> int:
    """Return the bytes that the compiled function holds with its arguments. Raises Unsupported if XLA does not say."""
    plan = function.lower(*arguments).compile().memory_analysis()
    if plan is None:
        raise Unsupported("XLA reports no plan of memory here")
    kept = plan.argument_size_in_bytes + plan.output_size_in_bytes - plan.alias_size_in_bytes
    return int(kept + plan.temp_size_in_bytes)
