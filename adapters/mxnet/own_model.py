"""A model of the caller's code for Gluon: a Block of (n, c, h, w) float32, pixels scaled to 0..1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from adapters.own_code import PROBED, refuse_other_shape
from workloads.records.network import OwnCode


def make(make_model: Callable[[int], Any], own: OwnCode, context: mx.Context, seed: int) -> gluon.Block:
    """Make the model with the weights that it draws from the seed. Weights that it left undrawn are drawn as
    `initialize()` does by default. Raises TypeError, ValueError.
    """
    mx.random.seed(seed)
    np.random.seed(seed)  # MXNet's initializers also draw from it
    model = make_model(own.classes)
    if not isinstance(model, gluon.Block):
        raise TypeError(f"{own.function} returns a {type(model).__name__}, a gluon.Block is needed")
    parameters = model.collect_params()
    for parameter in parameters.values():
        if parameter._data is None and not parameter._deferred_init:
            parameter.initialize(ctx=context, default_init=mx.init.Uniform())
    parameters.reset_ctx(context)
    height, width, channels = own.input_shape
    logits = model(mx.nd.zeros((PROBED, channels, height, width), context))
    if not isinstance(logits, mx.nd.NDArray):
        raise TypeError(f"the model returns a {type(logits).__name__}, an array of logits is needed")
    refuse_other_shape(logits.shape, own.classes)
    return model


def statistics_bytes(model: gluon.Block) -> int:
    """Bytes of the model's non-trainable variables."""
    kept = (parameter.data() for parameter in model.collect_params().values() if parameter.grad_req == "null")
    return sum(array.size * np.dtype(array.dtype).itemsize for array in kept)
