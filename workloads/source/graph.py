"""A graph of operators, as a door reads it from its source, and the workload that it becomes.

A door (a reader of one kind of source) gives a list of `Node`s in any order. `operator` is the name of a layer record,
in any spelling ("Conv2D", "conv2d", "batch-norm"), and `settings` are the record's fields but its name. There are more
operators, which become layers or vanish:

    input                     the images; settings: none
    identity                  its input
    flatten                   seen through on a vector
    reshape                   shape, without the batch; one entry may be -1; seen through where it changes nothing
    zero-padding              padding (top, bottom, left, right): becomes margins of the convolutions and pools after it
    shift, scale              x + value, x * value, for one number `value`: part of a pattern, or a Normalise
    erf                       the error function: part of a pattern
    add, multiply, concatenate    joins: two or more inputs
    conv2d                    on a vector (c,), such as a squeeze gives, a 1 x 1 convolution is a dense layer
    dense                     on an image (h, w, c) it is a 1 x 1 convolution
    multi-head-attention      also with `dropout`, which must be 0, and the `width` of a head

An image of one pixel that a GlobalAveragePool2D gives is a vector (c,) here, whatever the source calls it: (1, 1, c).
`place` is the path of the module in the source and its type, "layer1.0.conv1 (Conv2d)": messages and tables show it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..layers import Join, Shape, Sigmoid, Softmax, walk
from ..spec import Loss, Workload
from ..weights import Weights
from .names import make_names
from .rewrites import rewrite
from .steps import Step, list_steps
from .tree import make_tree
from .vocabulary import INPUT, ImportRefused, Node

__all__ = ["ImportRefused", "Network", "Node", "build_network", "build_workload"]


@dataclass(frozen=True)
class Network:
    """A workload made of a graph, and where each of its layers comes from."""

    workload: Workload
    layer_of: Mapping[str, str] = field(default_factory=dict)  # {name of a node: name of its layer}
    places: Mapping[str, str] = field(default_factory=dict)  # {name of a layer: its place in the source}

    def place_weights(self, weights: Weights) -> Weights:
        """Return {"layer/role": array} of {"node/role": array} in channels-last layout, in the workload's shapes.

        Raises ImportRefused where weights are missing, of another size, or of no layer.
        """
        shapes, placed = self.workload.weight_shapes(), {}
        for key, array in weights.items():
            node, _, role = key.rpartition("/")
            layer = self.layer_of.get(node, "")
            place = self.places.get(layer, node)
            shape = shapes.get(f"{layer}/{role}")
            if shape is None:
                raise ImportRefused(f"{place}: its weight {role} {array.shape} belongs to no layer of the network")
            if array.size != math.prod(shape):
                raise ImportRefused(f"{place}: its weight {role} is {array.shape}, the network's is {shape}")
            placed[f"{layer}/{role}"] = array.reshape(shape)
        if missing := [key for key in shapes if key not in placed]:
            place = self.places.get(missing[0].partition("/")[0], missing[0])
            raise ImportRefused(f"{place}: the source has no weight for {missing[0]}")
        return {key: placed[key] for key in shapes}


def build_workload(nodes: Iterable[Node], input_shape: Shape, name: str, **settings: Any) -> Workload:
    """Return the workload of `build_network`."""
    return build_network(nodes, input_shape, name, **settings).workload


def build_network(
    nodes: Iterable[Node],
    input_shape: Shape,
    name: str,
    *,
    summary: str = "",
    differs: str = "",
    scale: float = 1 / 255,
) -> Network:
    """Return the network that the nodes make of images (h, w, c). Raises ImportRefused, one line.

    The module gets pixels times `scale`. A softmax or sigmoid at the end is left out, as it belongs to the loss.
    """
    given = list(nodes)
    graph = rewrite(_check(given))
    steps = list_steps(graph, input_shape)
    _refuse_shared(steps)
    steps, last, loss = _without_probabilities(steps, list(steps)[-1])
    names = make_names([step.node for step in steps.values() if step.node.operator != INPUT])
    layers = make_tree(steps, last, names)
    if not layers:
        raise ImportRefused("the network has no layer")
    try:
        workload = Workload(name, summary, input_shape, layers, scale, loss, differs)
        places = {layer.name: layer.name for layer, _ in walk(layers, input_shape)}
    except ValueError as error:
        raise ImportRefused(str(error)) from error
    layer_of = {step.node.name: names[step.node.name] for step in steps.values() if step.node.name in names}
    places |= {names[step.node.name]: step.node.place for step in steps.values() if step.node.name in names}
    return Network(workload, layer_of, places)


def _check(nodes: list[Node]) -> dict[str, Node]:
    """Return {name: node} in an order in which each follows its inputs. Raises ImportRefused."""
    named = {node.name: node for node in nodes}
    if len(named) != len(nodes):
        twice = next(name for name, count in Counter(node.name for node in nodes).items() if count > 1)
        raise ImportRefused(f"{named[twice].place}: two nodes are called {twice}")
    inputs = [node for node in nodes if node.operator == INPUT]
    if len(inputs) != 1:
        places = ", ".join(node.place for node in inputs) or "none"
        raise ImportRefused(f"a network has one input, this has {len(inputs)}: {places}")
    used = {name for node in nodes for name in node.inputs}
    if unknown := used - set(named):
        raise ImportRefused(f"node {min(unknown)} is used and not defined")
    ends = [node.place for node in nodes if node.name not in used]
    if len(ends) != 1:
        raise ImportRefused(f"a network has one output, this ends in {len(ends)}: {', '.join(ends[:4])}")
    ordered: dict[str, Node] = {}
    left = list(nodes)
    while left:
        ready = [node for node in left if all(name in ordered for name in node.inputs)]
        if not ready:
            raise ImportRefused(f"{left[0].place}: the graph has a cycle, and no recurrent network can be imported")
        ordered |= {node.name: node for node in ready}
        left = [node for node in left if node.name not in ordered]
    return ordered


def _without_probabilities(steps: dict[str, Step], last: str) -> tuple[dict[str, Step], str, Loss]:
    """Return the steps without the softmax or sigmoid that makes probabilities of logits, and the loss that fits."""
    step = steps[last]
    if not isinstance(step.layer, Softmax | Sigmoid):
        return steps, last, "binary-cross-entropy" if step.shape == (1,) else "softmax-cross-entropy"
    if isinstance(step.layer, Sigmoid) and step.shape != (1,):
        raise ImportRefused(
            f"{step.node.place}: a sigmoid of {step.shape} is for several labels per image; there is no loss for that"
        )
    if isinstance(step.layer, Softmax) and step.shape == (1,):
        raise ImportRefused(f"{step.node.place}: a softmax of one value is always 1; use a sigmoid")
    loss: Loss = "binary-cross-entropy" if isinstance(step.layer, Sigmoid) else "softmax-cross-entropy"
    return {name: each for name, each in steps.items() if name != last}, step.inputs[0], loss


def _refuse_shared(steps: Mapping[str, Step]) -> None:
    """Raise ImportRefused for a module with weights that is used twice."""
    weighted: Counter[tuple[str, str]] = Counter()
    for step in steps.values():
        if step.layer is not None and not isinstance(step.layer, Join):
            weighted[step.node.place, step.node.operator] += bool(
                step.layer.parameter_shapes(steps[step.inputs[0]].shape)
            )
    for (place, _), count in weighted.items():
        if count > 1:
            raise ImportRefused(f"{place}: is used {count} times; shared weights cannot be imported, copy the module")
