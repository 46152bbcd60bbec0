"""Run inside TensorFlow's environment: python keras_ends.py prints what a source makes of Keras models in models.

The JSON object has "apart", {model: largest difference of its logits from those that it has inside}, "probabilities",
the same without the source, and "masks", the names of masks in their order, and "again", those of a model that
uses one twice.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[3])]

import keras  # noqa: E402
from keras import layers  # noqa: E402

from adapters.keras_shared.source import KerasSource, without_last_activation  # noqa: E402

SHAPE = (6,)
ENDS = {  # what makes probabilities of logits
    "activation": lambda: layers.Activation("softmax"),
    "softmax": layers.Softmax,
    "sigmoid": lambda: layers.Activation("sigmoid"),
    "dense": lambda: layers.Dense(3, activation="softmax"),
}


def make_inner(end: str) -> tuple[Any, Any]:
    """Return a model with probabilities at its end, and the part of it with logits."""
    entering = keras.Input(SHAPE)
    hidden = layers.Dense(5)(entering)
    last = ENDS[end]()
    model = keras.Model(entering, last(hidden), name="inner")
    if end == "dense":
        return model, lambda images: np.asarray(model.layers[1](images)) @ np.asarray(last.kernel)  # its bias is 0
    return model, keras.Model(entering, hidden)


def wrap(where: str, inner: Any) -> Any:
    """Return the model, or a model around it, or one around that."""
    if where == "alone":
        return inner
    entering = keras.Input(SHAPE)
    if where == "functional":
        return keras.Model(entering, inner(layers.Rescaling(1.0)(entering)))
    sequential = keras.Sequential([entering, layers.Rescaling(1.0), inner])
    return sequential if where == "sequential" else keras.Sequential([keras.Input(SHAPE), sequential])


def make_masked() -> Any:
    """Return a model of masks inside and around a model in it."""
    inner_entering = keras.Input(SHAPE)
    x = layers.Dropout(0.1, name="second")(layers.Dense(5, name="a")(inner_entering))
    x = layers.Dropout(0.2, name="third")(layers.Dense(5, name="b")(x))
    inner = keras.Model(inner_entering, x, name="inner")
    entering = keras.Input(SHAPE)
    x = inner(layers.Dropout(0.3, name="first")(entering))
    return keras.Model(entering, layers.Dropout(0.4, name="fourth")(x))


def make_repeated() -> Any:
    """Return a model that uses one mask twice, around another. A second model uses it, too."""
    entering, other = keras.Input(SHAPE), keras.Input((5,))
    mask = layers.Dropout(0.1, name="twice")
    x = layers.Dropout(0.2, name="between")(layers.Dense(5)(mask(layers.Dense(5)(entering))))
    keras.Model(other, mask(other))
    return keras.Model(entering, mask(layers.Dense(5)(x)))


def list_names(model: Any) -> list[str]:
    adapter: Any = SimpleNamespace(model=model)
    return [each.name for each in KerasSource(adapter).list_masks(np.zeros((4, 1), np.uint8))]  # no images are needed


def main() -> None:
    images = np.random.Generator(np.random.PCG64(1)).normal(0, 1, (4, *SHAPE)).astype(np.float32)
    apart, probabilities = {}, {}
    for where in ("alone", "functional", "sequential", "twice"):
        for end in ENDS:
            inner, logits_of = make_inner(end)
            expected, model = np.asarray(logits_of(images)), wrap(where, inner)
            name = f"{end} {where}"
            probabilities[name] = float(np.abs(np.asarray(model(images)) - expected).max())
            apart[name] = float(np.abs(np.asarray(without_last_activation(model)(images)) - expected).max())
    masks = {"masks": list_names(make_masked()), "again": list_names(make_repeated())}
    print(json.dumps({"apart": apart, "probabilities": probabilities, **masks}))


if __name__ == "__main__":
    main()
