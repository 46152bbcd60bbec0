"""An adapter that trains by Keras' own step alone: all that JAX's and PyTorch's have in common."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import keras
import numpy as np
from keras.optimizers import LossScaleOptimizer

from adapters.base import LOSS_SCALE, NEVER, Count, Facts, Floats, Order, Unsupported
from adapters.keras_shared.adapter import KerasAdapter, count_bytes, set_policy, to_numpy
from adapters.keras_shared.layers import LOSSES, apply
from adapters.keras_shared.optimizers import make_optimizer
from adapters.keras_shared.training import FIT_FACTOR, FROM_HOST, Batch, Training
from workloads.datasets import Images, Labels
from workloads.records.build import DEFAULT, FIT, FLOAT16
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights


class OwnStepAdapter(KerasAdapter):
    """Profile `default`: `train_on_batch`, which waits for each update's loss. Profile `fit`: one `fit` per call."""

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        if profile not in (DEFAULT, FIT):
            raise Unsupported(f"profile {profile}: Keras' own step is {DEFAULT} or {FIT}")
        if profile == FIT and feed == "device":
            raise Unsupported(FROM_HOST)
        self.fits, self.resident, self.scales = profile == FIT, feed == "device", precision == FLOAT16
        self.call_factor = FIT_FACTOR if self.fits else 1
        set_policy(precision)
        return {"keras_version": keras.__version__, "precision": precision}

    def load(self, images: Images, labels: Labels) -> None:
        self.images, self.labels = images, labels
        if self.resident:
            self.images, self.labels = (keras.ops.convert_to_tensor(np.array(each)) for each in (images, labels))

    def build(
        self,
        workload: Workload,
        optimizer: OptimizerSpec,
        weights: Weights,
        seed: int,
        model: keras.Model | None = None,
    ) -> None:
        self.drop("training")
        keras.utils.set_random_seed(seed)
        self.workload, self.shapes = workload, workload.weight_shapes()
        self.outputs = {}
        if model is None:
            generators = (keras.random.SeedGenerator(_draw_mask_seed(seed, number)) for number in count())
            entering = keras.Input(workload.input_shape, name="images.")
            model = keras.Model(entering, apply(workload.layers, entering, generators, self.outputs))
        self.model = model
        for key, array in weights.items():
            self._variable(key).assign(np.array(self._native(key, array)))  # a copy: a backend may keep the memory
        self.inner = make_optimizer(optimizer)
        self.optimizer = LossScaleOptimizer(self.inner, LOSS_SCALE, NEVER) if self.scales else self.inner
        self.optimizer.build(model.trainable_variables)
        self.cross_entropy = LOSSES[workload.loss]()
        self.training = Training(model, workload, self.optimizer, self.inner)

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[float]:
        if self.fits:
            return self.training.fit(self.images, self.labels, order, rates, part)
        return self.training.train_on_batches(self._batches(order), rates, part)

    def _batches(self, order: Order) -> Iterator[Batch]:
        for batch in order:
            if self.resident:
                yield keras.ops.take(self.images, batch, axis=0), keras.ops.take(self.labels, batch, axis=0)
            else:
                yield self.images[batch], self.labels[batch]

    def read(self, handle: list[float]) -> Floats:
        return np.array(handle, np.float32)

    def predict(self, images: Images) -> Floats:
        return np.asarray(to_numpy(self.training.model.predict_on_batch(images)), np.float32)

    def parameter_gradients(self, images: Images, labels: Labels) -> dict[str, Floats]:
        variables = self.model.trainable_variables
        kept = [(variable, to_numpy(variable)) for variable in self.model.non_trainable_weights]

        def compute() -> tuple[Any, Any]:
            logits = self.model(self._rescaled(keras.ops.convert_to_tensor(images)), training=True)
            return self.optimizer.scale_loss(self.cross_entropy(labels[:, None], logits)), ()

        _, gradients = self.differentiate(compute, variables)
        for variable, before in kept:
            variable.assign(before)
        scale, pairs = self.loss_scale, enumerate(zip(variables, gradients, strict=True))
        return {f"{number}/{each.path}": to_numpy(scaled) / scale for number, (each, scaled) in pairs}

    def memory(self) -> dict[str, Count]:
        return super().memory() | {
            "parameters": sum(map(count_bytes, self.model.trainable_variables)),
            "optimizer": sum(map(count_bytes, self.optimizer.variables)),
        }


def _draw_mask_seed(seed: int, number: int) -> int:
    """Draw the seed of a layer's masks; backends take 31 bits of it."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)
