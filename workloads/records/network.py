"""A network as data: its layers; and which model the caller's code makes in place of one.

The runner writes a network and workers read it, so they run no foreign code for it. A model of the caller's code is
trained and measured, and compared with nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .. import layers
from ..layers import Layer
from ..spec import Workload

KINDS: dict[str, type[Layer]] = {
    kind.__name__: kind
    for kind in vars(layers).values()
    if isinstance(kind, type) and issubclass(kind, Layer) and not kind.__subclasses__()
}

WORDS = ("summary", "differs")
# Fields that records got after networks were published: at their default they are left out, so that digests stay.
ADDED = {"BatchNorm": ("scale", "center"), "Dense": ("bias",), "Gelu": ("approximate",)}
HINTS = {name: get_type_hints(kind) for name, kind in {"Workload": Workload, **KINDS}.items()}


def to_json(workload: Workload) -> dict[str, Any]:
    """Return everything that decides the network's computations; its descriptions do not."""
    return {f.name: _plain(getattr(workload, f.name)) for f in fields(workload) if f.name not in WORDS}


def to_text(workload: Workload) -> str:
    """Return its text; the same network gives the same text."""
    return json.dumps(to_json(workload), indent=1)


def digest(workload: Workload) -> str:
    """Return the digest of its text."""
    return hashlib.sha256(to_text(workload).encode()).hexdigest()[:12]


def read(path: Path) -> Workload:
    """Read a file that holds `to_text`. Raises OSError, TypeError, KeyError, ValueError."""
    return from_json(json.loads(path.read_text(encoding="utf-8")))


def from_json(data: dict[str, Any]) -> Workload:
    """Return the network. Raises TypeError, KeyError, ValueError for data that are not a network."""
    values = {"summary": "", **{name: _value(item) for name, item in data.items()}}
    _refuse_types(Workload, values)
    return Workload(**values)


def layer_from_json(item: dict[str, Any]) -> Layer:
    """Return the layer of {"layer": name of its record, **fields}. Raises TypeError, KeyError, ValueError."""
    layer = _value(item)
    if not isinstance(layer, Layer):
        raise TypeError("no layer")
    return layer


def _plain(value: Any) -> Any:
    if isinstance(value, Layer):
        kind = type(value).__name__
        kept = [f for f in fields(value) if f.name not in ADDED.get(kind, ()) or getattr(value, f.name) != f.default]
        return {"layer": kind, **{f.name: _plain(getattr(value, f.name)) for f in kept}}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _value(item: Any) -> Any:
    if isinstance(item, dict):
        kind = KINDS[item["layer"]]
        values = {name: _value(value) for name, value in item.items() if name != "layer"}
        _refuse_types(kind, values)
        return kind(**values)
    return tuple(_value(each) for each in item) if isinstance(item, list) else item


def _refuse_types(kind: type[Any], values: dict[str, Any]) -> None:
    """Raise TypeError before anything is computed: a text times a number would be the text repeated."""
    hints = HINTS[kind.__name__]
    for name, value in values.items():
        if name in hints and not _fits(value, hints[name]):
            raise TypeError(f"{kind.__name__}.{name} is of another type")


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in arguments
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is tuple:
        each = arguments[:1] * len(value) if arguments[-1] is Ellipsis and isinstance(value, tuple) else arguments
        return isinstance(value, tuple) and len(value) == len(each) and all(map(_fits, value, each))
    if hint is float:
        return type(value) in (int, float)
    return type(value) is hint if hint in (int, bool) else not isinstance(hint, type) or isinstance(value, hint)


@dataclass(frozen=True)
class OwnCode:
    """A function (classes) -> the framework's model, in a file that is the trial's input `model`."""

    framework: str  # the model's framework
    file: str  # its name
    function: str
    digest: str  # of the file
    classes: int  # what the function is called with
    input_shape: tuple[int, ...]  # (h, w, c) of the images, whatever the framework's order of axes is
    scale: float = 1 / 255  # of the pixels, before the model gets them
    logits: int | None = None  # of an imported model, per image; None: as many as classes

    @property
    def outputs(self) -> int:
        """Number of logits that the model gives per image."""
        return self.classes if self.logits is None else self.logits

    @property
    def words(self) -> str:
        """Description as a clause."""
        shape = " x ".join(map(str, self.input_shape))
        return f"{self.file}:{self.function}, digest {self.digest}, images of {shape}, {self.classes} classes"
