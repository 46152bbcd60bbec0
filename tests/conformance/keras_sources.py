"""Write what the tests of imported networks need, in TensorFlow's environment: keras_sources.py FOLDER NAME...

For each model, of keras.applications or of OWN: its JSON, its .keras file, and its logits, by a twin in float64.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

layers = keras.layers
SHAPE, COUNT = (64, 64, 3), 2  # images whose logits are kept
OWN_SCALE = ("ResNet50", "DenseNet121", "mixed")  # take pixels / 255; the others rescale pixels themselves


def make_patches() -> Any:
    """Return a small transformer in Keras' own layers."""
    entering = keras.Input(SHAPE)
    x = layers.Rescaling(1 / 127.5, offset=-1)(entering)
    x = layers.Reshape((-1, 12))(layers.Conv2D(12, 8, strides=8)(x))
    attended = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(num_heads=3, key_dim=4)(attended, attended)
    hidden = layers.Dense(24, activation="gelu")(layers.LayerNormalization(epsilon=1e-6)(x))
    x = layers.Add()([x, layers.Dropout(0.1)(layers.Dense(12)(hidden))])
    return keras.Model(entering, layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling1D()(x)))


def make_mixed() -> Any:
    """Return a network with models inside a model, separable and grouped convolutions, and functions of keras.ops."""
    inner_entering = keras.Input((31, 31, 8))
    inner = layers.SeparableConv2D(8, 3, padding="same", activation="swish")(inner_entering)
    inner = keras.Model(inner_entering, layers.Concatenate()([inner, inner_entering]), name="inner")
    tail = keras.Sequential(
        [layers.Conv2D(8, (3, 5), groups=4), layers.BatchNormalization(center=False), layers.ReLU(6.0)]
    )
    entering = keras.Input(SHAPE)
    x = layers.ZeroPadding2D(((1, 0), (0, 1)))(entering)
    x = layers.Conv2D(8, 4, strides=2, activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=1, padding="same")(layers.ZeroPadding2D(1)(x))
    x = layers.AveragePooling2D(3, strides=1)(x)
    x = tail(inner(x))
    gate = layers.Dense(8, activation="hard_sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    x = keras.ops.multiply(x, gate)
    x = x * (layers.ReLU(6.0)(x + 3.0) / 6.0)
    x = layers.BatchNormalization(scale=False)(layers.Flatten()(layers.AveragePooling2D(4)(x)))
    return keras.Model(entering, layers.Dense(1, use_bias=False, activation="sigmoid")(x))


def make_ended() -> Any:
    """Return a model whose last layer is another model."""
    inner_entering = keras.Input(SHAPE)
    inner = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3, strides=4, activation="relu")(inner_entering))
    inner = keras.Model(inner_entering, layers.Dense(5, activation="softmax")(inner), name="inner")
    entering = keras.Input(SHAPE)
    return keras.Model(entering, inner(layers.Rescaling(1 / 255)(entering)))


OWN = {"patches": make_patches, "mixed": make_mixed, "ended": make_ended}


def make(name: str) -> Any:
    """Return a model by its name."""
    return OWN[name]() if name in OWN else getattr(keras.applications, name)(weights=None, input_shape=SHAPE)


def draw(model: Any, generator: np.random.Generator) -> None:
    """Give every variable but kernels a value of its own, so that none of them can be lost unseen."""
    for variable in model.variables:
        if "seed" in variable.path or variable.dtype != "float32":
            continue
        shape, name = tuple(variable.shape), variable.path.rpartition("/")[2]
        if name in ("gamma", "variance") or "layer_scale" in variable.path:
            variable.assign(generator.uniform(0.5, 1.5, shape))
        elif name in ("beta", "mean", "bias"):
            variable.assign(generator.normal(0, 0.1, shape))
    finalize(model)


def settle(model: Any, images: Any, generator: np.random.Generator) -> None:
    """Give every BatchNormalization about the statistics of these images: else deep layers see no image at all."""
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    model(images, training=True)
    for layer, momentum in zip(norms, momenta, strict=True):
        layer.momentum = momentum
        for variable in (layer.moving_mean, layer.moving_variance):
            variable.assign(np.asarray(variable) * generator.uniform(0.8, 1.25, variable.shape))


def compute_logits(name: str, model: Any, pixels: Any) -> Any:
    """Return the logits of the same model in float64: rounding in float32 would hide small differences."""
    keras.config.set_dtype_policy("float64")
    twin = make(name)
    keras.config.set_dtype_policy("float32")
    twin.set_weights(model.get_weights())
    finalize(twin)
    last = twin.layers[-1]
    while isinstance(last, keras.Model):
        last = last.layers[-1]
    last.activation = keras.activations.linear
    return np.asarray(twin(pixels.astype(np.float64) * (1 / 255 if name in OWN_SCALE else 1), training=False))


def finalize(model: Any) -> None:
    """Have each Normalization compute with its variables: it has copies of them."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.Normalization) and layer.input_mean is None:
            layer.finalize_state()


def main(folder: Path, names: list[str]) -> None:
    """Write NAME.json, NAME.keras and, for all of them, facts.json and logits.npz."""
    generator = np.random.Generator(np.random.PCG64(37))
    pixels = generator.integers(0, 256, (8, *SHAPE), np.uint8)
    facts: dict[str, Any] = {}
    logits: dict[str, Any] = {"pixels": pixels[:COUNT]}
    for name in names:
        model = make(name)
        images = pixels.astype(np.float32) * np.float32(1 / 255 if name in OWN_SCALE else 1)
        draw(model, generator)
        settle(model, images, generator)
        (folder / f"{name}.json").write_text(model.to_json())
        model.save(folder / f"{name}.keras")
        trained = sum(int(np.prod(each.shape)) for each in model.trainable_variables)
        running = [each for each in model.non_trainable_variables if "moving" in each.path]
        facts[name] = {"trained": trained, "running": sum(int(np.prod(each.shape)) for each in running)}
        logits[name] = compute_logits(name, model, pixels[:COUNT])
    (folder / "facts.json").write_text(json.dumps(facts))
    np.savez(folder / "logits.npz", **logits)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
