"""Values that flow through a traced model, and the refusal of a model that has no layers of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from workloads.source.layouts import VECTORS as VECTORS
from workloads.source.layouts import Value as Value

# Modules outside torch.nn that drop whole images: {name of the class: its attribute with the rate}.
DEPTH_RATES = {"StochasticDepth": "p", "DropPath": "drop_prob"}
TIMM_ATTENTION = ("timm.layers.attention", "Attention")  # self-attention, which stays whole as torch.nn's does


class Refused(ValueError):
    """A model that cannot be imported; the message is a clause: what is in the way, and what to do.

    `place` is the path of the module, and `kind` its type, or the function that it calls.
    """

    def __init__(self, reason: str, place: str = "", kind: str = "") -> None:
        super().__init__(reason)
        self.place, self.kind = place, kind

    def line(self) -> str:
        """Return the refusal as one line: the module's path, its type, and the reason."""
        kind = f" ({self.kind})" if self.kind else ""
        place = f"{self.place or 'the model'}{kind}: "
        return f"{place}{' '.join(str(self).split())}"


@dataclass(frozen=True)
class Tensor:
    """A parameter of the source that its code uses directly, expanded over the batch or not."""

    name: str  # its path in the model
    shape: tuple[int, ...]

    def per_channel(self, value: Value) -> bool:
        """True if it broadcasts against the value as one number per channel."""
        return value.is_per_channel(self.shape)


@dataclass(frozen=True)
class Call:
    """A call that the trace recorded: of a module, a function or a method."""

    place: str  # path of the module that makes the call, or that is called
    name: str  # of the function or method; "" for a module
    args: tuple[Any, ...]  # Values and Tensors in place of what the trace recorded
    kwargs: dict[str, Any]
    shape: tuple[int, ...]  # of its output
    module: nn.Module | None = None
    drops: bool = True  # a function of dropout: whether it drops in training

    def arguments(self, *names: str, **defaults: Any) -> list[Any]:
        """Return the arguments of these names, given by position or by name; `defaults` are those that may miss."""
        given = dict(zip(names, self.args, strict=False)) | self.kwargs
        return [given.get(name, defaults.get(name)) for name in names]

    @property
    def value(self) -> Value:
        """The first argument. Raises Refused if no layer gives it."""
        first = self.args[0] if self.args else next(iter(self.kwargs.values()), None)
        if not isinstance(first, Value):
            raise Refused("computes with a parameter or constant in a way that no layer record supports")
        return first


def as_pair(number: Any) -> tuple[int, int]:
    """Return (rows, columns) of PyTorch's number or pair."""
    return (number, number) if isinstance(number, int) else (int(number[0]), int(number[1]))


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of a tensor, or of the first tensor of a tuple; () for anything else."""
    if isinstance(value, tuple | list):
        return next((shape_of(each) for each in value if isinstance(each, torch.Tensor)), ())
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()
