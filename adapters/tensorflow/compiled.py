"""Functions compiled around an adapter's step: loops over it, and the gradient of an update from parts of its batch."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from adapters.base import Floats
from adapters.keras_shared import optimizers
from workloads.datasets import Images, Labels


def in_a_loop(step: Any, shared: tuple[int, ...]) -> Any:
    """Run many steps in one call and return their losses. Every input of `step` has a leading axis of steps, except
    those at the indices `shared`, which all steps share.
    """
    one = step.input_signature
    specs = [spec if at in shared else tf.TensorSpec((None, *spec.shape), spec.dtype) for at, spec in enumerate(one)]

    @tf.function(input_signature=specs)
    def steps(*inputs: tf.Tensor) -> tf.Tensor:
        count = tf.shape(inputs[-1])[0]
        losses = tf.TensorArray(tf.float32, count)
        for number in tf.range(count):
            of_step = [each if at in shared else each[number] for at, each in enumerate(inputs)]
            losses = losses.write(number, step(*of_step))
        return losses.stack()

    return steps


def at_rates(step: Any, rule: keras.optimizers.Optimizer) -> Any:
    """Return the compiled step with its learning rate as the first input: traced once for all rates."""

    @tf.function(input_signature=(tf.TensorSpec((), tf.float32), *step.input_signature))
    def step_at(rate: tf.Tensor, *inputs: tf.Tensor) -> tf.Tensor:
        optimizers.set_rate(rule, rate)
        return step(*inputs)

    return step_at


class Accumulation:
    """Compiled functions around an adapter's model and optimizer, each traced once for all sizes of a part.
    `add(share, *inputs)` returns the part's loss, and `apply()` makes the update; `apply_at(rate)` makes it at that
    rate.
    """

    def __init__(self, adapter: Any) -> None:
        variables, rule = adapter.model.trainable_variables, adapter.optimizer
        sums = [tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False) for variable in variables]
        idle: set[int] = set()  # variables that the loss does not depend on, known once `add` is traced
        share_spec = tf.TensorSpec((), tf.float32)
        images_spec, labels_spec = adapter.step.input_signature

        @tf.function(input_signature=(share_spec, images_spec, labels_spec), jit_compile=adapter.compiles or None)
        def add(share: tf.Tensor, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            loss, gradients = adapter.differentiated(images, labels, share)
            for number, gradient in enumerate(gradients):
                if gradient is None:
                    idle.add(number)
                else:
                    sums[number].assign_add(gradient)
            return loss

        @tf.function(input_signature=(share_spec, images_spec, labels_spec, labels_spec))
        def resident_add(share: tf.Tensor, images: tf.Tensor, labels: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
            return add(share, tf.gather(images, batch), tf.gather(labels, batch))

        @tf.function(input_signature=())
        def apply() -> None:
            totals = [None if number in idle else total.value() for number, total in enumerate(sums)]
            rule.apply_gradients(list(zip(totals, variables, strict=True)))  # Keras skips a None, as in a whole update
            for total in sums:
                total.assign(tf.zeros_like(total))

        self.sums, self.apply = sums, apply
        self.add = resident_add if adapter.resident else add
        self.apply_at = at_rates(apply, adapter.inner)

    @property
    def nbytes(self) -> int:
        """Bytes kept between the parts."""
        return sum(total.numpy().nbytes for total in self.sums)


def gradients_by_name(adapter: Any, images: Images, labels: Labels) -> dict[str, Floats]:
    """Return the gradient of each trainable variable, without the loss's scale; no variable changes but masks' seeds.

    A variable that the loss does not depend on is left out.
    """
    kept = [(variable, variable.numpy()) for variable in adapter.model.non_trainable_weights]  # no seed is among them
    _, scaled = adapter.gradients(tf.constant(images), tf.constant(labels))
    for variable, before in kept:
        variable.assign(before)
    scale, pairs = adapter.loss_scale, enumerate(zip(adapter.model.trainable_variables, scaled, strict=True))
    found = {f"{number}/{variable.path}": gradient for number, (variable, gradient) in pairs}
    return {
        name: tf.convert_to_tensor(gradient).numpy() / scale for name, gradient in found.items() if gradient is not None
    }
