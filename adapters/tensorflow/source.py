"""A Keras model that a network was imported from, for the proof that the import is the same network."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from adapters.base import Floats, SourceVerbs
from adapters.shared import function_of
from adapters.tensorflow.adapter import Adapter
from workloads.datasets import Images, Labels
from workloads.records.source_map import Mask

MASKING = ("Dropout", "SpatialDropout1D", "SpatialDropout2D", "MultiHeadAttention", "StochasticDepth")
RATES = ("rate", "drop_path_rate", "dropout")  # attributes of masking layers
NAMELESS = re.compile(r"/variable(_\d+)?$")  # the end of the path of a variable that its layer gives no name
OF_LOGITS = ("softmax", "sigmoid")  # the last activation, which the loss from logits replaces


class KerasSource(SourceVerbs):
    """The verbs of a source, around the adapter that has built its model."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    @property
    def model(self) -> keras.Model:
        """The user's model."""
        return self.adapter.model

    def maker(self, path: Path, function: str) -> Callable[[int], Any]:
        if path.suffix == ".keras":
            return lambda classes: without_last_activation(keras.models.load_model(path, compile=False, safe_mode=True))
        if path.suffix == ".json":
            text = path.read_text(encoding="utf-8")
            return lambda classes: without_last_activation(keras.models.model_from_json(text))
        make_model = function_of(path, function)
        return lambda classes: without_last_activation(make_model(classes))

    def _variables(self) -> dict[str, keras.Variable]:
        """Return {path: variable}. Raises ValueError if two have one path."""
        named = [(name_variable(variable), variable) for variable in self.model.weights]
        repeated = [path for path, count in Counter(path for path, _ in named).items() if count > 1]
        if repeated:
            raise ValueError(f"the source has two variables {repeated[0]}: give its layers names of their own")
        return dict(named)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: np.array(variable) for name, variable in self._variables().items()}

    def set_tensors(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        variables = self._variables()
        if unknown := sorted(set(tensors) - set(variables)):
            raise ValueError(f"the source has no tensor {unknown[0]}: was its file changed after the import?")
        for name, array in tensors.items():
            variables[name].assign(tf.constant(array) * 1)  # else it is numpy's memory

    def count_parameters(self) -> int:
        return sum(int(np.prod(variable.shape)) for variable in self.model.trainable_variables)

    def _masking(self) -> list[keras.layers.Layer]:
        layers = self.model._flatten_layers(include_self=False)
        inside = [each for layer in layers if type(layer).__name__ == "MultiHeadAttention" for each in _parts(layer)]
        return [layer for layer in layers if type(layer).__name__ in MASKING and layer not in inside]

    def list_masks(self, images: Images) -> list[Mask]:
        return [
            Mask(layer.name, find_covered(layer), float(rate))
            for layer in self._masking()
            if (rate := next((value for name in RATES if (value := getattr(layer, name, None))), 0.0)) > 0
        ]

    def stop_masks(self) -> None:
        for layer in self.model._flatten_layers(include_self=False):
            for name in RATES[:2]:
                if type(layer).__name__ in MASKING and hasattr(layer, name):
                    setattr(layer, name, 0.0)

    def keep_biased_variance(self, pixels: Mapping[str, int]) -> None:
        pass  # Keras' running variance is the contract's

    def differentiate(
        self, images: Images, labels: Labels, places: Sequence[str]
    ) -> tuple[float, dict[str, NDArray[Any]], dict[str, list[Floats]]]:
        model, variables = self.model, self._variables()
        before = {name: np.array(variable) for name, variable in variables.items() if not variable.trainable}
        layers = {layer.name: layer for layer in model.layers}
        known = [place for place in dict.fromkeys(places) if place in layers and _has_one_output(layers[place])]
        network = keras.Model(model.inputs, [*(layers[place].output for place in known), model.outputs[0]])
        with tf.device(self.adapter.device), tf.GradientTape() as tape:
            *outputs, logits = network(self.adapter._rescaled(tf.constant(images)), training=True)
            loss = self.adapter.cross_entropy(labels[:, None], logits)
        gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        for name, array in before.items():
            variables[name].assign(array)
        arrays = {
            name_variable(variable): np.zeros(variable.shape, np.float32) if gradient is None else np.asarray(gradient)
            for variable, gradient in zip(model.trainable_variables, gradients, strict=True)
        }
        kept = {place: [np.asarray(output)] for place, output in zip(known, outputs, strict=True)}
        return float(loss), arrays, kept


Source = KerasSource


def _parts(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    return list(layer._flatten_layers(include_self=False))


def _has_one_output(layer: keras.layers.Layer) -> bool:
    """True if the layer is called once and gives one array."""
    return len(layer._inbound_nodes) == 1 and not isinstance(layer.output, list | tuple)


def name_variable(variable: keras.Variable) -> str:
    """Return "layer/variable". Keras numbers nameless variables over the whole process; here they have no number."""
    return NAMELESS.sub("/variable", variable.path)


def find_covered(layer: keras.layers.Layer) -> str:
    """Return what one number of the layer's mask covers: "value", "channel" or "image"."""
    if type(layer).__name__.startswith("Spatial"):
        return "channel"
    if type(layer).__name__ == "StochasticDepth":
        return "image"
    noise = getattr(layer, "noise_shape", None)
    if noise is None:
        return "value"
    return "image" if all(size == 1 for size in noise[1:]) else "channel"


def without_last_activation(model: keras.Model) -> keras.Model:
    """Return the model with logits as its output: a softmax or sigmoid at its end is made the identity."""
    layers = getattr(model, "layers", None)
    if layers and isinstance(layers[-1], keras.layers.Softmax):
        return keras.Model(model.inputs, layers[-1].input)
    if layers and getattr(getattr(layers[-1], "activation", None), "__name__", "") in OF_LOGITS:
        layers[-1].activation = keras.activations.linear
    return model
