"""python -m adapters.pytorch.tracing FOLDER: import the model of the user's code that FOLDER/request.json names.

It writes what `workloads.source.traced` reads.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from adapters.pytorch.tracing.checks import count_parameters, import_model
from adapters.pytorch.tracing.network import Network, Part
from adapters.pytorch.tracing.values import Refused
from adapters.shared import PROBED, call_maker, function_of
from workloads.source.traced import REQUEST_FILE, TENSORS_FILE, TRACED_FILE
from workloads.weights import CHANNELS_FIRST


def main(folder: Path) -> None:
    """Import the model, or write down in one line why not."""
    request = json.loads((folder / REQUEST_FILE).read_text(encoding="utf-8"))
    file = Path(request["file"])
    sys.dont_write_bytecode = True  # next to the user's code
    sys.path.insert(0, str(file.parent))
    os.chdir(file.parent)  # names of files in the user's code are relative to it
    try:
        traced = import_code(request, file, folder)
    except Refused as refusal:
        traced = {"refused": refusal.line()}
    (folder / TRACED_FILE).write_text(json.dumps(traced), encoding="utf-8")


def import_code(request: dict[str, Any], file: Path, folder: Path) -> dict[str, Any]:
    """Return the network that the request's function makes, and write its tensors. Raises Refused."""
    torch.manual_seed(request["seed"])
    model = make_model(file, request["function"], request["classes"])
    return import_module(model, tuple(request["input_shape"]), folder)


def import_module(model: nn.Module, input_shape: tuple[int, ...], folder: Path) -> dict[str, Any]:
    """Return the network of a model, and write its tensors. Raises Refused."""
    height, width, channels = input_shape
    sample = torch.rand(PROBED, channels, height, width, generator=torch.Generator().manual_seed(0))
    run_once(model, sample)
    network = import_model(model, sample)
    tensors = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    np.savez(folder / TENSORS_FILE, **tensors)
    return {
        "model": type(model).__name__,
        "parameters": count_parameters(model),
        "nodes": network.nodes,
        "modules": network.modules,
        "sources": [describe_source(network, key, part) for key, part in network.tensors.items()],
    }


def make_model(file: Path, function: str, classes: int) -> nn.Module:
    """Return the model that the function of the file makes. Raises Refused."""
    try:
        maker = function_of(file, function)
        if isinstance(maker, nn.Module):
            raise Refused("is a model; name a function that makes it", function, type(maker).__name__)
        model = call_maker(maker, classes)
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}", function) from error
    if not isinstance(model, nn.Module):
        raise Refused(f"returns a value of type {type(model).__name__}; a Module of torch is needed", function)
    return model


def run_once(model: nn.Module, sample: torch.Tensor) -> None:
    """Compute the logits once, so that lazy modules have their weights. Raises Refused."""
    parameters = inspect.signature(model.forward).parameters.values()
    needed = [
        each.name for each in parameters if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    if len(needed) > 1:
        reason = f"its forward pass has several inputs ({', '.join(needed)}); give it one: images"
        raise Refused(reason, "", type(model).__name__)
    model.eval()
    try:
        with torch.no_grad():
            model(sample)
    except Exception as error:
        shape = " x ".join(map(str, sample.shape[1:]))
        reason = f"fails on images of {shape}: {type(error).__name__}: {error}"
        raise Refused(reason, "", type(model).__name__) from error


def describe_source(network: Network, key: str, part: Part) -> dict[str, Any]:
    """Return the fields of a `SourceParameter`: kernels become HWIO or (in, out)."""
    name, number, count = part
    path, _, leaf = name.rpartition(".")
    axes = getattr(network.model.get_submodule(path), leaf).dim()
    order = [int(axis) for axis in np.argsort(CHANNELS_FIRST[axes])] if key.endswith("kernel") else []
    return {"key": key, "source_name": name, "axes": order, "part": [number, count] if count > 1 else []}


if __name__ == "__main__":
    main(Path(sys.argv[-1]).resolve())
