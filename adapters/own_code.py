"""A model that the caller's code makes: how a worker gets it, the same for every framework."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from workloads.records.network import OwnCode
from workloads.spec import Workload

MODULE = "own_code"  # the file's module name in Python: classes in it are looked up there
PROBED = 2  # images, for the shape of the output


def function_of(path: Path, name: str) -> Callable[[int], Any]:
    """Return the function `name` of the file. Raises what the file raises; no byte code is written next to it."""
    module = ModuleType(MODULE)
    module.__file__ = str(path)
    sys.modules[MODULE] = module
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except SystemExit as error:
        raise RuntimeError(f"the file ends the program: SystemExit: {error}") from error
    function: Callable[[int], Any] = getattr(module, name)
    return function


def without_layers(own: OwnCode) -> Workload:
    """Return the input, the scale and the loss of the trial; only the code knows the layers between."""
    return Workload(MODULE, "", own.input_shape, ())


def refuse_other_shape(shape: Sequence[int], classes: int) -> None:
    """Check the shape of the logits of PROBED images. Raises ValueError."""
    if tuple(shape) != (PROBED, classes):
        raise ValueError(f"the model returns {tuple(shape)} for {PROBED} images, the data have {classes} classes")
