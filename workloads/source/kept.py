"""The origin of an imported network that was kept as JSON: the user's model, if its file is still what was imported."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..records.source_map import SourceMap
from .imported import Imported, Origin

OLD = "the file does not name it; import the model again"


def describe_origin(imported: Imported, source: Path, out: Path) -> dict[str, Any]:
    """Return as JSON where the network that is written to `out` comes from: `file`, relative to `out`, its `sha256`,
    and the `map`, which names framework, function and tensors; or {"missing": why a run cannot compare it}.
    """
    origin, source = imported.origin, source.expanduser()
    if origin is None:
        return {"missing": imported.unproven or "its source is a network of this project"}
    if source.read_bytes() != origin.code:
        return {"missing": f"it was imported from {source.name}, which is no model itself; import the model again"}
    if source.suffix == ".py" and (names := list_neighbours(origin.code, source.parent)):
        return {"missing": f"{source.name} needs {names[0]} next to it; a run takes the file alone"}
    return {
        "file": os.path.relpath(source.resolve(), out.resolve().parent),
        "sha256": hashlib.sha256(origin.code).hexdigest(),
        "map": origin.source.to_json(),
    }


def list_neighbours(code: bytes, folder: Path) -> list[str]:
    """Return the modules that this code imports from its own folder."""
    names: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [node.module or alias.name for alias in node.names]
    first = dict.fromkeys(name.partition(".")[0] for name in names)
    return [name for name in first if (folder / f"{name}.py").is_file() or (folder / name).is_dir()]


def read_origin(data: Mapping[str, Any], path: Path) -> Origin | str:
    """Return the origin that the file at `path` names, or why there is none. Raises what a foreign file may raise.

    Code draws or loads its weights anew, so a model in code gets those that were kept.
    """
    if not data:
        return OLD
    if "missing" in data:
        return str(data["missing"])
    file = path.parent / str(data["file"])
    source = SourceMap.from_json(data["map"])
    try:
        content = file.read_bytes()
    except OSError as error:
        return f"{file}: {error.strerror or error}; put it there, or import the model again"
    if hashlib.sha256(content).hexdigest() != data["sha256"]:
        return f"{file} was changed after the import; import the model again"
    return Origin(source, content, gets_weights=file.suffix == ".py")
