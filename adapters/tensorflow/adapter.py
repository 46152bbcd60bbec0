"""TensorFlow with Keras 3. Default profile: the compiled step of the guide "Writing a training loop from scratch"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adapters.base import MEMORY_KINDS, Floats, Order, Unsupported
from workloads.datasets import Images, Labels
from workloads.spec import Conv2D, Dense, Flatten, MaxPool2D, OptimizerSpec, Relu, Workload
from workloads.weights import Weights

LAYERS: dict[type, Callable[[Any], keras.layers.Layer]] = {
    Conv2D: lambda layer: keras.layers.Conv2D(layer.filters, layer.kernel, name=layer.name),
    MaxPool2D: lambda layer: keras.layers.MaxPooling2D(layer.size, name=layer.name),
    Relu: lambda layer: keras.layers.ReLU(name=layer.name),
    Flatten: lambda layer: keras.layers.Flatten(name=layer.name),
    Dense: lambda layer: keras.layers.Dense(layer.units, name=layer.name),
}


def make_optimizer(spec: OptimizerSpec) -> keras.optimizers.Optimizer:
    if spec.name == "adam":
        return keras.optimizers.Adam(spec.learning_rate, spec.beta1, spec.beta2, spec.epsilon)
    momentum = 0.0 if spec.name == "sgd" else spec.momentum
    return keras.optimizers.SGD(spec.learning_rate, momentum, nesterov=spec.name == "nesterov")


class Adapter:
    def open(self, device: str, threads: int, profile: str, feed: str) -> dict[str, Any]:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        gpus = tf.config.list_physical_devices("GPU")
        if device == "cuda" and not gpus:
            raise Unsupported("TensorFlow finds no GPU")
        tf.config.set_visible_devices(gpus[:1] if device == "cuda" else [], "GPU")
        if device == "cuda":
            tf.config.experimental.set_memory_growth(gpus[0], True)
        tf.config.experimental.enable_tensor_float_32_execution(False)
        self.device = "/GPU:0" if device == "cuda" else "/CPU:0"
        self.resident = feed == "device"
        build = tf.sysconfig.get_build_info()
        return {
            "framework_version": tf.__version__,
            "keras_version": keras.__version__,
            "cuda_version": build.get("cuda_version") if device == "cuda" else None,
            "cudnn_version": build.get("cudnn_version") if device == "cuda" else None,
            "precision": "float32",
            "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
            "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
            "allocator_policy": "memory growth" if device == "cuda" else "host",
        }

    def load(self, images: Images, labels: Labels) -> None:
        if self.resident:
            with tf.device(self.device):
                self.images, self.labels = tf.constant(images), tf.constant(labels)
        else:
            self.images, self.labels = images, labels

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights) -> None:
        with tf.device(self.device):
            model = keras.Sequential([keras.Input(workload.input_shape)])
            for layer in workload.layers:
                model.add(LAYERS[type(layer)](layer))
            for key, array in weights.items():
                layer_name, role = key.split("/")
                getattr(model.get_layer(layer_name), role).assign(array)
            rule = make_optimizer(optimizer)
            rule.build(model.trainable_variables)
        cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        images_spec = tf.TensorSpec((None, *workload.input_shape), tf.uint8)
        labels_spec = tf.TensorSpec((None,), tf.int32)

        def rescaled(images: tf.Tensor) -> tf.Tensor:
            return tf.cast(images, tf.float32) * np.float32(workload.scale)

        @tf.function(input_signature=(images_spec, labels_spec))
        def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = cross_entropy(labels, model(rescaled(images), training=True))
            rule.apply_gradients(
                zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
            )
            return loss

        @tf.function(input_signature=(labels_spec,))
        def resident_step(batch: tf.Tensor) -> tf.Tensor:
            return step(tf.gather(self.images, batch), tf.gather(self.labels, batch))

        @tf.function(input_signature=(images_spec,))
        def logits(images: tf.Tensor) -> tf.Tensor:
            return model(rescaled(images), training=False)

        self.model, self.optimizer = model, rule
        self.step, self.resident_step, self.logits = step, resident_step, logits

    def train(self, order: Order) -> list[tf.Tensor]:
        with tf.device(self.device):
            if self.resident:
                return [self.resident_step(batch) for batch in order]
            return [self.step(self.images[batch], self.labels[batch]) for batch in order]

    def read(self, handle: list[tf.Tensor]) -> Floats:
        return np.array([loss.numpy() for loss in handle], np.float32)

    def predict(self, images: Images) -> Floats:
        with tf.device(self.device):
            return self.logits(images).numpy()

    def weights(self) -> Weights:
        return {
            f"{layer.name}/{variable.name}": variable.numpy()
            for layer in self.model.layers
            for variable in layer.weights
        }

    def memory(self) -> dict[str, int | None]:
        found: dict[str, int | None] = dict.fromkeys(MEMORY_KINDS)  # gradients live inside the compiled step
        found["parameters"] = sum(v.numpy().nbytes for v in self.model.trainable_variables)
        found["optimizer"] = sum(v.numpy().nbytes for v in self.optimizer.variables)
        if self.device == "/GPU:0":
            found["allocator_peak"] = tf.config.experimental.get_memory_info("GPU:0")["peak"]
        return found

    def synchronize(self) -> None:
        tf.test.experimental.sync_devices()

    def out_of_memory(self, error: BaseException) -> bool:
        signs = ("CUDA_ERROR_OUT_OF_MEMORY", "Dst tensor is not initialized", "ALLOC_FAILED")
        told = isinstance(error, tf.errors.InternalError) and any(sign in str(error) for sign in signs)
        return told or isinstance(error, tf.errors.ResourceExhaustedError | MemoryError)
