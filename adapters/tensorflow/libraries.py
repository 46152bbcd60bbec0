"""TensorFlow's settings, and what its loaded libraries report about themselves."""

from __future__ import annotations

import os
from typing import Any

import keras
import tensorflow as tf

from adapters.keras_shared.adapter import set_policy
from workloads.records.build import TF32

DRAWS_APART = 2**27  # between the masks of replicas, of which there are at most 16, in a 32-bit counter


def compute_in(precision: str) -> None:
    """Set the precision of every model made from now on."""
    tf.config.experimental.enable_tensor_float_32_execution(precision == TF32)
    set_policy(precision)


def take_gpus(gpus: list[Any], allocator: str) -> None:
    """Make these GPUs, and no others, visible; call it before anything is computed."""
    tf.config.set_visible_devices(gpus, "GPU")
    for gpu in gpus if allocator == "on-demand" else []:
        tf.config.experimental.set_memory_growth(gpu, True)


def facts_of(device: str, precision: str, allocator: str) -> dict[str, Any]:
    """Return the current versions and settings."""
    build, threading = tf.sysconfig.get_build_info(), tf.config.threading
    return {
        "framework_version": tf.__version__,
        "keras_version": keras.__version__,
        "cuda_version": build.get("cuda_version") if device == "cuda" else None,
        "cudnn_version": build.get("cudnn_version") if device == "cuda" else None,
        "cudnn_autotune": os.environ.get("TF_CUDNN_USE_AUTOTUNE") != "0" if device == "cuda" else None,
        "precision": precision,
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "intra_op_threads": threading.get_intra_op_parallelism_threads(),
        "inter_op_threads": threading.get_inter_op_parallelism_threads(),
        "allocator_policy": {"cpu": "host", "cuda": "growth" if allocator == "on-demand" else "whole card"}[device],
    }


def compute_deterministically() -> dict[str, Any]:
    """Set TensorFlow's switch, and return what it then reports."""
    from tensorflow.python.framework import config  # the call that reads it is not public

    tf.config.experimental.enable_op_determinism()
    return {"op_determinism": config.is_op_determinism_enabled()}


def onednn_is_on() -> bool | None:
    """True if oneDNN is on, the default on processors with AVX-512 VNNI, AVX-VNNI or AMX; TF_ENABLE_ONEDNN_OPTS decides
    elsewhere.

    None if this TensorFlow does not report it: the call is not public.
    """
    try:
        from tensorflow.python.util import _pywrap_util_port

        return bool(_pywrap_util_port.IsMklEnabled())
    except (ImportError, AttributeError):
        return None


def convolve() -> None:
    """Compute a small convolution by oneDNN, (4, 8, 8, 3) -> (4, 8, 8, 16), on one thread."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.nn.conv2d(tf.zeros((4, 8, 8, 3)), tf.zeros((3, 3, 3, 16)), 1, "SAME").numpy()


class Masks(keras.random.SeedGenerator):
    """Seeds of a Dropout or a StochasticDepth.

    Keras has one seed for all replicas of a strategy, which would give each the same masks.
    """

    def next(self, ordered: bool = True) -> tf.Tensor:
        """Return (2,): the seed, and a draw number far from other replicas'; without a strategy it is Keras's."""
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        drawn = super().next(ordered)
        return drawn + tf.cast(tf.stack([0, number * DRAWS_APART]), drawn.dtype)
