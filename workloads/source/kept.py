"""The origin of an imported network that was kept as JSON: the user's model, if its file is still what was imported."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..records.source_map import SourceMap
from .imported import Imported, Origin

KINDS = {"pytorch": (".py",), "tensorflow": (".keras", ".json")}  # files of a model, by its framework
AGAIN = "import the model again"


def describe_origin(imported: Imported, source: Path, out: Path) -> dict[str, Any]:
    """Return as JSON where the network that is written to `out` comes from: `file`, relative to `out`, its `sha256`,
    and the `map`, which names framework, function and tensors; or {"missing": why a run cannot compare it}.
    """
    origin, source = imported.origin, Path(os.path.expanduser(source))
    if origin is None:
        return {"missing": imported.unproven or "its source is a network of this project"}
    if source.read_bytes() != origin.code:
        return {"missing": f"it was imported from {source.name}, which is not a model itself; {AGAIN}"}
    if not is_within(source, out.parent):
        return {"missing": describe_outside(source, out)}
    return {
        "file": os.path.relpath(source.resolve(), out.resolve().parent),
        "sha256": hashlib.sha256(origin.code).hexdigest(),
        "map": origin.source.to_json(),
    }


def is_within(file: Path, folder: Path) -> bool:
    """True if the file lies in the folder or below it, wherever links lead."""
    return file.resolve().is_relative_to(folder.resolve())


def describe_outside(file: Path, kept: Path) -> str:
    """Return why a model's file is not run for the network that was kept in another folder."""
    where = f"is outside of the folder of {kept.name}, so it is not run"
    return f"{file.name} {where}: put it there and {AGAIN}, or name the model itself"


def read_origin(data: Mapping[str, Any], path: Path) -> Origin | str:
    """Return the origin that the file at `path` names, or why there is none. Raises what a foreign file may raise.

    The reason names no folder of this machine, because trials keep it.
    A run may execute the origin, and the file may be another's: it names only what lies in its own folder. Code draws
    or loads its weights anew, so a model in code gets those that were kept.
    """
    if not data:
        return f"{path.name} does not name the model's file; {AGAIN}"
    if "missing" in data:
        return str(data["missing"])
    file = path.parent / str(data["file"])
    if not is_within(file, path.parent):
        return describe_outside(file, path)
    source = SourceMap.from_json(data["map"])
    code, kind = source.code, file.resolve().suffix
    if kind != Path(code.file).suffix or kind not in KINDS.get(code.framework, ()):
        return f"{file.name} is not the file of the {code.framework} model that {path.name} describes; {AGAIN}"
    try:
        content = file.read_bytes()
    except OSError as error:
        return f"{file.name}: {error.strerror or error}; put it there, or {AGAIN}"
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != data["sha256"] or sha256[:12] != code.digest:
        return f"{file.name} was changed after the import; {AGAIN}"
    return Origin(source, content, path=file, gets_weights=kind == ".py")
