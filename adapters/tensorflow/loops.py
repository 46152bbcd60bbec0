"""Compiled loops over a compiled step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


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
