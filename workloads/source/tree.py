"""Turn a graph with one input and one output into a tree: chains of layers, and joins of branches.

A join and its nearest common dominator, the last node that all its branches pass, bound a block. Its branches are
chains between the two. A graph is such a tree (series-parallel) if no node is in two branches. NASNet is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..layers import Join, Layer
from .steps import Step
from .vocabulary import ImportRefused


def make_tree(steps: Mapping[str, Step], last: str, names: Mapping[str, str]) -> tuple[Layer, ...]:
    """Return the layers from the input to node `last`; `steps` are in order. Raises ImportRefused."""
    dominators = _find_dominators(steps)
    used: set[str] = set()

    def chain(first: str, end: str) -> tuple[Layer, ...]:
        """Return the layers after node `first`, up to node `end`."""
        layers: list[Layer] = []
        while end != first:
            step = steps[end]
            if end in used:
                raise ImportRefused(
                    f"{step.node.place}: its output goes into branches that join in different places; "
                    "only networks whose branches split and join in pairs can be imported"
                )
            used.add(end)
            if step.layer is None:
                raise ImportRefused(f"{step.node.place}: the input is not a layer")
            named: Layer = replace(step.layer, name=names[end])
            before = dominators[end]
            if isinstance(named, Join):
                named = replace(named, branches=tuple(chain(before, name) for name in step.inputs))
            layers.append(named)
            end = before
        return tuple(reversed(layers))

    return chain(next(iter(steps)), last)


def _find_dominators(steps: Mapping[str, Step]) -> dict[str, str]:
    """Return {node: the last node before it that every path from the input passes}."""
    dominators: dict[str, str] = {}
    depths: dict[str, int] = {}
    for name, step in steps.items():
        if not step.inputs:
            depths[name] = 0
            continue
        common, *others = step.inputs
        for other in others:
            while common != other:
                if depths[common] >= depths[other]:
                    common = dominators[common]
                else:
                    other = dominators[other]
        dominators[name], depths[name] = common, depths[common] + 1
    return dominators
