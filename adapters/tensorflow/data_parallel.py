"""TensorFlow on several devices: MirroredStrategy in a custom step, on logical CPUs or GPUs, in one process.

GPUs: written as in TensorFlow's guide, never run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from keras import Model

from adapters import base
from adapters.base import Facts, Floats, Order, Probe, Unsupported
from adapters.shared import refuse, refuse_parts, shares
from adapters.tensorflow import adapter
from adapters.tensorflow.compiled import at_rates
from workloads.datasets import Images, Labels
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

NAME = "TensorFlow"


class DataParallel(adapter.Adapter):
    """A replica on each of `devices`. Evaluation, weights and running statistics are the first one's."""

    build_model, memory_use = base.Adapter.build_model, base.Adapter.memory_use

    def __init__(self, devices: int) -> None:
        self.devices = devices

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        refuse(profile, precision, feed, NAME)
        kind = "GPU" if device == "cuda" else "CPU"
        if device == "cpu":
            (processor,) = tf.config.list_physical_devices("CPU")
            logical = [tf.config.LogicalDeviceConfiguration() for _ in range(self.devices)]
            tf.config.set_logical_device_configuration(processor, logical)
        elif (found := len(tf.config.list_physical_devices("GPU"))) < self.devices:
            raise Unsupported(f"TensorFlow finds {found} GPUs, {self.devices} are requested")
        # Logical CPUs share one pool of threads.
        facts = super().open(device, threads * self.devices, profile, precision, feed, allocator)
        self.strategy = tf.distribute.MirroredStrategy([f"/{kind}:{number}" for number in range(self.devices)])
        return facts | {"devices": self.devices, "data_parallel": "MirroredStrategy"}

    def build(
        self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int, model: Model | None = None
    ) -> None:
        with self.strategy.scope():
            super().build(workload, optimizer, weights, seed, model)
        rule, variables = self.optimizer, self.model.trainable_variables
        images_spec, labels_spec = self.step.input_signature

        def update(images: tuple[tf.Tensor, ...], labels: tuple[tf.Tensor, ...], weight: tf.Tensor) -> tf.Tensor:
            number = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
            loss, gradients = self.differentiated(images[number], labels[number], weight[number])
            rule.apply_gradients(zip(gradients, variables, strict=True))  # sums those of all replicas
            return loss

        @tf.function(
            input_signature=(
                *[images_spec] * self.devices,
                *[labels_spec] * self.devices,
                tf.TensorSpec((self.devices,), tf.float32),
            )
        )
        def step(*inputs: tf.Tensor) -> tf.Tensor:
            *arrays, weight = inputs
            losses = self.strategy.run(
                update, args=(tuple(arrays[: self.devices]), tuple(arrays[self.devices :]), weight)
            )
            return self.strategy.reduce("SUM", losses, axis=None)

        self.train_step, self.train_step_at = step, at_rates(step, self.inner)

    def probe(self, images: Images, labels: Labels) -> Probe:
        raise Unsupported("TensorFlow on several devices only runs steps: probes use one device")

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[tf.Tensor]:
        refuse_parts(part, NAME)
        return super().train(order, rates)

    def _inputs(self, batch: np.ndarray) -> tuple[Any, ...]:
        """Return each device's images, then each one's labels, then their weights (devices,) times the number of
        devices. In a replica Keras' loss divides by that number.
        """
        divided = shares(batch, self.devices)
        images = [tf.constant(self.images[share.rows]) for share in divided]
        labels = [tf.constant(self.labels[share.rows]) for share in divided]
        return *images, *labels, tf.constant([share.weight * self.devices for share in divided], tf.float32)
