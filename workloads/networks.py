"""Find a network: in the catalogue, in a custom file, or in the inputs of a stored trial."""

from __future__ import annotations

import json
import math
import re
import runpy
from dataclasses import replace
from functools import cache
from operator import attrgetter
from pathlib import Path

from . import catalogue
from .activations import activation_bytes
from .records import network
from .records.job import TrialSpec
from .source.files import is_source, read_source
from .source.graph import ImportRefused
from .source.imported import Imported
from .spec import Workload
from .weights import refuse_unordered

NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,40}")  # of a workload: it is part of file names
# Part of a weight's key, "layer/role", and a name in Keras, too, which has rules for it.
LAYER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")

# Errors that a foreign file may raise when it is read as a network, and when its sizes are computed.
UNUSABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)
MOST, SHOWN = 2**47, 40  # bytes that a process of x86-64 can have; characters of a number that is above

DEFINED = (each for each in vars(catalogue).values() if isinstance(each, Workload))
WORKLOADS = {workload.name: workload for workload in sorted(DEFINED, key=attrgetter("name"))}


class NetworkError(ValueError):
    """A network that is not available; the message is one line that says what to do."""


def find(name_or_path: str) -> Workload:
    """Return the catalogue's workload of this name, or that of a file: see `find_imported`. Raises NetworkError."""
    return find_imported(name_or_path).workload


def find_imported(name_or_path: str) -> Imported:
    """Return the same with what its source says: the weights, and where each layer comes from. Raises NetworkError.

    A .py file defines one Workload. A .keras file is a Keras model's, an .onnx file another framework's. A .json file
    is a Keras model's, or `python -m workloads import` wrote it.
    """
    if name_or_path.endswith(".py"):
        return Imported(read(Path(name_or_path)))
    if is_source(name_or_path):
        return _import(Path(name_or_path))
    if name_or_path not in WORKLOADS:
        known = ", ".join(sorted(WORKLOADS))
        raise NetworkError(f"unknown workload {name_or_path}; known: {known}; or name your own file, e.g. my_cnn.py")
    return Imported(WORKLOADS[name_or_path])


def _import(path: Path) -> Imported:
    """Read a source; a name that the catalogue has gets an ending."""
    try:
        imported = read_source(path)
    except ImportRefused as error:
        raise NetworkError(f"workload {path}: {error}") from error
    return accept(imported, path)


def accept(imported: Imported, path: Path) -> Imported:
    """Return the network of a file, with an ending to a name that the catalogue has. Raises NetworkError."""
    workload = imported.workload
    if workload.name in WORKLOADS:
        imported = replace(imported, workload=replace(workload, name=f"{workload.name[:30]}-imported"))
    _check(imported.workload, path)
    return imported


def read(path: Path) -> Workload:
    """Return the one Workload that a file defines. Raises NetworkError."""
    workload = _defined(path)
    _check(workload, path)
    return workload


def _defined(path: Path) -> Workload:
    try:
        values = runpy.run_path(str(path)).values()
    except OSError as error:
        raise NetworkError(f"workload {path}: {error.strerror or error}") from error
    except (Exception, SystemExit) as error:  # a foreign file may raise anything
        reason = " ".join(str(error).split())
        raise NetworkError(f"workload {path}: {type(error).__name__}: {reason}") from error
    workloads = {id(value): value for value in values if isinstance(value, Workload)}.values()
    if len(workloads) != 1:
        names = ", ".join(workload.name for workload in workloads) or "none"
        raise NetworkError(f"workload {path}: must define one Workload at its top level, but defines {names}")
    (workload,) = workloads
    return workload


def _check(workload: Workload, path: Path) -> None:
    """Raise NetworkError for a workload that no trial can use. Networks of stored trials may be older than some of
    these rules, and are read without them.
    """
    if not isinstance(workload.name, str) or not NAME.fullmatch(workload.name):
        raise NetworkError(f"workload {path}: its name may only have a-z, 0-9, . and -, got {workload.name!r}")
    if workload.name in WORKLOADS and workload != WORKLOADS[workload.name]:
        raise NetworkError(f"workload {path}: the catalogue already has {workload.name}; give yours another name")
    try:
        for layer, _ in workload.walk():
            if not isinstance(layer.name, str) or not LAYER_NAME.fullmatch(layer.name):
                raise ValueError(
                    "a layer's name must be 1 to 80 of a-z, A-Z, 0-9, _ and -, the first of them a letter or digit, "
                    f"got {str(layer.name)[:100]!r}"
                )
            if network.KINDS.get(type(layer).__name__) is not type(layer):
                raise ValueError(f"layer {layer.name}: {type(layer).__name__} is not a layer of workloads/layers")
        shape = workload.output_shape
        refuse_impossible(workload)
        refuse_unordered(workload)
    except UNUSABLE as error:
        raise NetworkError(f"workload {path}: {' '.join(str(error).split()) or type(error).__name__}") from error
    binary = workload.loss == "binary-cross-entropy"
    if len(shape) != 1 or (shape[0] != 1 if binary else shape[0] < 2):
        needed = "one logit" if binary else "a logit for each of two classes or more"
        raise NetworkError(f"workload {path}: {workload.loss} needs {needed}, its last layer gives {shape}")


def find_trained(spec: TrialSpec, results: Path) -> Workload | None:
    """Return the workload a stored trial trained: from its inputs, or from the catalogue for trials before networks
    were inputs. None if it no longer exists, or is not what the trial says, and for custom code.
    """
    if spec.task.own_code:
        return None
    if "network" not in spec.inputs:
        return WORKLOADS.get(spec.task.workload)
    return _stored(results, spec.inputs["network"].path, spec.task.network)


@cache  # an input's name has its checksum: its content does not change
def _stored(results: Path, name: str, digest: str) -> Workload | None:
    """Read the network of a results folder that may be foreign: only plain files inside it are read."""
    path = (results / name).resolve()
    if not path.is_relative_to(results.resolve()) or not path.is_file():
        return None
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return read_stored(content, digest)


def read_stored(content: bytes, digest: str | None = None) -> Workload | None:
    """Return the network of an input file's content, if it is one; it must have the `digest`, if given."""
    try:
        workload = network.from_json(json.loads(content))
        refuse_impossible(workload)
        fits = network.digest(workload) == (digest or network.digest(workload))
    except UNUSABLE:
        return None
    return workload if fits else None


def refuse_impossible(workload: Workload) -> None:
    """Raise one of UNUSABLE for a network that no machine can train, or that cannot be written for the workers."""
    sizes = {
        "multiply-adds per image": workload.multiply_adds,
        "parameters": workload.parameter_count,
        "bytes kept per image": activation_bytes(workload, 1),
        "outputs": math.prod(workload.output_shape),
    }
    for name, size in sizes.items():
        if type(size) is not int or not 0 <= size < MOST:
            raise ValueError(f"{str(size)[:SHOWN]} {name}: no machine can train that")
    if not workload.output_shape:
        raise ValueError("it has no output")
    network.to_text(workload)
