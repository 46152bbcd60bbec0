"""A Keras model that a network was imported from, for the proof that the import is the same network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from adapters.base import Floats, SourceVerbs
from adapters.keras_shared.adapter import Computed, KerasAdapter, fill_gradient, to_numpy
from adapters.shared import function_of
from workloads.datasets import Images, Labels
from workloads.records.source_map import Mask

MASKING = ("Dropout", "SpatialDropout1D", "SpatialDropout2D", "MultiHeadAttention", "StochasticDepth")
RATES = ("rate", "drop_path_rate", "dropout")  # attributes of masking layers
OF_LOGITS = ("softmax", "sigmoid")  # the last activation, which the loss from logits replaces


class KerasSource(SourceVerbs):
    """Verbs of a source, around the adapter that has built its model."""

    def __init__(self, adapter: KerasAdapter) -> None:
        self.adapter = adapter

    @property
    def model(self) -> keras.Model:
        """Model that the user wrote."""
        return self.adapter.model

    def maker(self, path: Path, function: str) -> Callable[[int], Any]:
        if path.suffix == ".keras":
            return lambda classes: without_last_activation(keras.models.load_model(path, compile=False, safe_mode=True))
        if path.suffix == ".json":
            text = path.read_text(encoding="utf-8")
            return lambda classes: without_last_activation(keras.models.model_from_json(text))
        make_model = function_of(path, function)

        @wraps(make_model)
        def make_logits(*arguments: int, **named: int) -> keras.Model:
            return without_last_activation(make_model(*arguments, **named))

        return make_logits

    def _variables(self) -> dict[str, keras.Variable]:
        """Return {"layer/number": variable}, as files of weights do. Raises ValueError for a repeated name."""
        found: dict[str, keras.Variable] = {}
        for name, variable in list_variables(self.model, ""):
            if name in found:
                raise ValueError(f"the source has two tensors {name}: give its layers different names")
            found[name] = variable
        return found

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: np.array(variable) for name, variable in self._variables().items()}

    def set_tensors(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        variables = self._variables()
        if unknown := sorted(set(tensors) - set(variables)):
            raise ValueError(f"the source has no tensor {unknown[0]}: was its file changed after the import?")
        for name, array in tensors.items():
            variables[name].assign(np.array(array))  # a copy: a backend may keep the memory

    def count_parameters(self) -> int:
        return sum(int(np.prod(variable.shape)) for variable in self.model.trainable_variables)

    def list_masks(self, images: Images) -> list[Mask]:
        return [
            Mask(layer.name, find_covered(layer), float(rate))
            for layer in list_calls(self.model)
            if type(layer).__name__ in MASKING
            and (rate := next((value for name in RATES if (value := getattr(layer, name, None))), 0.0)) > 0
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
        trained = {name: variable for name, variable in variables.items() if variable.trainable}
        before = {name: np.array(variable) for name, variable in variables.items() if not variable.trainable}
        layers = {layer.name: layer for layer in model.layers}
        known = [place for place in dict.fromkeys(places) if place in layers and _has_one_output(layers[place])]
        network = keras.Model(model.inputs, [*(layers[place].output for place in known), model.outputs[0]])

        def compute() -> Computed:
            *outputs, logits = network(self.adapter._rescaled(ops.convert_to_tensor(images)), training=True)
            loss = self.adapter.cross_entropy(labels[:, None], logits)
            return loss, (loss, outputs)

        (loss, outputs), gradients = self.adapter.differentiate(compute, list(trained.values()))
        for name, array in before.items():
            variables[name].assign(array)
        arrays = {
            name: fill_gradient(gradient, variable)
            for (name, variable), gradient in zip(trained.items(), gradients, strict=True)
        }
        kept = {place: [to_numpy(output)] for place, output in zip(known, outputs, strict=True)}
        return float(loss), arrays, kept


def make_source(adapter: KerasAdapter) -> SourceVerbs:
    """Return the verbs of the source that this adapter builds."""
    return KerasSource(adapter)


def list_variables(layer: keras.layers.Layer, path: str) -> Iterator[tuple[str, keras.Variable]]:
    """Yield (name, variable) of a layer and of its parts: "block/conv/0". A part of a layer that is no model has the
    name of its attribute, "attention/query_dense/0".
    """
    own = [*layer._trainable_variables, *layer._non_trainable_variables]
    yield from ((f"{path}{number}", variable) for number, variable in enumerate(own))
    if isinstance(layer, keras.Model):
        parts = {each.name: each for each in layer.layers}
    else:
        parts = {name.lstrip("_"): each for name, each in vars(layer).items() if isinstance(each, keras.layers.Layer)}
    for name, part in parts.items():
        yield from list_variables(part, f"{path}{name}/")


def list_calls(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """Yield the layers in the order of computation, each once per call, those of a model inside the model in its place.

    Calls by other models are left out. A model of a class of its own has no graph: each of its layers counts once.
    """
    graph = getattr(model, "_functional", None) or model
    called = list(model.layers)
    if hasattr(graph, "_nodes_by_depth"):
        numbers = {operation: number for number, operation in enumerate(graph.operations)}
        depths = [(depth, node.operation) for depth, nodes in graph._nodes_by_depth.items() for node in nodes]
        called = [each for _, each in sorted(depths, key=lambda call: (-call[0], numbers[call[1]]))]
    for layer in called:
        if isinstance(layer, keras.Model):
            yield from list_calls(layer)
        elif isinstance(layer, keras.layers.Layer):
            yield layer


def _has_one_output(layer: keras.layers.Layer) -> bool:
    """True if the layer is called once, and gives one array."""
    return len(layer._inbound_nodes) == 1 and not isinstance(layer.output, list | tuple)


def find_covered(layer: keras.layers.Layer) -> str:
    """Return what one number of the layer's mask covers: "value", "channel", "image" or "batch"."""
    if type(layer).__name__.startswith("Spatial"):
        return "channel"
    if type(layer).__name__ == "StochasticDepth":
        return "image"
    noise = getattr(layer, "noise_shape", None)
    if noise is None:
        return "value"
    if noise[0] is not None:
        return "batch"
    return "image" if all(size == 1 for size in noise[1:]) else "channel"


def without_last_activation(model: keras.Model) -> keras.Model:
    """Return the model with logits as its output: a softmax or sigmoid at its end is made the identity.

    The end may be in a model inside the model.
    """
    last = model
    while isinstance(last, keras.Model) and getattr(last, "layers", None):
        last = last.layers[-1]
    if isinstance(last, keras.layers.Softmax):
        last.call = lambda inputs, mask=None: inputs
    elif getattr(getattr(last, "activation", None), "__name__", "") in OF_LOGITS:
        last.activation = keras.activations.linear
    return model
