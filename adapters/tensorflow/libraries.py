"""TensorFlow's own settings, and what the libraries that it has loaded tell of themselves."""

from __future__ import annotations

import os
from typing import Any

import keras
import tensorflow as tf

from workloads.records.build import BFLOAT16, FLOAT16, FLOAT32, TF32

MIXED = (BFLOAT16, FLOAT16)  # precisions that Keras has a policy for


def compute_in(precision: str) -> None:
    """Every model that is made from here on."""
    tf.config.experimental.enable_tensor_float_32_execution(precision == TF32)
    keras.mixed_precision.set_global_policy(f"mixed_{precision}" if precision in MIXED else FLOAT32)


def take_gpus(gpus: list[Any], allocator: str) -> None:
    """These and no others, before anything is computed."""
    tf.config.set_visible_devices(gpus, "GPU")
    for gpu in gpus if allocator == "on-demand" else []:
        tf.config.experimental.set_memory_growth(gpu, True)


def facts_of(device: str, precision: str, allocator: str) -> dict[str, Any]:
    """Versions and settings, as they are."""
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


def onednn_is_on() -> bool | None:
    """By itself, where the processor has AVX-512 VNNI, AVX-VNNI or AMX; TF_ENABLE_ONEDNN_OPTS decides it elsewhere.

    None where this TensorFlow does not tell: the call is none of its public ones.
    """
    try:
        from tensorflow.python.util import _pywrap_util_port

        return bool(_pywrap_util_port.IsMklEnabled())
    except (ImportError, AttributeError):
        return None


def convolve() -> None:
    """A small convolution by oneDNN, (4, 8, 8, 3) -> (4, 8, 8, 16), on one thread."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.nn.conv2d(tf.zeros((4, 8, 8, 3)), tf.zeros((3, 3, 3, 16)), 1, "SAME").numpy()
