"""Names of layers, made of the names that a source gives."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .vocabulary import Node

MOST = 80  # characters of a layer's name, as in networks.LAYER_NAME
OTHERS = re.compile(r"[^A-Za-z0-9_-]+")


def make_names(nodes: Iterable[Node]) -> dict[str, str]:
    """Return {name of a node: a layer's name}: unique, of letters, digits, _ and -, the first a letter or digit."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for node in nodes:
        plain = OTHERS.sub("_", node.name).strip("_-")[:MOST].rstrip("_-") or "layer"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain[: MOST - 6]}_{number}"
        names[node.name] = name
        taken.add(name.lower())
    return names
