"""A model that the caller's code makes: how a worker gets it, the same for every framework."""

from __future__ import annotations

import sys
from collections.abc import Callable
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


def make_checked(
    make_model: Callable[[int], Any], own: OwnCode, classes: tuple[type, type], predict: Callable[[Any], Any]
) -> Any:
    """Return the caller's model, with all its weights drawn. `classes` are those of a model and of its logits, and
    `predict` computes the logits of PROBED images. Raises TypeError, ValueError.
    """
    model_class, logits_class = classes
    model = make_model(own.classes)
    _refuse_other_class(model, model_class, own.function)
    logits = predict(model)
    _refuse_other_class(logits, logits_class, "the model")
    if tuple(logits.shape) != (PROBED, own.classes):
        shape = tuple(logits.shape)
        raise ValueError(f"the model returns {shape} for {PROBED} images, the data have {own.classes} classes")
    return model


def _refuse_other_class(value: Any, needed: type, giver: str) -> None:
    if not isinstance(value, needed):
        framework = needed.__module__.partition(".")[0]
        given = type(value).__name__
        raise TypeError(f"{giver} returns a value of type {given}; a {needed.__name__} of {framework} is needed")
