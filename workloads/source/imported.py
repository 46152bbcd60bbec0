"""A network that was imported, with all that is known of its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..records.source_map import SourceMap
from ..spec import Workload
from ..weights import Weights


@dataclass(frozen=True)
class Origin:
    """The user's model that a network was imported from, as the proof asks it."""

    source: SourceMap
    code: bytes  # of the file that makes the model
    tensors: Path | None = None  # .npz of the model's tensors, by its own names; None: `code` has them, or none
    owner: object = None  # a temporary folder: the file is deleted with it
    path: Path | None = None  # of `code`, if a kept network names it
    gets_weights: bool = False  # True if the model is given the network's weights, because its own are not known


@dataclass(frozen=True)
class Imported:
    """A network of a source; `weights` are the source's own, None where it has none."""

    workload: Workload
    weights: Weights | None = None
    places: Mapping[str, str] = field(default_factory=dict)  # {layer: its place in the source}
    origin: Origin | None = None  # None where no worker can make the source's own model
    unproven: str = ""  # why an imported network has no origin
