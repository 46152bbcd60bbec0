"""What the libraries that TensorFlow has loaded tell of themselves."""

from __future__ import annotations

import tensorflow as tf


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
