"""python -m adapters.pytorch.tracing FOLDER: import the model of the user's code that FOLDER/request.json names.

It writes traced.json: the nodes, the number of parameters and the source of each weight, or why the model is refused;
and tensors.npz: each weight "node/role", kernels HWIO or (in, out); rows after a Flatten as PyTorch has them.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from adapters.pytorch.tracing.checks import count_parameters, import_model
from adapters.pytorch.tracing.network import Part
from adapters.pytorch.tracing.values import Refused
from adapters.shared import PROBED, function_of
from workloads.source.traced import REQUEST_FILE, TENSORS_FILE, TRACED_FILE
from workloads.weights import CHANNELS_FIRST


def main(folder: Path) -> None:
    """Import the model, or write down in one line why not."""
    request = json.loads((folder / REQUEST_FILE).read_text(encoding="utf-8"))
    try:
        traced = import_code(request, folder)
    except Refused as refusal:
        traced = {"refused": refusal.line()}
    (folder / TRACED_FILE).write_text(json.dumps(traced), encoding="utf-8")


def import_code(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the network of the request's function, and write its tensors. Raises Refused."""
    torch.manual_seed(request["seed"])
    function = request["function"]
    try:
        model = make_model(function_of(Path(request["file"]), function), request["classes"])
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}", function) from error
    if not isinstance(model, nn.Module):
        raise Refused(f"returns a value of type {type(model).__name__}; a Module of torch is needed", function)
    height, width, channels = request["input_shape"]
    sample = torch.rand(PROBED, channels, height, width, generator=torch.Generator().manual_seed(0))
    run_once(model, sample)
    network = import_model(model, sample)
    tensors = {key: read_part(model, key.rpartition("/")[2], part) for key, part in network.tensors.items()}
    np.savez(folder / TENSORS_FILE, **tensors)  # type: ignore[arg-type]
    return {
        "model": type(model).__name__,
        "parameters": count_parameters(model),
        "nodes": network.nodes,
        "sources": network.tensors,
    }


def make_model(function: Callable[..., Any], classes: int) -> Any:
    """Return what the function makes; it is called with the number of classes if it takes an argument by position."""
    if isinstance(function, nn.Module):
        raise Refused("is a model; name a function that makes it", type(function).__name__)
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes = any(each.kind in places for each in inspect.signature(function).parameters.values())
    return function(classes) if takes else function()


def run_once(model: nn.Module, sample: torch.Tensor) -> None:
    """Compute the logits once, so that lazy modules have their weights. Raises Refused."""
    model.eval()
    try:
        with torch.no_grad():
            model(sample)
    except Exception as error:
        shape = " x ".join(map(str, sample.shape[1:]))
        raise Refused(
            f"fails on images of {shape}: {type(error).__name__}: {error}", "", type(model).__name__
        ) from error


def read_part(model: nn.Module, role: str, part: Part) -> np.ndarray:
    """Return the rows of a parameter or buffer that one of our weights is, channels last."""
    name, first, end = part
    path, _, leaf = name.rpartition(".")
    tensor: torch.Tensor = getattr(model.get_submodule(path), leaf)
    array: np.ndarray = tensor.detach()[first:end].float().numpy()
    if role.endswith("kernel"):
        array = array.transpose(np.argsort(CHANNELS_FIRST[array.ndim]))
    return np.ascontiguousarray(array)


if __name__ == "__main__":
    main(Path(sys.argv[-1]).resolve())
