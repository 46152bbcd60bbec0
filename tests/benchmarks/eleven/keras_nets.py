"""Write networks of keras.applications as .keras files, in TensorFlow's environment: keras_nets.py FOLDER NAME..."""

from __future__ import annotations

import sys
from pathlib import Path

import keras

for name in sys.argv[2:]:
    keras.utils.set_random_seed(37)
    model = getattr(keras.applications, name)(weights=None, input_shape=(64, 64, 3))
    model.save(Path(sys.argv[1]) / f"{name}.keras")
