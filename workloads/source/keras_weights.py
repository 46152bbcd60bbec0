"""Read the variables of model.weights.h5, which Keras 3 writes: {folder: {number: array}}."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import numpy as np

from ..weights import Weights
from .vocabulary import ImportRefused

FOLDER = "vars"


def read_variables(file: BinaryIO, name: str) -> dict[str, Weights]:
    """Return the arrays of each folder called "vars". Raises ImportRefused.

    Only what the file itself holds is read: links to other files are refused.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportRefused(f"{name}: its weights need the package h5py; pip install -r requirements.txt") from error
    variables: dict[str, Weights] = {}
    size = file.seek(0, io.SEEK_END)

    def visit(group: Any, path: str) -> None:
        for key in group:
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise ImportRefused(f"{name}: {path}/{key} is a link to another place; only plain files are read")
            item = group[key]
            if isinstance(item, h5py.Group):
                visit(item, f"{path}/{key}".strip("/"))
            elif fault := _find_fault(item, size):
                raise ImportRefused(f"{name}: {path}/{key} {fault}")
            elif path.rpartition("/")[2] == FOLDER and item.dtype.kind in "fiu":
                variables.setdefault(path, {})[key] = np.asarray(item[()], np.float32)

    try:
        with h5py.File(file, "r") as opened:
            visit(opened, "")
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        if isinstance(error, ImportRefused):
            raise
        raise ImportRefused(f"{name}: its weights cannot be read: {' '.join(str(error).split())[:200]}") from error
    return variables


def _find_fault(item: Any, size: int) -> str:
    """Return why a dataset of a file of `size` bytes is not read, "" if it is."""
    if item.external or item.is_virtual:
        return "is kept in another file; only plain files are read"
    if item.nbytes > size:  # values that were never written take no room
        return f"has {item.nbytes:,} bytes, the whole file {size:,}"
    return ""
