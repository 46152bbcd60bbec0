"""The gradient of an update, summed over the parts of its batch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from adapters.tensorflow import optimizers


class Accumulation:
    """Compiled functions around an adapter's model and optimizer, each traced once for all sizes of a part.
    `add(share, *inputs)` returns the part's loss, and `apply()` makes the update; `apply_at(rate)` makes it at that
    rate.
    """

    def __init__(self, adapter: Any) -> None:
        variables, rule = adapter.model.trainable_variables, adapter.optimizer
        sums = [tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False) for variable in variables]
        share_spec = tf.TensorSpec((), tf.float32)
        images_spec, labels_spec = adapter.step.input_signature

        @tf.function(input_signature=(share_spec, images_spec, labels_spec))
        def add(share: tf.Tensor, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            loss, gradients = adapter.differentiated(images, labels, share)
            for total, gradient in zip(sums, gradients, strict=True):
                total.assign_add(gradient)
            return loss

        @tf.function(input_signature=(share_spec, images_spec, labels_spec, labels_spec))
        def resident_add(share: tf.Tensor, images: tf.Tensor, labels: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
            return add(share, tf.gather(images, batch), tf.gather(labels, batch))

        @tf.function(input_signature=())
        def apply() -> None:
            rule.apply_gradients([(total.value(), variable) for total, variable in zip(sums, variables, strict=True)])
            for total in sums:
                total.assign(tf.zeros_like(total))

        self.sums, self.apply = sums, apply
        self.add = resident_add if adapter.resident else add
        self.apply_at = optimizers.at_rates(apply, adapter.inner)

    @property
    def nbytes(self) -> int:
        """Bytes kept between the parts."""
        return sum(total.numpy().nbytes for total in self.sums)
