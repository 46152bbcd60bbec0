"""TensorFlow with Keras 3. Default profile: the compiled step of the guide "Writing a training loop from scratch".
Tuned: all steps of a call in one compiled loop. Compiled: the default's step and evaluation, each compiled by XLA.
Fit: Keras' `fit`.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import Model
from keras.optimizers import LossScaleOptimizer

from adapters import base, kernels
from adapters.base import ALONE, LOSS_SCALE, NEVER, Count, Facts, Floats, MemoryUse, Order, Probe, Unsupported, parts
from adapters.keras_shared import optimizers
from adapters.keras_shared.adapter import Computed, KerasAdapter, to_numpy
from adapters.keras_shared.layers import LOSSES, apply
from adapters.keras_shared.training import FIT_FACTOR, FROM_HOST, Training
from adapters.shared import NO_PARTS
from adapters.tensorflow import libraries
from adapters.tensorflow.compiled import Accumulation, at_rates, gradients_by_name, in_a_loop
from adapters.tensorflow.libraries import Masks, compute_in, convolve, facts_of, onednn_is_on, take_gpus
from workloads.datasets import Images, Labels
from workloads.records.build import COMPILED, FIT, FLOAT16, TUNED
from workloads.records.network import OwnCode
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

STEPS = ("step", "train_step", "train_step_at", "looped", "looped_at", "gradients")  # compiled


class Adapter(KerasAdapter):
    devices = 1

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        self.tuned, self.fits, self.compiles = profile == TUNED, profile == FIT, profile == COMPILED
        self.execution = base.XLA if self.compiles else base.TRACED
        if self.fits and feed == "device":
            raise Unsupported(FROM_HOST)
        self.call_factor = FIT_FACTOR if self.fits else 1
        chosen = kernels.of_onednn(onednn_is_on(), convolve) if device == "cpu" else {}
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        gpus = tf.config.list_physical_devices("GPU")
        if device == "cuda" and not gpus:
            raise Unsupported("TensorFlow finds no GPU")
        take_gpus(gpus[: self.devices] if device == "cuda" else [], allocator)
        compute_in(precision)
        self.scales = precision == FLOAT16
        self.device = "/GPU:0" if device == "cuda" else "/CPU:0"
        with tf.device(self.device):
            tf.zeros(1).numpy()
        self.resident = feed == "device"
        return facts_of(device, precision, allocator) | chosen

    def make_deterministic(self) -> Facts:
        return libraries.compute_deterministically()

    def load(self, images: Images, labels: Labels) -> None:
        self.images, self.labels = images, labels
        if self.resident:
            with tf.device(self.device):
                self.images, self.labels = tf.constant(images), tf.constant(labels)

    def build(
        self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int, model: Model | None = None
    ) -> None:
        self.drop("logits", "accumulation", "training", *STEPS)
        keras.utils.set_random_seed(seed)
        self.workload, self.shapes = workload, workload.weight_shapes()
        self.outputs = {}
        with tf.device(self.device):
            if model is None:
                seeds = map(Masks, count(1000 * seed))  # one for each mask: the same seed would give the same one
                entering = keras.Input(workload.input_shape, name="images.")
                model = Model(entering, apply(workload.layers, entering, seeds, self.outputs))
            self.model = model
            for key, array in weights.items():
                self._variable(key).assign(tf.constant(self._native(key, array)) * 1)  # else it is numpy's memory
            inner = optimizers.make_optimizer(optimizer)
            rule = LossScaleOptimizer(inner, LOSS_SCALE, NEVER) if self.scales else inner
            rule.build(model.trainable_variables)
        cross_entropy = LOSSES[workload.loss]()
        images_spec = tf.TensorSpec((None, *workload.input_shape), tf.uint8)
        labels_spec = tf.TensorSpec((None,), tf.int32)

        @tf.function(input_signature=(images_spec, labels_spec), jit_compile=self.compiles or None)
        def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            loss, gradients = self.differentiated(images, labels)
            rule.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        @tf.function(input_signature=(images_spec, labels_spec, labels_spec))
        def resident_step(images: tf.Tensor, labels: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
            return step(tf.gather(images, batch), tf.gather(labels, batch))

        @tf.function(input_signature=(images_spec,), jit_compile=self.compiles or None)
        def logits(images: tf.Tensor) -> tf.Tensor:
            return tf.cast(model(self._rescaled(images), training=False), tf.float32)

        self.optimizer, self.inner, self.cross_entropy = rule, inner, cross_entropy
        self.step, self.logits, self.train_step = step, logits, resident_step if self.resident else step
        self.train_step_at = at_rates(self.train_step, inner)
        shared = (0, 1) if self.resident else ()
        self.looped = in_a_loop(self.train_step, shared)
        self.looped_at = in_a_loop(self.train_step_at, tuple(1 + place for place in shared))
        self.accumulation: Accumulation | None = None  # its state is made when it is needed
        self.gradients = tf.function(self.differentiated)  # traced when it is needed
        if self.fits:
            self.training = Training(model, workload, rule, inner)
            self.execution = base.XLA if self.training.model.jit_compile else base.TRACED  # Keras' choice

    def snapshot(self) -> Callable[[], None] | None:
        if self.devices > 1 or self.workload.draws or self.scales or self.fits:
            return None
        kept = [(each, to_numpy(each)) for each in (*self.model.variables, *self.optimizer.variables)]

        def restore() -> None:
            with tf.device(self.device):
                for variable, value in kept:
                    variable.assign(np.array(value))  # a copy: TensorFlow may keep the memory
            self.accumulation = None

        return restore

    def differentiated(
        self, images: tf.Tensor, labels: tf.Tensor, share: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return (mean loss, its gradients for the optimizer); both are multiplied by `share`, if given."""
        with tf.GradientTape() as tape:
            loss = self.cross_entropy(labels[:, None], self.model(self._rescaled(images), training=True))
            if share is not None:
                loss = loss * share
            scaled = self.optimizer.scale_loss(loss)
        return loss, tape.gradient(scaled, self.model.trainable_variables)

    def differentiate(
        self, compute: Callable[[], Computed], variables: Sequence[keras.Variable]
    ) -> tuple[Any, list[Any]]:
        with tf.device(self.device), tf.GradientTape() as tape:
            loss, computed = compute()
        return computed, tape.gradient(loss, [variable.value for variable in variables])

    def build_model(self, make_model: Callable[[int], Any], own: OwnCode, optimizer: OptimizerSpec, seed: int) -> int:
        with tf.device(self.device):
            return super().build_model(make_model, own, optimizer, seed)

    def parameter_gradients(self, images: Images, labels: Labels) -> dict[str, Floats]:
        with tf.device(self.device):
            return gradients_by_name(self, images, labels)

    def probe(self, images: Images, labels: Labels) -> Probe:
        with tf.device(self.device):
            return super().probe(images, labels)

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        with tf.device(self.device):
            if self.fits:
                return self.training.fit(self.images, self.labels, order, rates, part)
            if part is not None:
                if self.tuned:
                    raise Unsupported(NO_PARTS)
                return self._accumulated(order, rates, part)
            if self.tuned:
                inputs = self._inputs(order)
                return [self.looped(*inputs) if rates is None else self.looped_at(tf.constant(rates), *inputs)]
            if rates is None:
                return [self.train_step(*self._inputs(batch)) for batch in order]
            scalars = map(tf.constant, rates)  # one by one: on a GPU each index into a tensor is a kernel
            return [self.train_step_at(rate, *self._inputs(batch)) for rate, batch in zip(scalars, order, strict=True)]

    def _accumulated(self, order: Order, rates: Floats | None, part: int) -> list[tf.Tensor]:
        self.accumulation = accumulation = self.accumulation or Accumulation(self)
        losses = []
        for number, batch in enumerate(order):
            shared = [(tf.constant(len(piece) / len(batch)), piece) for piece in parts(batch, part)]
            losses.append(tf.add_n([accumulation.add(share, *self._inputs(piece)) for share, piece in shared]))
            if rates is None:
                accumulation.apply()
            else:
                accumulation.apply_at(tf.constant(rates[number]))
        return losses

    def _inputs(self, batch: np.ndarray) -> tuple[Any, ...]:
        """Return a batch as tensors: a compiled step also takes numpy's arrays, but more slowly."""
        if self.resident:
            return self.images, self.labels, tf.constant(batch)
        return tf.constant(self.images[batch]), tf.constant(self.labels[batch])

    def read(self, handle: list[tf.Tensor]) -> Floats:
        return np.concatenate([np.atleast_1d(np.asarray(loss, np.float32)) for loss in handle])

    def predict(self, images: Images) -> Floats:
        with tf.device(self.device):
            return self.logits(tf.constant(images)).numpy()

    def memory(self) -> dict[str, Count]:
        silence = self._explain_unknown()
        return {
            "parameters": sum(v.numpy().nbytes for v in self.model.trainable_variables),
            "gradients": self.accumulation.nbytes if self.accumulation else "they exist only inside the compiled step",
            "optimizer": sum(v.numpy().nbytes for v in self.optimizer.variables),
            "allocator_peak": silence or self._in_use()["peak"],
            "allocator_reserved": "TensorFlow does not report it",
        }

    def _in_use(self) -> dict[str, int]:
        """Return memory counts. Raises ValueError if TensorFlow keeps no statistics, as on a CPU without oneDNN."""
        return tf.config.experimental.get_memory_info(self.device[1:])

    def _explain_unknown(self) -> str | None:
        """Return why the memory in use is unknown; None if TensorFlow counts every block.

        By default it counts on a CPU only blocks of 256 KiB and more, and with oneDNN off none.
        """
        try:
            before = self._in_use()["current"]
        except ValueError as error:
            return f"TensorFlow {tf.__version__}: {error}"
        with tf.device(self.device):
            kept = tf.zeros(256)
        self.synchronize()
        if self._in_use()["current"] - before >= kept.numpy().nbytes:
            return None
        return f"TensorFlow {tf.__version__} does not count every block in use on {self.device[1:]}"

    def count_memory(self, folder: Path) -> None:
        os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"  # it counts every block; read when the device is first used

    def memory_use(self, order: Order, part: int | None = None) -> MemoryUse:
        if silence := self._explain_unknown():
            raise Unsupported(silence)

        @tf.function(input_signature=self.step.input_signature)
        def forward(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            return self.cross_entropy(labels[:, None], self.model(self._rescaled(images), training=True))

        with tf.device(self.device):
            batch = parts(order[0], part)[0]
            forward(*self._gathered(batch))  # traced, before anything is counted
            gc.collect()
            before = self._in_use()["current"]
            images, labels = self._gathered(batch)
            inputs = images.numpy().nbytes + labels.numpy().nbytes
            self.synchronize()
            outside = max(0, inputs - (self._in_use()["current"] - before))  # numpy's memory, if that was aligned
            with tf.GradientTape() as tape:
                loss = forward(images, labels)
            self.synchronize()
            held = outside + self._in_use()["current"]
            gradients = tape.gradient(loss, self.model.trainable_variables)
        kept = self.accumulation.nbytes if self.accumulation else 0
        arrays = tf.nest.flatten(gradients, expand_composites=True)  # a sparse one is the rows that it has
        sizes = kept + sum(array.numpy().nbytes for array in arrays if array is not None)
        del images, labels, tape, loss, gradients, arrays
        peaks = []
        for steps in (*order[:ALONE, None], order):  # each draws its own order of operations, hence its own peak
            tf.config.experimental.reset_memory_stats(self.device[1:])
            self.read(self.train(steps, part=part))
            peaks.append(self._in_use()["peak"])
        why = "TensorFlow counts too coarsely to show what its pools keep"
        planned = self.execution == base.XLA  # fit's, too, which Keras compiles so on a GPU
        return MemoryUse(before, inputs, held, sizes, max(peaks[:-1]), peaks[-1], why, True, planned=planned)

    def _gathered(self, batch: np.ndarray) -> tuple[Any, ...]:
        if self.resident:
            return tf.gather(self.images, batch), tf.gather(self.labels, batch)
        return self._inputs(batch)

    def synchronize(self) -> None:
        tf.test.experimental.sync_devices()

    def out_of_memory(self, error: BaseException) -> bool:
        signs = {
            "InternalError": ("CUDA_ERROR_OUT_OF_MEMORY", "Dst tensor is not initialized", "ALLOC_FAILED"),
            # oneDNN's dnnl_out_of_memory, as its kernels write it
            "AbortedError": ("received an exception:Status: 1,", "received an exception:Status:1,"),
            "DecodeError": ("Arena alloc failed",),  # protobuf's
        }.get(type(error).__name__, ())
        exhausted = any(sign in str(error) for sign in signs)
        return exhausted or isinstance(error, tf.errors.ResourceExhaustedError | MemoryError)
