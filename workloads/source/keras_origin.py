"""Say how a Keras model is asked by its own framework whether its import is the same network."""

from __future__ import annotations

import hashlib

from ..records.network import OwnCode
from ..records.source_map import SourceMap, SourceParameter
from .graph import Network
from .imported import Origin
from .keras_config import KerasGraph

FRAMEWORK = "tensorflow"  # the one whose environment has Keras


def make_origin(graph: KerasGraph, made: Network, file: str, content: bytes) -> Origin:
    """Return the origin of a network that was read from a file with this content."""
    workload = made.workload
    code = OwnCode(
        FRAMEWORK,
        file,
        "",
        hashlib.sha256(content).hexdigest()[:12],
        workload.output_shape[-1],
        workload.input_shape,
        workload.scale,
    )
    parameters = tuple(
        SourceParameter(f"{made.layer_of[node]}/{role}", name)
        for (node, _, role), name in ((key.rpartition("/"), name) for key, name in graph.names.items())
    )
    kept = [(path, [made.layer_of[node] for node in nodes if node in made.layer_of]) for path, nodes in graph.calls]
    layers = {parts[-1]: path for path, parts in kept if parts}  # the last part's output is the layer's
    places = {layer.name: layers[layer.name] for layer, _ in workload.walk() if layer.name in layers}
    return Origin(SourceMap(code, parameters, places), content)
