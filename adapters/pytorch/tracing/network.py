"""Turn a traced graph into nodes of our layer records, with the source's tensor of each of our weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import fx, nn
from torch.fx.node import map_aggregate

from .values import VECTORS, Call, Refused, Tensor, Value, shape_of

LONGEST = 80  # characters of a layer's name
# The source of one of our weights: (name of its tensor in the model, number of its part, number of parts), the parts
# being equal and along the first axis.
Part = tuple[str, int, int]


@dataclass
class Network:
    """Nodes in the order of computation, and where the weights of each come from."""

    model: nn.Module
    dropping: frozenset[str] = frozenset()  # names of the functions of dropout that drop in training
    nodes: list[dict[str, Any]] = field(default_factory=list)
    tensors: dict[str, Part] = field(default_factory=dict)  # by our key, "layer/role"
    names: set[str] = field(default_factory=set)
    modules: dict[str, str] = field(default_factory=dict)  # {node: path of the module that computes it}

    def emit(
        self,
        call: Call,
        operator: str,
        inputs: Sequence[Value],
        layout: str,
        settings: dict[str, Any] | None = None,
        tensors: dict[str, str | Part] | None = None,
    ) -> Value:
        """Add a node and return its output, which has the shape of the call's."""
        name = self._name(call)
        self.nodes.append(
            {
                "name": name,
                "operator": operator,
                "inputs": [each.node for each in inputs],
                "settings": settings or {},
                "place": _describe_place(call, tensors or {}),
            }
        )
        if call.module is not None:
            self.modules[name] = call.place
        for role, source in (tensors or {}).items():
            self.tensors[f"{name}/{role}"] = (source, 0, 1) if isinstance(source, str) else source
        return Value(name, layout, call.shape)

    def _name(self, call: Call) -> str:
        """Return a unique name for a layer: the path of its module, and of the function, if it is none."""
        words = [*call.place.split("."), call.name] if call.name else call.place.split(".")
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", "_".join(filter(None, words))).strip("_")[-(LONGEST - 6) :].lstrip("_-")
        name, number = stem, 1
        while name in self.names:
            number += 1
            name = f"{stem}_{number}"
        self.names.add(name)
        return name

    def pruned(self, last: str) -> list[dict[str, Any]]:
        """Return the nodes that the last one needs; it is the last of them."""
        needed = {last}
        for node in reversed(self.nodes):
            if node["name"] in needed:
                needed.update(node["inputs"])
        return [node for node in self.nodes if node["name"] in needed]


def _describe_place(call: Call, tensors: dict[str, str | Part]) -> str:
    """Return the path in the source and the type: a module's, or that of a parameter and the function that uses it."""
    if call.module is not None:
        return f"{call.place} ({type(call.module).__name__})"
    used = next((source for source in tensors.values() if isinstance(source, str)), "")
    place = used or call.place
    return f"{place} ({call.name})" if place else call.name


def translate(model: nn.Module, graph: fx.Graph, dropping: frozenset[str]) -> Network:
    """Return the graph as nodes of ours; the last one gives the logits. Raises Refused.

    `dropping` are the names of its functions of dropout that drop in training.
    """
    from .functions import call_function
    from .modules import call_module

    network = Network(model, dropping)
    values: dict[fx.Node, Any] = {}
    for node in graph.nodes:
        if node.op == "output":
            last = _logits(values, node).node
            network.nodes = network.pruned(last)
            _refuse_probabilities(network.nodes)
            return network
        if node.op == "placeholder":
            values[node] = _take_images(network, shape_of(node.meta["value"])) if "value" in node.meta else None
        elif node.op == "get_attr":
            values[node] = _read_attribute(model, node)
        elif "value" not in node.meta:  # a named tuple of outputs
            values[node] = map_aggregate(node.args, lambda each: _known(values, each))
        else:
            call = _record(model, node, values, dropping)
            try:
                result = call_function(network, call) if call.module is None else call_module(network, call)
            except Refused as refusal:
                refusal.place = refusal.place or call.place
                refusal.kind = refusal.kind or call.name or type(call.module).__name__
                raise
            _overwrite(values, call, result)
            values[node] = result
    raise Refused("it returns nothing")


def _take_images(network: Network, shape: tuple[int, ...]) -> Value:
    network.names.add("input")
    network.nodes.append({"name": "input", "operator": "input", "inputs": [], "settings": {}, "place": ""})
    return Value("input", "nchw", shape)


def _read_attribute(model: nn.Module, node: fx.Node) -> Any:
    """Return a parameter that the code uses directly, or the tensor of a buffer or constant."""
    value: Any = model
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return Tensor(str(node.target), tuple(value.shape)) if isinstance(value, nn.Parameter) else value


def _record(model: nn.Module, node: fx.Node, values: dict[fx.Node, Any], dropping: frozenset[str]) -> Call:
    """Return the call of a node, with our values as its arguments."""
    args, kwargs = map_aggregate((node.args, node.kwargs), lambda each: _known(values, each))
    shape = shape_of(node.meta["value"])
    if node.op == "call_module":
        return Call(str(node.target), "", args, kwargs, shape, model.get_submodule(str(node.target)))
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))
    return Call(node.meta["place"], name, args, kwargs, shape, None, node.name in dropping)


def _known(values: dict[fx.Node, Any], item: Any) -> Any:
    return values[item] if isinstance(item, fx.Node) else item


def _overwrite(values: dict[fx.Node, Any], call: Call, result: Any) -> None:
    """Follow a computation in place: everyone who reads its input later reads its output."""
    in_place = getattr(call.module, "inplace", False) or call.kwargs.get("inplace") is True
    if not in_place and not (call.name.endswith("_") and not call.name.endswith("__")):
        return
    if not isinstance(result, Value):
        return
    before = call.value.node
    for node, value in values.items():
        if isinstance(value, Value) and value.node == before:
            values[node] = replace(value, node=result.node)


def _refuse_probabilities(nodes: Sequence[dict[str, Any]]) -> None:
    """Raise Refused if the last node, seen through copies, makes probabilities: the source would keep them."""
    named = {node["name"]: node for node in nodes}
    last = nodes[-1]
    while last["operator"] == "identity":
        last = named[last["inputs"][0]]
    if last["operator"] in ("Softmax", "Sigmoid"):
        what = last["operator"].lower()
        raise Refused(f"it returns probabilities; the loss is computed from logits: remove its last {what}")


def _logits(values: dict[fx.Node, Any], node: fx.Node) -> Value:
    result = map_aggregate(node.args[0], lambda each: _known(values, each))
    if not isinstance(result, Value):
        kinds = {tuple: "a tuple", list: "a list", dict: "a dict"}
        what = next((words for kind, words in kinds.items() if isinstance(result, kind)), "no layer's output")
        raise Refused(f"its forward pass returns {what}; let it return one tensor: the logits")
    if result.layout not in VECTORS or len(result.shape) != 2:
        shape = " x ".join(map(str, result.shape[1:]))
        raise Refused(f"it returns {shape} numbers per image; let it return one logit per class")
    return result
