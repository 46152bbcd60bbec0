"""Loop of Keras' `train_on_batch`, and `fit`, on any of its backends."""

from collections.abc import Callable
from typing import Any

import keras

Train = Callable[[Any], list[float]]  # (steps, batch) -> losses


def model_of(weights: Any) -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3), dtype="uint8"),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(32, 3, activation="relu", name="conv1"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, activation="relu", name="conv2"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, activation="relu", name="conv3"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu", name="dense1"),
            keras.layers.Dense(10, name="dense2"),
        ]
    )
    for key, array in weights.items():
        layer, role = key.split("/")
        getattr(model.get_layer(layer), role).assign(array)
    return model


def compiled_of(weights: Any) -> keras.Model:
    model = model_of(weights)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(learning_rate=0.01, momentum=0.9), loss)
    return model


def by_hand(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    """Make a loop of `train_on_batch`, which waits for each loss."""
    model = compiled_of(weights)

    def train(order: Any) -> list[float]:
        return [float(model.train_on_batch(images[batch], labels[batch])) for batch in order]

    return train


def fit(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    """Make a loop of `fit` on exactly these batches; the loss that it reports is the mean over them."""
    model = compiled_of(weights)

    def train(order: Any) -> list[float]:
        rows = order.ravel()
        history = model.fit(images[rows], labels[rows], batch_size=order.shape[1], shuffle=False, verbose=0)
        return list(history.history["loss"])

    return train


LOOPS = {"by-hand": by_hand}
FEEDS: dict[str, Any] = {}
TRAINERS = {"fit": fit}
