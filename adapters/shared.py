"""Helpers that several adapters share: divide an update between devices, and take in the caller's model."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from adapters.base import Order, Unsupported
from workloads.records.build import COMPILED, FIT, FLOAT32, TF32, TUNED
from workloads.records.network import OwnCode
from workloads.spec import Loss, Workload

MODULE = "own_code"  # the file's module name in Python: classes in it are looked up there
PROBED = 2  # images, for the shape of the output
NO_PARTS = "profile tuned trains whole updates in one loop: leave --accumulate or --profile tuned out"
# A device that gets no image of an update computes this many all the same, because all devices must take part;
# BatchNorm needs two values of a channel.
FILLED = 2


@dataclass(frozen=True)
class Share:
    """One device's part of an update. `weight` is its part of the mean over all images, 0 if `rows` (n,), indices
    into the split, only fill in.
    """

    rows: Order
    weight: float


def shares(batch: Order, devices: int) -> list[Share]:
    """Divide `batch` (n,) between the devices as evenly as possible: the first ones get one more. The gradient of
    the mean over all of them is the sum of the devices' means, each times its weight.
    """
    pieces = np.array_split(batch, devices)
    return [
        Share(piece, len(piece) / len(batch)) if len(piece) else Share(np.resize(batch, FILLED), 0.0)
        for piece in pieces
    ]


def refuse(profile: str, precision: str, feed: str, name: str) -> None:
    """Raise Unsupported for settings in which this framework's data parallel was not compared with one device."""
    unheld = [
        *([f"profile {profile}"] if profile in (TUNED, COMPILED, FIT) else []),
        *([precision] if precision not in (FLOAT32, TF32) else []),
        *([f"feed {feed}"] if feed != "host" else []),
    ]
    if unheld:
        raise Unsupported(f"{name} on several devices in {' and '.join(unheld)}: never compared with one device")


def refuse_parts(part: int | None, name: str) -> None:
    """Raise Unsupported if each device would have to go through its share in parts."""
    if part is not None:
        raise Unsupported(
            f"{name} on several devices cannot accumulate gradients here: leave --accumulate or --devices out"
        )


def function_of(path: Path, name: str) -> Callable[[int], Any]:
    """Return the function `name` of the file. Raises what the file raises; no byte code is written next to it."""
    module = ModuleType(MODULE)
    module.__file__ = str(path)
    sys.modules[MODULE] = module
    try:
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
    except SystemExit as error:
        raise RuntimeError(f"the file ends the program: SystemExit: {error}") from error
    function: Callable[[int], Any] = getattr(module, name)
    return function


def call_maker(make_model: Callable[..., Any], classes: int) -> Any:
    """Return what the function makes. A parameter that is named after the classes gets their number, else the first
    one by position if it has no default. A default is the user's own choice: another parameter keeps it.
    """
    try:
        parameters = _list_parameters(make_model)
    except ValueError:  # a function in C says nothing
        return make_model(classes)
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for each in parameters:
        if each.kind in by_name and _is_of_classes(each):
            return make_model(**{each.name: classes})
    others = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    first = next((each for each in parameters if each.kind not in others), None)
    takes = first is not None and (first.default is first.empty or _is_of_classes(first))
    return make_model(classes) if takes else make_model()


def _list_parameters(make_model: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a call. A class is asked for those of `__init__`: bases such as Keras' hide them.

    Raises ValueError for a function in C.
    """
    if not isinstance(make_model, type):
        return list(inspect.signature(make_model).parameters.values())
    return list(inspect.signature(make_model.__init__).parameters.values())[1:]  # type: ignore[misc]


def _is_of_classes(parameter: inspect.Parameter) -> bool:
    """True for names such as `classes`, `num_classes` and `n_class`, not for `class_token`."""
    return parameter.name.lower().rstrip("_").endswith(("class", "classes"))


def without_layers(own: OwnCode) -> Workload:
    """Return the input, the scale and the loss of the trial; only the code knows the layers between."""
    loss: Loss = "softmax-cross-entropy" if own.outputs > 1 else "binary-cross-entropy"
    return Workload(MODULE, "", own.input_shape, (), own.scale, loss)


def make_checked(
    make_model: Callable[[int], Any], own: OwnCode, classes: tuple[type, type], predict: Callable[[Any], Any]
) -> Any:
    """Return the caller's model, with all its weights drawn. `classes` are those of a model and of its logits, and
    `predict` computes the logits of PROBED images. Raises TypeError, ValueError.
    """
    model_class, logits_class = classes
    model = call_maker(make_model, own.classes)
    _refuse_other_class(model, model_class, own.function)
    logits = predict(model)
    _refuse_other_class(logits, logits_class, "the model")
    if tuple(logits.shape) != (PROBED, own.outputs):
        shape = tuple(logits.shape)
        needed = (
            f"the data have {own.classes} classes" if own.logits is None else f"its import gives {own.logits} logits"
        )
        raise ValueError(f"the model returns {shape} for {PROBED} images, {needed}")
    return model


def _refuse_other_class(value: Any, needed: type, giver: str) -> None:
    if not isinstance(value, needed):
        framework = needed.__module__.partition(".")[0]
        given = type(value).__name__
        raise TypeError(f"{giver} returns a value of type {given}; a {needed.__name__} of {framework} is needed")
