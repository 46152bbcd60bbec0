"""Train a source's own model for three updates in float64, in its framework's environment.

source_float64.py INPUTS SOURCE OUT: INPUTS is the folder of a run's inputs, SOURCE the model that it names. OUT, an
.npz file, has what the updates changed in each tensor, by the source's names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT)]

RATE, MOMENTUM = 0.01, 0.9
SIZES = (4, 3, 4)  # images of each update, as in the gate's probe

Arrays = dict[str, NDArray[Any]]


def read_input(inputs: Path, part: str) -> Any:
    """Return the array, or the arrays, of the only input of this name."""
    (path,) = inputs.glob(f"*-{part}-*")
    return np.load(path)


def list_batches(inputs: Path) -> list[tuple[NDArray[np.float64], NDArray[np.int32]]]:
    """Return (images, labels) of each update, with pixels as the import gives them to the source."""
    (path,) = inputs.glob("*-source-*.json")
    scale = json.loads(path.read_text())["code"]["scale"]
    images, labels = read_input(inputs, "train-images") * np.float64(scale), read_input(inputs, "train-labels")
    order = read_input(inputs, "order-seed0")[0][: sum(SIZES)]
    return [(images[batch], labels[batch]) for batch in np.split(order, np.cumsum(SIZES)[:-1])]


def train_torch(inputs: Path, source: str) -> tuple[Arrays, Arrays]:
    """Return the tensors before and after."""
    import torch

    from adapters.shared import function_of

    path, function = source.rsplit(":", 1)
    make_model: Callable[..., Any] = function_of(Path(path), function)
    model = make_model()
    tensors = {name: torch.from_numpy(array) for name, array in read_source(inputs).items()}
    model.load_state_dict(tensors)
    model = model.double().train()
    for module in model.modules():
        for attribute in ("p", "dropout"):
            if isinstance(getattr(module, attribute, None), float):
                setattr(module, attribute, 0.0)
    before = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    for images, labels in list_batches(inputs):
        optimizer.zero_grad()
        pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
        torch.nn.functional.cross_entropy(model(pixels), torch.from_numpy(labels).long()).backward()
        optimizer.step()
    return before, {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def train_keras(inputs: Path, source: str) -> tuple[Arrays, Arrays]:
    """Return the variables before and after."""
    import keras
    import tensorflow as tf

    from adapters.keras_shared.source import MASKING, list_variables, without_last_activation

    saved = keras.models.load_model(source, compile=False, safe_mode=True)
    keras.config.set_floatx("float64")  # inputs, too
    keras.config.set_dtype_policy("float64")
    made = getattr(keras.applications, Path(source).stem)(weights=None, input_shape=saved.input_shape[1:])
    made.set_weights(saved.get_weights())
    model = without_last_activation(made)
    for layer in model.layers:
        if type(layer).__name__ in MASKING:
            for attribute in ("rate", "drop_path_rate"):
                if hasattr(layer, attribute):
                    setattr(layer, attribute, 0.0)
        if isinstance(layer, keras.layers.Normalization) and layer.input_mean is None:
            layer.finalize_state()
    variables = dict(list_variables(model, ""))
    before = {name: np.array(variable) for name, variable in variables.items()}
    velocities = [0.0 for _ in model.trainable_variables]
    for images, labels in list_batches(inputs):
        with tf.GradientTape() as tape:
            logits = model(tf.constant(images), training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        trained = model.trainable_variables
        for place, gradient in enumerate(tape.gradient(loss, [each.value for each in trained])):
            velocities[place] = MOMENTUM * velocities[place] + gradient
            trained[place].assign_sub(RATE * velocities[place])
    return before, {name: np.array(variable) for name, variable in variables.items()}


def read_source(inputs: Path) -> Arrays:
    """Return the source's own tensors."""
    (path,) = (each for each in inputs.glob("*-source-*.npz") if "-source-weights-" not in each.name)
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def main(inputs: Path, source: str, out: Path) -> None:
    """Write OUT."""
    before, after = (train_keras if source.endswith(".keras") else train_torch)(inputs, source)
    changes: dict[str, Any] = {name: after[name].astype(np.float64) - before[name] for name in before}
    np.savez(out, **changes)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
