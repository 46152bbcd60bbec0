"""The words of a graph: its nodes, its operators, and what cannot be imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..records.network import KINDS

INPUT, IDENTITY, RESHAPE, PADDING = "input", "identity", "reshape", "zeropadding"
SHIFT, SCALE, ERF = "shift", "scale", "erf"
ADD, MULTIPLY, CONCATENATE = "add", "multiply", "concatenate"
JOINS = (ADD, MULTIPLY, CONCATENATE)
RECORDS = {name.lower(): kind for name, kind in KINDS.items()}  # {operator: layer record}
BOTH_TRAIN = "the record of a LayerNorm trains a scale and a shift: give it both"
OPERATORS = {INPUT, IDENTITY, RESHAPE, PADDING, SHIFT, SCALE, ERF, *RECORDS}


class ImportRefused(ValueError):
    """A network that cannot be imported; the message is one line: where, what, and what to do."""


@dataclass(frozen=True)
class Node:
    """One use of an operator. `name` is unique; `inputs` are names of nodes."""

    name: str
    operator: str
    inputs: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""  # path of the module in the source, and its type

    def __post_init__(self) -> None:
        object.__setattr__(self, "operator", self.operator.lower().replace("-", "").replace("_", ""))
        object.__setattr__(self, "inputs", tuple(self.inputs))
        if not self.place:
            object.__setattr__(self, "place", self.name)
        if self.operator not in OPERATORS:
            raise ImportRefused(f"{self.place}: there is no layer for {self.operator}")
