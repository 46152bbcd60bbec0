"""The files between the runner and the program that traces a model in its own framework.

The runner writes REQUEST_FILE: file, function, classes, input_shape (h, w, c) and seed. The program writes TRACED_FILE,
which holds {"refused": a line}, or else

    model       type of the model
    parameters  their number
    nodes       as `graph.Node`
    modules     {node: path of the module that computes it}
    sources     of each of our weights "node/role", as `SourceParameter`

and TENSORS_FILE: every tensor of the model, by the source's names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..records.network import OwnCode
from ..records.source_map import SourceMap, SourceParameter
from ..spec import Workload
from ..weights import Order, list_flattened, load
from .graph import Network, Node, build_network
from .imported import Imported, Origin
from .vocabulary import ImportRefused

REQUEST_FILE, TRACED_FILE, TENSORS_FILE = "request.json", "traced.json", "tensors.npz"


def write_request(folder: Path, file: Path, code: OwnCode, seed: int) -> None:
    """Write what the program is asked to trace."""
    asked = {
        "file": str(file.resolve()),
        "function": code.function,
        "classes": code.classes,
        "input_shape": list(code.input_shape),
        "seed": seed,
    }
    (folder / REQUEST_FILE).write_text(json.dumps(asked), encoding="utf-8")


def read_traced(folder: Path, code: OwnCode, text: bytes, name: str) -> Imported:
    """Return the network of what the program wrote. Raises ImportRefused, OSError, ValueError."""
    traced = json.loads((folder / TRACED_FILE).read_text(encoding="utf-8"))
    if "refused" in traced:
        raise ImportRefused(str(traced["refused"]))
    nodes = [Node(**node) for node in traced["nodes"]]
    summary = f"{traced['model']} of {code.file}, a PyTorch model"
    made = build_network(nodes, code.input_shape, name, summary=summary, scale=code.scale)
    workload = made.workload
    if workload.parameter_count != traced["parameters"]:
        counts = f"{traced['parameters']:,} parameters, its import {workload.parameter_count:,}"
        raise ImportRefused(f"{traced['model']}: the model has {counts}: please report this")
    layers = list_flattened(workload)
    parameters = tuple(place_parameter(SourceParameter(**each), made, layers) for each in traced["sources"])
    modules = {made.layer_of[node]: path for node, path in traced["modules"].items() if node in made.layer_of}
    source = SourceMap(replace(code, logits=count_logits(workload)), parameters, modules)
    tensors = folder / TENSORS_FILE
    weights = source.take(load(tensors), workload.weight_shapes())
    if missing := [key for key in workload.weight_shapes() if key not in weights]:
        raise ImportRefused(f"{traced['model']}: the source has no weight for {missing[0]}: please report this")
    return Imported(workload, weights, made.places, Origin(source, text, tensors))


def count_logits(workload: Workload) -> int:
    """Return the number that the model gives per image."""
    return workload.output_shape[-1]


def place_parameter(given: SourceParameter, made: Network, layers: Mapping[str, Order]) -> SourceParameter:
    """Return where a weight of ours comes from: of a layer in place of a node, features after a Flatten in our order.

    Raises ImportRefused for features of several images that are flattened and concatenated.
    """
    node, _, role = given.key.rpartition("/")
    layer = made.layer_of.get(node)
    if layer is None:
        raise ImportRefused(f"{node}: its weight {role} belongs to no layer of the network: please report this")
    placed: dict[str, Any] = {"key": f"{layer}/{role}", "axes": tuple(given.axes), "part": tuple(given.part)}
    order = layers.get(layer, ())
    if order and role != "bias":
        if len(order) != 1:
            raise ImportRefused(f"{made.places[layer]}: features of several flattened images cannot be imported")
        ((pixels, channels),) = order
        kernel = role == "kernel"
        placed |= {"shape": (-1, channels, pixels) if kernel else (channels, pixels)}
        placed |= {"axes": (2, 1, 0) if kernel else (1, 0)}
    return replace(given, **placed)
