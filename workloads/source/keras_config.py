"""Read a Keras 3 model from its configuration, with json alone: Sequential, Functional, and models inside models.

The configuration is the text of `model.to_json()`, or config.json of a .keras file. No code of a model is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..layers import Shape
from ..weights import Weights
from .keras_layers import translate
from .keras_settings import LayerConfig, Part
from .vocabulary import ADD, INPUT, JOINS, MULTIPLY, SCALE, SHIFT, ImportRefused, Node

MODELS = ("Functional", "Sequential", "Model")
OPERATIONS = ("keras.src.ops.", "keras.ops.")  # modules of functions, such as keras.ops.add
QUIET = (None, False)  # values of arguments of a call that change nothing
Tensor = tuple[str, int]  # name of a layer, and which of its calls


@dataclass
class KerasGraph:
    """Nodes of a model, the places of their weights, and the modules that compute them."""

    variables: Mapping[str, Weights] | None  # {folder: {number: array}} of the weights' file, if there is one
    nodes: list[Node] = field(default_factory=list)
    weights: dict[str, tuple[str, str]] = field(default_factory=dict)  # {"node/role": folder of the file, number}
    names: dict[str, str] = field(
        default_factory=dict
    )  # {"node/role": path of the layer, and the number of its variable}
    # Calls of the layers that the model itself has, not one inside: (layer, the nodes of the call in their order).
    calls: list[tuple[str, list[str]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    input_shape: Shape = ()
    output: str = ""

    def add(self, path: str, operator: str, inputs: tuple[str, ...], place: str, **settings: Any) -> str:
        """Add a node, named after the last part of its path where that is free, and return its name."""
        taken = {node.name for node in self.nodes}
        name = path.rpartition("/")[2]
        name = path.replace("/", "_") if name in taken else name
        number = 1
        while name in taken:
            number += 1
            name = f"{path.replace('/', '_')}_{number}"
        self.nodes.append(Node(name, operator, inputs, settings, place))
        return name


def read_graph(config: Any, variables: Mapping[str, Weights] | None = None) -> KerasGraph:
    """Return the graph of a model's configuration. Raises ImportRefused."""
    graph = KerasGraph(variables)
    try:
        kind, name = config["class_name"], config["config"].get("name", "")
        _refuse_class(config, str(name))
        if kind not in MODELS:
            raise ImportRefused(f"{name} ({kind}): is not a Sequential or Functional model")
        graph.output = _read_model(graph, config, "", "", None)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        if isinstance(error, ImportRefused):
            raise
        raise ImportRefused(f"is not a configuration of a Keras 3 model: {type(error).__name__} {error}") from error
    return graph


def _refuse_class(item: Mapping[str, Any], path: str) -> None:
    """Raise ImportRefused for a class that is not Keras's own, whatever its name is."""
    module, kind = item.get("module"), item["class_name"]
    if not (module == "keras" or str(module).startswith("keras.")):
        hint = (
            "save it with Keras 3" if module is None and item.get("registered_name") is None else "build it from layers"
        )
        raise ImportRefused(
            f"{path} ({kind}): is a class of {module or 'unknown origin'}, whose code is never run; {hint}"
        )


def _read_model(graph: KerasGraph, item: Mapping[str, Any], path: str, folder: str, entering: str | None) -> str:
    """Add the nodes of a model whose input is the node `entering`, or the images; return the name of its last node."""
    config = item["config"]
    _refuse_frozen(item, path)
    below = f"{folder}/layers" if folder else "layers"
    folders = list(_name_folders(config["layers"]))
    if item["class_name"] == "Sequential":
        return _read_sequence(graph, config, path, [f"{below}/{each}" for each in folders], entering)
    ends = [_list_ends(config[which]) for which in ("input_layers", "output_layers")]
    for which, found in zip(("input", "output"), ends, strict=True):
        if len(found) != 1:
            names = ", ".join(name for name, _ in found)
            raise ImportRefused(
                f"{path or config.get('name')} ({item['class_name']}): has {len(found)} {which}s: {names}; "
                "a network here has one"
            )
    (first,), (last,) = ends
    known: dict[Tensor, str] = {}
    left = []
    for layer, place in zip(config["layers"], folders, strict=True):
        if layer["class_name"] == "InputLayer":
            known[layer["config"]["name"], 0] = entering or _enter(graph, layer["config"])
        else:
            calls = layer.get("inbound_nodes")
            left += [(layer, f"{below}/{place}", number, call) for number, call in enumerate(calls)]
    while left:
        ready = [each for each in left if all(tensor in known for tensor in _list_tensors(each[3], each[0]))]
        if not ready:
            raise ImportRefused(f"{path or config.get('name')}: its layers take outputs that no layer produces")
        for layer, place, number, call in ready:
            inputs = tuple(known[tensor] for tensor in _list_tensors(call, layer))
            known[layer["config"]["name"], number] = _read_call(graph, layer, path, place, inputs, call)
        left = [each for each in left if not any(each is done for done in ready)]
    if first not in known:
        raise ImportRefused(f"{path or config.get('name')}: its input {first[0]} is not one of its layers")
    kinds = {layer["config"]["name"]: layer["class_name"] for layer in config["layers"]}
    name, number = last
    return known[name, number - (kinds.get(name) == "Functional")]  # only here a model's own node counts


def _refuse_frozen(model: Mapping[str, Any], path: str) -> None:
    """Raise ImportRefused for a model whose weights are not trained."""
    if model["config"].get("trainable") is False:
        place = f"{path or model['config'].get('name')} ({model['class_name']})"
        raise ImportRefused(f"{place}: is frozen (trainable=False); a network here trains every weight: set it to True")


def _read_sequence(
    graph: KerasGraph, config: Mapping[str, Any], path: str, folders: list[str], entering: str | None
) -> str:
    for layer, folder in zip(config["layers"], folders, strict=True):
        if layer["class_name"] == "InputLayer":
            entering = entering or _enter(graph, layer["config"])
        else:
            if entering is None:
                entering = _enter(graph, {"name": "input", "batch_shape": config.get("build_input_shape")})
            entering = _read_call(graph, layer, path, folder, (entering,), {"args": [], "kwargs": {}})
    if entering is None:
        raise ImportRefused(f"{path or config.get('name')} (Sequential): has no layer")
    return entering


def _name_folders(layers: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the folder of each layer in the weights' file: its class in snake case, and a number from the second on."""
    counts: dict[str, int] = {}
    for layer in layers:
        if str(layer.get("module")).startswith(OPERATIONS):
            yield ""  # a function, which the file does not list
            continue
        name = _write_snake_case(layer["class_name"])
        number = counts[name] = counts.get(name, -1) + 1
        yield f"{name}_{number}" if number else name


def _write_snake_case(name: str) -> str:
    """Return a class's name as Keras writes it for a folder: BatchNormalization is batch_normalization."""
    kept = "".join(character for character in name if character.isalnum() or character == "_")
    kept = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", kept)
    return re.sub("([a-z])([A-Z])", r"\1_\2", kept).lower()


def _enter(graph: KerasGraph, config: Mapping[str, Any]) -> str:
    """Add the images' node."""
    shape, name = config.get("batch_shape"), config["name"]
    sizes = shape[1:] if isinstance(shape, list) else []
    if len(sizes) != 3 or not all(type(size) is int for size in sizes):
        raise ImportRefused(
            f"{name} (InputLayer): its shape is {shape}; build the model for images of one size: (None, h, w, channels)"
        )
    graph.input_shape = tuple(sizes)
    return graph.add(name, INPUT, (), f"{name} (InputLayer)")


def _list_ends(item: Any) -> list[Tensor]:
    """Return the tensors that a model's input_layers or output_layers name: one list, or a list or dict of them."""
    if isinstance(item, dict):
        return [end for each in item.values() for end in _list_ends(each)]
    if item and isinstance(item[0], str):
        return [(item[0], item[1])]
    return [end for each in item for end in _list_ends(each)]


def _list_tensors(call: Any, layer: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors that a call takes, in the order of its arguments."""
    if not isinstance(call, dict):
        raise ImportRefused(
            f"{layer['config'].get('name')}: was written by Keras 2; load it with Keras 3 and save it again"
        )
    found: list[Tensor] = []

    def search(value: Any) -> None:
        if isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
            name, number, output = value["config"]["keras_history"]
            if output != 0:
                raise ImportRefused(f"{name}: has several outputs; a layer here has one")
            found.append((name, number))
        elif isinstance(value, list | tuple):
            for each in value:
                search(each)
        elif isinstance(value, dict):
            search(list(value.values()))

    search(call["args"])
    search(call["kwargs"])
    return found


def _find_shape(layer: Mapping[str, Any], call: Any) -> list[Any] | None:
    """Return the shape of a layer's first input, the batch included, where the configuration says it."""
    pending = [call["args"], call["kwargs"]]
    while pending:
        value = pending.pop(0)
        if isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
            return list(value["config"]["shape"])
        if isinstance(value, list | dict):
            pending = [*(value.values() if isinstance(value, dict) else value), *pending]
    shape = (layer.get("build_config") or {}).get("input_shape")
    return shape if isinstance(shape, list) and not any(isinstance(each, list) for each in shape) else None


def _read_call(
    graph: KerasGraph,
    layer: Mapping[str, Any],
    path: str,
    folder: str,
    inputs: tuple[str, ...],
    call: Mapping[str, Any],
) -> str:
    """Add the nodes of one call of a layer; return the name of the last one."""
    kind, config = layer["class_name"], dict(layer["config"])
    path = f"{path}/{config['name']}".strip("/")
    place = f"{path} ({kind})"
    _refuse_class(layer, path)
    _refuse_arguments(call, kind, place)
    if str(layer["module"]).startswith(OPERATIONS):
        return _read_operation(graph, kind, call, inputs, path)
    if kind in MODELS:
        return _read_model(graph, layer, path, folder, inputs[0])
    shape = _find_shape(layer, call)
    variables = graph.variables.get(f"{folder}/vars", {}) if graph.variables is not None else None
    settings = LayerConfig(
        place, config, len(shape) if shape else None, shape[-1] if shape else None, variables, graph.notes
    )
    before = inputs
    parts = translate(kind, settings)
    nodes = []
    for number, part in enumerate(parts):
        named = f"{path}_{part.operator}" if number else path
        before = (_add_part(graph, part, named, folder, before, place),)
        nodes.append(before[0])
    if "/" not in path:
        graph.calls.append((path, nodes))
    return before[0]


def _add_part(graph: KerasGraph, part: Part, path: str, folder: str, inputs: tuple[str, ...], place: str) -> str:
    if part.operator not in JOINS and len(set(inputs)) != 1:
        raise ImportRefused(f"{place}: takes {len(set(inputs))} inputs; a layer here takes one")
    inputs = inputs if part.operator in JOINS else inputs[:1]
    name = graph.add(path, part.operator, inputs, place, **part.settings)
    layer = place.rpartition(" (")[0]
    for role, kept in part.weights.items():
        graph.weights[f"{name}/{role}"] = ("/".join(filter(None, (folder, kept.folder, "vars"))), str(kept.number))
        graph.names[f"{name}/{role}"] = "/".join(filter(None, (layer, kept.folder, str(kept.number))))
    return name


def _refuse_arguments(call: Mapping[str, Any], kind: str, place: str) -> None:
    """Raise ImportRefused for arguments of a call that change what the layer does."""
    for name, value in call["kwargs"].items():
        frozen = name == "training" and value is False and (kind == "BatchNormalization" or kind in MODELS)
        is_plain = not isinstance(value, dict | list)
        if frozen or (is_plain and value not in QUIET):
            raise ImportRefused(f"{place}: is called with {name}={value!r}; call it with its input alone")


def _read_operation(graph: KerasGraph, kind: str, call: Mapping[str, Any], inputs: tuple[str, ...], path: str) -> str:
    """Add a function's node: a sum, a product or a concatenation, or one with a number."""
    place = f"{path} (keras.ops {kind})"
    numbers = [each for each in call["args"] if type(each) in (int, float)]
    numbers += [value for name, value in call["kwargs"].items() if type(value) in (int, float) and name in ("x1", "x2")]
    first_is_number = bool(call["args"]) and type(call["args"][0]) in (int, float)
    if not numbers and len(inputs) > 1 and kind in ("Add", "Multiply"):
        return graph.add(path, ADD if kind == "Add" else MULTIPLY, inputs, place)
    if len(inputs) == 1 and len(numbers) == 1:
        (value,) = numbers
        if kind in ("Add", "Multiply"):
            return graph.add(path, SHIFT if kind == "Add" else SCALE, inputs, place, value=value)
        if not first_is_number and kind == "Subtract":
            return graph.add(path, SHIFT, inputs, place, value=-value)
        if not first_is_number and kind in ("Divide", "TrueDivide") and value != 0:
            return graph.add(path, SCALE, inputs, place, value=1 / value)
    raise ImportRefused(f"{place}: there is no layer for it; use a layer of keras.layers")
