"""A network as data: what its layers are, written by the runner and read by workers, who run nobody's code for it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from .. import layers
from ..layers import Layer
from ..spec import Workload

KINDS: dict[str, type[Layer]] = {
    kind.__name__: kind
    for kind in vars(layers).values()
    if isinstance(kind, type) and issubclass(kind, Layer) and not kind.__subclasses__()
}


def to_json(workload: Workload) -> dict[str, Any]:
    """All that decides what it computes; its summary does not."""
    return {f.name: _plain(getattr(workload, f.name)) for f in fields(workload) if f.name != "summary"}


def to_text(workload: Workload) -> str:
    """The same network gives the same text."""
    return json.dumps(to_json(workload), indent=1)


def digest(workload: Workload) -> str:
    """Of its text."""
    return hashlib.sha256(to_text(workload).encode()).hexdigest()[:12]


def read(path: Path) -> Workload:
    """Of a file that holds `to_text`. Raises OSError, TypeError, KeyError, ValueError."""
    return from_json(json.loads(path.read_text(encoding="utf-8")))


def from_json(data: dict[str, Any]) -> Workload:
    """Raises TypeError, KeyError, ValueError for what is no network."""
    return Workload(**{"summary": "", **{name: _value(item) for name, item in data.items()}})


def _plain(value: Any) -> Any:
    if isinstance(value, Layer):
        return {"layer": type(value).__name__, **{f.name: _plain(getattr(value, f.name)) for f in fields(value)}}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _value(item: Any) -> Any:
    if isinstance(item, dict):
        return KINDS[item["layer"]](**{name: _value(value) for name, value in item.items() if name != "layer"})
    return tuple(_value(each) for each in item) if isinstance(item, list) else item
