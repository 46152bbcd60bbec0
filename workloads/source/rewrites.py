"""Rewrite patterns of a graph that need no shapes: identities, hard sigmoids and swishes in pieces, lists of inputs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from .vocabulary import CONCATENATE, ERF, IDENTITY, JOINS, MULTIPLY, SCALE, SHIFT, Node

Graph = dict[str, Node]  # {name: node}, each after its inputs

RELU6, HARD_SIGMOID, HARD_SWISH, SIGMOID, SILU = "relu6", "hardsigmoid", "hardswish", "sigmoid", "silu"


def rewrite(graph: Graph) -> Graph:
    """Return the graph with one node for each pattern."""
    for change in (_see_through, _join_hard_sigmoids, _join_swishes, _join_gelus, _share_concatenations):
        graph = change(graph)
    return graph


def _see_through(graph: Graph) -> Graph:
    """Leave out what changes nothing: identities, dropouts at rate 0, joins of one branch."""

    def same(node: Node) -> bool:
        off = node.operator in ("dropout", "stochasticdepth") and node.settings.get("rate") == 0
        return off or node.operator == IDENTITY or (node.operator in JOINS and len(node.inputs) == 1)

    return _without(graph, same)


def _without(graph: Graph, drop: Callable[[Node], bool]) -> Graph:
    """Leave out these nodes of one input: who uses them uses their input."""
    instead: dict[str, str] = {}
    kept: Graph = {}
    for name, node in graph.items():
        moved = replace(node, inputs=tuple(instead.get(each, each) for each in node.inputs))
        if drop(node):
            instead[name] = moved.inputs[0]
        else:
            kept[name] = moved
    return kept


def _uses(graph: Graph) -> Mapping[str, int]:
    return Counter(name for node in graph.values() for name in node.inputs)


def _prune(graph: Graph, last: str) -> Graph:
    """Return the nodes that the last one needs."""
    needed, pending = set[str](), [last]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += graph[name].inputs
    return {name: node for name, node in graph.items() if name in needed}


def _is_constant(node: Node, operator: str, value: float) -> bool:
    return node.operator == operator and math.isclose(node.settings["value"], value, rel_tol=1e-6)


def _join_hard_sigmoids(graph: Graph) -> Graph:
    """Relu6(x + 3) / 6 is one HardSigmoid."""
    last = list(graph)[-1]
    found = dict(graph)
    for name, node in graph.items():
        if not _is_constant(node, SCALE, 1 / 6):
            continue
        clipped = graph[node.inputs[0]]
        shifted = graph[clipped.inputs[0]] if clipped.operator == RELU6 else clipped
        if clipped.operator == RELU6 and _is_constant(shifted, SHIFT, 3):
            found[name] = replace(node, operator=HARD_SIGMOID, inputs=shifted.inputs, settings={})
    return _prune(found, last)


def _join_swishes(graph: Graph) -> Graph:
    """The product of x and its HardSigmoid is a HardSwish, that of x and its Sigmoid a Silu.

    x Relu6(x + 3) / 6 may also be divided last.
    """
    last = list(graph)[-1]
    found = dict(graph)
    for name, node in graph.items():
        if _is_constant(node, SCALE, 1 / 6) and graph[node.inputs[0]].operator == MULTIPLY:
            entering = _gated(graph, graph[node.inputs[0]], RELU6)
            if entering and _is_constant(graph[entering[1]], SHIFT, 3) and graph[entering[1]].inputs == (entering[0],):
                found[name] = replace(node, operator=HARD_SWISH, inputs=(entering[0],), settings={})
        for gate, whole in ((HARD_SIGMOID, HARD_SWISH), (SIGMOID, SILU)):
            entering = _gated(graph, node, gate)
            if entering and entering[0] == entering[1]:
                found[name] = replace(node, operator=whole, inputs=(entering[0],), settings={})
    return _prune(found, last)


def _gated(graph: Graph, node: Node, gate: str) -> tuple[str, str] | None:
    """Return (x, z) of a product of x and gate(z); None for another node."""
    if node.operator != MULTIPLY or len(node.inputs) != 2:
        return None
    for plain, gated in (node.inputs, reversed(node.inputs)):
        if graph[gated].operator == gate and graph[plain].operator != gate:
            return plain, graph[gated].inputs[0]
    return None


def _join_gelus(graph: Graph) -> Graph:
    """x (1 + erf(x / sqrt(2))) / 2 is one Gelu; it may be halved first or last."""
    last = list(graph)[-1]
    found = dict(graph)
    for name, node in graph.items():
        product, halved = node, _is_constant(node, SCALE, 0.5)
        if halved:
            product = graph[node.inputs[0]]
        if product.operator != MULTIPLY or len(product.inputs) != 2:
            continue
        for plain, gate in (product.inputs, reversed(product.inputs)):
            entering = graph[plain].inputs[0] if _is_constant(graph[plain], SCALE, 0.5) and not halved else plain
            if (halved or entering != plain) and _find_gated(graph, gate) == entering:
                found[name] = replace(node, operator="gelu", inputs=(entering,), settings={})
    return _prune(found, last)


def _find_gated(graph: Graph, name: str) -> str:
    """Return x of 1 + erf(x / sqrt(2)); "" for another node."""
    shifted = graph[name]
    if not _is_constant(shifted, SHIFT, 1) or graph[shifted.inputs[0]].operator != ERF:
        return ""
    scaled = graph[graph[shifted.inputs[0]].inputs[0]]
    return scaled.inputs[0] if _is_constant(scaled, SCALE, math.sqrt(0.5)) else ""


def _share_concatenations(graph: Graph) -> Graph:
    """Concatenate(a, b, c) after Concatenate(a, b) takes the latter's output, as in lists of a DenseNet's features."""
    known: dict[tuple[str, ...], str] = {}
    shared: Graph = {}
    for name, node in graph.items():
        inputs = node.inputs
        if node.operator == CONCATENATE:
            for count in range(len(inputs) - 1, 1, -1):
                if inputs[:count] in known:
                    node = replace(node, inputs=(known[inputs[:count]], *inputs[count:]))
                    break
            known.setdefault(inputs, name)
        shared[name] = node
    return shared
