"""The module that a network was imported from, and where each of our weights is in it, as JSON.

The import writes it, and the proof reads it: it asks the source's own module the gate's questions and compares the
answers by our names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..layers import Shape
from ..weights import Weights
from .job import DRAWN as DRAWN
from .job import OWN as OWN
from .network import OwnCode
from .record import Record

# Inputs of a trial whose network was imported: this map, the user's file, and the source's own tensors by its names.
SOURCE, SOURCE_CODE, SOURCE_WEIGHTS = "source", "model", "source_weights"

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class SourceParameter:
    """One of our weights in the source: a part of one of its tensors, reshaped, then transposed.

    The result has our values in our order; its shape may have further axes of length 1.
    """

    key: str  # "layer/role"
    source_name: str
    axes: tuple[int, ...] = ()  # as of numpy.transpose; none: not transposed
    shape: tuple[int, ...] = ()  # before it is transposed; none: as it is
    part: tuple[int, ...] = ()  # (number, count): one of so many equal parts along its first axis; none: the whole

    def fits(self, tensor: NDArray[Any], shape: Shape) -> bool:
        """True if the tensor has as many values as our weight of this `shape`."""
        return tensor.size == math.prod(shape) * (self.part[1] if self.part else 1)

    def take(self, tensor: NDArray[Any], shape: Shape) -> NDArray[Any]:
        """Return our weight, of our `shape`, from a tensor that fits."""
        if self.part:
            tensor = np.split(tensor, self.part[1])[self.part[0]]
        if self.shape:
            tensor = tensor.reshape(self.shape)
        transposed = tensor.transpose(self.axes or tuple(range(tensor.ndim)))
        return np.ascontiguousarray(transposed).reshape(shape)

    def put(self, weight: NDArray[Any], tensor: NDArray[Any]) -> None:
        """Write our weight into its place in the source's tensor."""
        whole = np.split(tensor, self.part[1])[self.part[0]] if self.part else tensor
        shape = self.shape or whole.shape
        axes = self.axes or tuple(range(len(shape)))
        transposed = weight.reshape([shape[axis] for axis in axes])
        whole[...] = transposed.transpose(np.argsort(axes)).reshape(whole.shape)


@dataclass(frozen=True)
class SourceMap(Record):
    """Origin of the network, and its weights and layers by the source's names."""

    code: OwnCode
    parameters: tuple[SourceParameter, ...]
    # {layer: path of the source's module with its output}, in the order of computation. A module that is called again
    # is named again. Layers that no module computes are left out.
    places: dict[str, str] = field(default_factory=dict)
    initial: str = OWN

    @staticmethod
    def read(path: Path) -> SourceMap:
        """Read the file. Raises OSError, TypeError, AttributeError, ValueError."""
        return SourceMap.from_json(json.loads(path.read_text(encoding="utf-8")))

    def to_text(self) -> str:
        """Return the text of the file; the same map gives the same text."""
        return json.dumps(self.to_json(), indent=1)

    def name_place(self, layer: str) -> str:
        """Return the source's name of a layer: its module, or else the module of its first tensor; "" if unknown."""
        if layer in self.places:
            return self.places[layer]
        names = (each.source_name for each in self.parameters if each.key.split("/")[0] == layer)
        return next(names, "").replace("/", ".").rpartition(".")[0]

    def take(self, tensors: Arrays, shapes: Mapping[str, Shape]) -> Weights:
        """Return {"layer/role": weight} of these shapes; those whose tensor is missing, or of another size, are not."""
        weights: Weights = {}
        for each in self.parameters:
            tensor = tensors.get(each.source_name)
            if tensor is not None and each.key in shapes and each.fits(tensor, shapes[each.key]):
                weights[each.key] = each.take(np.asarray(tensor, np.float32), shapes[each.key])
        return weights

    def put(self, weights: Weights, tensors: Arrays) -> dict[str, NDArray[Any]]:
        """Return the source's tensors with our weights in them."""
        changed = {name: np.array(tensor) for name, tensor in tensors.items()}
        for each in self.parameters:
            if each.key in weights and each.source_name in changed:
                each.put(weights[each.key], changed[each.source_name])
        return changed


@dataclass(frozen=True)
class Mask:
    """A layer that draws masks: what one number of the mask covers, and the share that is set to zero."""

    name: str
    covers: str  # "value" | "channel" | "image" | "batch"
    rate: float


@dataclass(frozen=True)
class SourceFacts(Record):
    """Facts of the source's module, next to its answer to the gate's probe."""

    parameters: int  # numbers that it trains
    masks: list[Mask]  # with a rate above 0, in the order of computation
    weights: dict[str, Any]  # {"layer/role": fingerprint} of its own tensors, before the first step
