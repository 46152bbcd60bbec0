"""A model of the caller's code for Keras: a keras.Model of (n, h, w, c) float32, pixels scaled to 0..1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from adapters.own_code import PROBED, refuse_other_shape
from workloads.records.network import OwnCode


def make(make_model: Callable[[int], Any], own: OwnCode, device: str, seed: int) -> keras.Model:
    """Make the model with the weights that it draws from the seed, all built. Raises TypeError, ValueError."""
    keras.utils.set_random_seed(seed)
    with tf.device(device):
        model = make_model(own.classes)
        if not isinstance(model, keras.Model):
            raise TypeError(f"{own.function} returns a {type(model).__name__}, a keras.Model is needed")
        logits = model(tf.zeros((PROBED, *own.input_shape)), training=False)
    if not tf.is_tensor(logits):
        raise TypeError(f"the model returns a {type(logits).__name__}, a tensor of logits is needed")
    refuse_other_shape(logits.shape, own.classes)
    return model


def statistics_bytes(model: keras.Model) -> int:
    """Bytes of the model's non-trainable variables."""
    return sum(variable.numpy().nbytes for variable in model.non_trainable_variables)
