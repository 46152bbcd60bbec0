"""The verbs that Keras answers alike on every backend: a model of the contract's layers, its probe and its weights.

A backend's adapter adds how it differentiates, and its devices.
"""

from __future__ import annotations

import gc
from abc import abstractmethod
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import keras
import numpy as np
from keras import Model, ops

from adapters import base
from adapters.base import Floats, Probe
from adapters.keras_shared.layers import ROLES
from adapters.shared import PROBED, make_checked, without_layers
from workloads.datasets import Images, Labels
from workloads.records.build import BFLOAT16, FLOAT16, FLOAT32
from workloads.records.network import OwnCode
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

Computed = tuple[Any, Any]  # (the scaled loss, anything else that was computed)


class KerasAdapter(base.Adapter):
    """Verbs around `model`, which takes rescaled images, `optimizer`, `inner` and `cross_entropy`, made by `build`.

    `outputs` are the model's tensors by the name of the layer that they leave; of a user's own model there are none.
    `inner` is the rule inside of a scaler of losses, or `optimizer` itself.
    """

    workload: Workload
    shapes: dict[str, tuple[int, ...]]
    model: Model
    outputs: dict[str, Any]
    optimizer: keras.optimizers.Optimizer
    inner: keras.optimizers.Optimizer
    cross_entropy: keras.losses.Loss

    @abstractmethod
    def build(
        self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int, model: Model | None = None
    ) -> None:
        """Do what `base.Adapter.build` says; around `model`, if it is given."""

    @abstractmethod
    def differentiate(
        self, compute: Callable[[], Computed], variables: Sequence[keras.Variable]
    ) -> tuple[Any, list[Any]]:
        """Call `compute` once; return what it computed next to the loss, and the loss's gradients for `variables`.

        A gradient is None, or 0, where the loss does not depend on the variable. Statistics may change.
        """

    def drop(self, *names: str) -> None:
        """Free what an earlier `build` made, attributes of these names, before the new one."""
        for earlier in ("model", "outputs", "optimizer", "inner", *names):
            self.__dict__.pop(earlier, None)
        gc.collect()

    def build_model(self, make_model: Callable[[int], Any], own: OwnCode, optimizer: OptimizerSpec, seed: int) -> int:
        keras.utils.set_random_seed(seed)  # for the weights that the model draws

        def predict(model: Model) -> Any:
            return model(ops.zeros((PROBED, *own.input_shape)), training=False)

        model = make_checked(make_model, own, (Model, type(ops.zeros(1))), predict)
        self.build(without_layers(own), optimizer, {}, seed, model)
        return sum(map(count_bytes, model.non_trainable_variables))

    def _rescaled(self, images: Any) -> Any:
        """Return (n, h, w, c) in float32, from uint8."""
        return ops.cast(images, "float32") * np.float32(self.workload.scale)

    def _variable(self, key: str) -> keras.Variable:
        layer, role = key.split("/")
        return attrgetter(ROLES.get(role, role))(self.model.get_layer(layer))

    def _native(self, key: str, array: np.ndarray) -> np.ndarray:
        """Reshape the canonical layout to Keras': a depthwise kernel is HWC1 there, HW1C here; attention's weights
        have an axis of heads, which moves nothing.
        """
        return array.reshape(self._variable(key).shape)

    def _canonical(self, key: str, array: np.ndarray) -> np.ndarray:
        return array.reshape(self.shapes[key])

    @property
    def loss_scale(self) -> float:
        """Return what losses are multiplied by before they are differentiated: 1 if they are not scaled."""
        return float(self.optimizer.scale_loss(ops.convert_to_tensor(1.0)))

    def probe(self, images: Images, labels: Labels) -> Probe:
        layers = [layer.name for layer, _ in self.workload.walk()]
        keys = list(self.workload.parameter_shapes())
        statistics = {key: to_numpy(self._variable(key)) for key in self.workload.statistic_shapes()}
        network = Model(self.model.input, [self.outputs[name] for name in layers])

        def compute() -> Computed:
            outputs = network(self._rescaled(ops.convert_to_tensor(images)), training=True)
            loss = self.cross_entropy(labels[:, None], outputs[-1])
            return self.optimizer.scale_loss(loss), (loss, outputs)

        variables = [self._variable(key) for key in keys]
        (loss, outputs), gradients = self.differentiate(compute, variables)
        for key, before in statistics.items():
            self._variable(key).assign(before)
        scale = self.loss_scale
        return Probe(
            float(loss),
            {name: to_numpy(ops.cast(output, "float32")) for name, output in zip(layers, outputs, strict=True)},
            {
                key: self._canonical(key, fill_gradient(gradient, variable) / scale)
                for key, gradient, variable in zip(keys, gradients, variables, strict=True)
            },
        )

    def weights(self) -> Weights:
        return {key: self._canonical(key, to_numpy(self._variable(key))) for key in self.shapes}


def set_policy(precision: str) -> None:
    """Set the precision of every layer made from now on; Keras has a policy for the mixed ones alone."""
    mixed = precision in (BFLOAT16, FLOAT16)
    keras.mixed_precision.set_global_policy(f"mixed_{precision}" if mixed else FLOAT32)


def to_numpy(tensor: Any) -> Floats:
    """Return a copy of the tensor's or the variable's values."""
    return np.array(ops.convert_to_numpy(tensor))


def fill_gradient(gradient: Any, variable: keras.Variable) -> Floats:
    """Return a copy of the gradient; zeros for None, where the loss does not depend on the variable."""
    return np.zeros(variable.shape, np.float32) if gradient is None else to_numpy(gradient)


def count_bytes(variable: keras.Variable) -> int:
    """Return the bytes of the variable's values."""
    return int(np.prod(variable.shape)) * np.dtype(keras.backend.standardize_dtype(variable.dtype)).itemsize
