"""Read files that are a network's source: the network, its weights, and where its layers come from. No code is run."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..records import network
from ..weights import Weights, load, save
from ..words import format_count
from .graph import Network, build_network
from .imported import Imported as Imported
from .imported import Origin
from .kept import describe_origin, read_origin
from .keras_config import KerasGraph, read_graph
from .keras_layers import merge_notes
from .keras_origin import make_origin
from .keras_weights import read_variables
from .onnx_file import read_onnx
from .vocabulary import IDENTITY, INPUT, RESHAPE, SCALE, SHIFT, ImportRefused, Node

KERAS, JSON, ONNX = ".keras", ".json", ".onnx"
NPZ = ".npz"
SUFFIXES = (KERAS, JSON, ONNX)
CODE = re.compile(r"(?P<file>.+\.py):(?P<function>[A-Za-z_]\w*)")  # a function that makes a model
CONFIG, WEIGHTS, METADATA = "config.json", "model.weights.h5", "metadata.json"  # in a .keras file
MOST_BYTES = 1 << 26  # of a configuration
WRITTEN = "batchwise-network"  # the first key of a file that `write` made
MOST_TIMES = 16  # that weights are larger than the file that holds them, whose own are not compressed
RESCALING = {"normalise", SCALE, SHIFT}  # operators that a model begins with if it rescales its pixels itself
MOVING = {"resize", IDENTITY, RESHAPE, SHIFT}  # operators that leave the range of the pixels as it is, or move it
# Errors that a foreign file may raise when it is unpacked, or read as a network.
BROKEN = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError, EOFError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin")
ADVICE = {
    **dict.fromkeys(PICKLES, "is a pickle, which runs code when it is read; give the code that makes the model"),
    ".h5": "is Keras' older format; load it with Keras 3 and save it as .keras",
    ".hdf5": "is Keras' older format; load it with Keras 3 and save it as .keras",
    ".safetensors": "holds weights, not a network; give the code that makes the model",
    ".params": "holds weights, not a network; give the code that makes the model",
    ".tflite": "is for inference; give the .keras file that it was made from",
    ".pb": "is for inference; give the .keras file that it was made from",
}


def is_source(name: str) -> bool:
    """Return True if the name ends as that of a file that is read, or refused, here."""
    return Path(name).suffix.lower() in (*SUFFIXES, *ADVICE)


def read_source(path: Path) -> Imported:
    """Return the network of a file. Raises ImportRefused."""
    suffix = path.suffix.lower()
    if suffix in ADVICE:
        raise ImportRefused(ADVICE[suffix])
    try:
        if suffix == JSON and path.stat().st_size > MOST_BYTES:
            raise ImportRefused(f"is not a network: it has over {MOST_BYTES >> 20} MiB")
        with path.open("rb") as file:
            content = b"" if suffix == ONNX else file.read()
    except OSError as error:
        raise ImportRefused(error.strerror or str(error)) from error
    if suffix == ONNX:
        return read_onnx(path, make_workload_name(path.stem))
    if suffix == JSON and isinstance(data := _parse(content), dict) and WRITTEN in data:
        return _read_written(data, path)
    return _read_keras(path, content)


def write(imported: Imported, path: Path, source: Path, weights: Path | None) -> None:
    """Write the network as JSON that `read_source` reads. Its weights and its `source` lie in other files. Raises
    OSError.
    """
    workload = imported.workload
    data = {
        WRITTEN: 1,
        "source": source.name,
        "origin": describe_origin(imported, source, path),
        "summary": workload.summary,
        "differs": workload.differs,
        "weights": weights and os.path.relpath(weights, path.parent),
        "places": dict(imported.places),
        "network": network.to_json(workload),
    }
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def keep_imported(imported: Imported, source: str, out: Path, weights: Path | None) -> str:
    """Write a network, and its weights as .npz; return a line that says what. Raises ImportRefused."""
    if out.suffix != JSON:
        raise ImportRefused(f"--out {out}: must end in {JSON}")
    if weights is not None and weights.suffix != NPZ:
        raise ImportRefused(f"--weights {weights}: must end in {NPZ}")
    if weights is not None and imported.weights is None:
        raise ImportRefused(f"--weights {weights}: {source} has no weights")
    if weights is None and imported.weights is not None:
        weights = out.with_suffix(NPZ)
    code = CODE.fullmatch(source)
    file = Path(code["file"] if code else source)
    _refuse_to_replace(out, out, "--out", file)
    if weights is not None:
        _refuse_to_replace(weights, out, "--out or --weights", file)
    try:
        if weights is not None and imported.weights is not None:
            save(weights, imported.weights)
        write(imported, out, file, weights)
    except OSError as error:
        # A full disk has no file's name.
        raise ImportRefused(f"{error.filename or weights or out}: {error.strerror or error}") from error
    workload = imported.workload
    count = format_count(sum(1 for _ in workload.walk()), "layer")
    kept = f", and their values to {weights}" if weights is not None else "; the source has no weights"
    return f"{workload.name}: {count} with {workload.parameter_count:,} parameters written to {out}{kept}"


def _refuse_to_replace(path: Path, out: Path, option: str, source: Path) -> None:
    """Raise ImportRefused if the file at `path` is the source, or no earlier import to `out` wrote it: it is the
    user's.
    """
    if not path.exists():
        return
    if (source := source.expanduser()).exists() and path.samefile(source):
        raise ImportRefused(f"{path}: is the source itself: give {option} another name")
    if not _is_of_import(path, out):
        wrote = "no import wrote it" if path == out else f"it is not the weights of {out.name}"
        unused = "" if path == out else ", or remove it"  # an import that was interrupted may have left it
        raise ImportRefused(f"{path}: exists, and {wrote}: give {option} another name{unused}")


def _is_of_import(path: Path, out: Path) -> bool:
    """Return True if `out` is a network that `keep_imported` wrote, and `path` is it or the file of its weights."""
    try:
        data = json.loads(out.read_bytes())
        if not isinstance(data, dict) or WRITTEN not in data or path == out:
            return isinstance(data, dict) and WRITTEN in data
        members = {f"{key}.npy" for key in network.from_json(data["network"]).weight_shapes()}
        with zipfile.ZipFile(path) as archive:
            return path.samefile(out.parent / data["weights"]) and set(archive.namelist()) == members
    except BROKEN:
        return False


def _describe(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ImportRefused(f"is not JSON: {str(error)[:100]}") from error


def _read_keras(path: Path, content: bytes) -> Imported:
    """Return the network of a .keras file, or of a Keras model's JSON, that has this content. Raises ImportRefused."""
    config, variables = _read_archive(content) if path.suffix.lower() == KERAS else (_parse(content), None)
    return _finish(read_graph(config, variables), config, path, content)


def _refuse_code(origin: Origin) -> Origin | str:
    """Return the origin of a kept network, or why its Keras model is refused: a layer may be code."""
    if origin.path is None or origin.gets_weights:
        return origin
    try:
        _read_keras(origin.path, origin.code)
    except ImportRefused as error:
        return f"{origin.path.name}: {error}"
    return origin


def _read_written(data: Mapping[str, Any], path: Path) -> Imported:
    """Return what `write` wrote."""
    try:
        workload = network.from_json(data["network"])
        places = {str(layer): str(place) for layer, place in data["places"].items()}
        workload = replace(workload, summary=str(data["summary"]), differs=str(data["differs"]))
        weights = load(path.parent / data["weights"]) if data["weights"] is not None else None
        shapes = workload.weight_shapes()
        origin = read_origin(data.get("origin", {}), path)
    except BROKEN as error:
        raise ImportRefused(f"cannot be read: {_describe(error)}") from error
    if weights is not None and {key: array.shape for key, array in weights.items()} != shapes:
        raise ImportRefused(f"its weights in {data['weights']} are not those of its layers; import the source again")
    if isinstance(origin, Origin):
        origin = _refuse_code(origin)
    if isinstance(origin, str):
        return Imported(workload, weights, places, unproven=origin)
    return Imported(workload, weights, places, origin)


def _read_archive(content: bytes) -> tuple[Any, dict[str, Weights] | None]:
    """Return the configuration and the variables of a .keras file, which is a zip."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            config = _parse(_read_member(archive, CONFIG))
            version = _parse(_read_member(archive, METADATA)).get("keras_version", "")
            if not str(version).startswith("3."):
                raise ImportRefused(f"was written by Keras {version}; load it with Keras 3 and save it again")
            variables = None
            if WEIGHTS in archive.namelist():
                if archive.getinfo(WEIGHTS).file_size > MOST_TIMES * len(content):
                    raise ImportRefused(f"its {WEIGHTS} unpacks to over {MOST_TIMES} times the file; save it again")
                variables = read_variables(io.BytesIO(archive.read(WEIGHTS)), WEIGHTS)
    except ImportRefused:
        raise
    except BROKEN as error:
        raise ImportRefused(f"is not a .keras file of Keras 3: {_describe(error)}") from error
    return config, variables


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        if archive.getinfo(name).file_size > MOST_BYTES:
            raise ImportRefused(f"its {name} has over {MOST_BYTES >> 20} MiB")
        return archive.read(name)
    except KeyError as error:
        raise ImportRefused(f"has no {name}; save the model with Keras 3: model.save('my_model.keras')") from error


def _finish(graph: KerasGraph, config: Mapping[str, Any], path: Path, content: bytes) -> Imported:
    """Build the network of a Keras graph, with its weights, and with its model to be compared with."""
    kind = f"{config['config'].get('name', path.stem)} ({config['class_name']})"
    notes = merge_notes(graph.notes if graph.variables is None else [])
    made = build_network(
        graph.nodes,
        graph.input_shape,
        make_workload_name(path.stem),
        summary=f"{kind} of {path.name}, a Keras model",
        differs=notes,
        scale=choose_scale(graph),
    )
    origin = make_origin(graph, made, path.name, content)
    return Imported(made.workload, _pick_weights(graph, made), made.places, origin)


def _pick_weights(graph: KerasGraph, made: Network) -> Weights | None:
    """Return the weights that the layers have in the file, None without a file."""
    if graph.variables is None:
        return None
    found: Weights = {}
    for key, (folder, number) in graph.weights.items():
        try:
            found[key] = graph.variables[folder][number]
        except KeyError as error:
            raise ImportRefused(f"{key}: {WEIGHTS} has no {folder}/{number}") from error
    return made.place_weights(found)


def choose_scale(graph: KerasGraph) -> float:
    """Return what pixels are multiplied by: 1 if the model rescales those of 0 to 255 itself, or 1 / 255."""
    name = next(node.name for node in graph.nodes if node.operator == INPUT)
    while True:
        users = [node for node in graph.nodes if name in node.inputs]
        if all(node.operator in RESCALING for node in users) and any(map(_expects_bytes, users)):
            return 1.0
        if len(users) != 1 or users[0].operator not in MOVING:
            return 1 / 255
        name = users[0].name


def _expects_bytes(node: Node) -> bool:
    """Return True if a node divides by more than 1, or shifts by more: pixels of 0 to 1 need neither."""
    if node.operator == "normalise":
        return any(abs(value) > 1 for value in (*node.settings["mean"], *node.settings["std"]))
    value = abs(node.settings["value"])
    return bool(value > 1 if node.operator == SHIFT else value < 1)


def make_workload_name(stem: str) -> str:
    """Return a workload's name made of a file's: of a-z, 0-9, . and -."""
    name = re.sub(r"[^a-z0-9.]+", "-", stem.lower()).strip("-.")[:40]
    return name or "imported"
