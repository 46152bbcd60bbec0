"""Settings of one Keras layer: each is read once, and one that changes a step is never lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..weights import Weights
from .vocabulary import ImportRefused

# Settings that decide nothing of a step's computation.
WITHOUT_EFFECT = {"name", "trainable", "dtype", "seed", "synchronized", "renorm_clipping", "renorm_momentum"}
WITHOUT_EFFECT |= {"data_format", "lora_alpha"}  # the latter without a lora_rank
INITIALIZERS = {"GlorotUniform": "glorot-uniform", "HeUniform": "he-uniform", "HeNormal": "he-normal"}
USUAL_START = {"bias": "Zeros", "beta": "Zeros", "moving_mean": "Zeros", "gamma": "Ones", "moving_variance": "Ones"}


@dataclass(frozen=True)
class Variable:
    """Place of a weight in a layer: a part of it, "" for the layer itself, and a number among the part's variables."""

    folder: str
    number: int


@dataclass(frozen=True)
class Part:
    """An operator of a layer, and {role: its variable}."""

    operator: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, Variable] = field(default_factory=dict)


@dataclass
class LayerConfig:
    """Settings of one layer. Each is taken once; what is left at the end is refused."""

    place: str  # path and class
    left: dict[str, Any]
    rank: int | None  # axes of its input, the batch included; None if unknown
    channels: int | None
    variables: Weights | None = None  # {number of a variable: array}; None without a file of weights
    notes: list[str] = field(default_factory=list)  # differences from the source

    def take(self, name: str, usual: Any = None) -> Any:
        """Return a setting."""
        return self.left.pop(name, usual)

    def need(self, name: str, *accepted: Any) -> Any:
        """Return a setting that must be one of these; the first is the usual one. Raises ImportRefused."""
        value = self.take(name, accepted[0])
        if value not in accepted:
            raise self.refuse(f"{name}={value!r} has no layer; it must be {' or '.join(map(repr, accepted))}")
        return value

    def take_one(self, name: str, usual: Any = None) -> int:
        """Return the number that a pair of equal numbers repeats. Raises ImportRefused."""
        value = self.take(name, usual)
        values = value if isinstance(value, list) else [value]
        if any(each != values[0] for each in values) or type(values[0]) is not int:
            raise self.refuse(f"{name}={value!r} has no layer; both axes must be equal")
        return int(values[0])

    def need_last_axis(self, usual: int = -1) -> None:
        """Raise ImportRefused unless `axis` is the last one, the channels."""
        axis = self.take("axis", usual)
        axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
        if axis != -1 and (self.rank is None or axis != self.rank - 1):
            raise self.refuse(f"axis={axis!r} has no layer; it must be the last axis, -1")

    def refuse(self, reason: str) -> ImportRefused:
        """Return the error to raise."""
        return ImportRefused(f"{self.place}: {reason}")

    def finish(self, weighted: bool) -> None:
        """Raise ImportRefused for a setting that changes a step and was not read."""
        if weighted and self.left.get("trainable") is False:
            raise self.refuse("is frozen (trainable=False); a network here trains every weight: set trainable=True")
        if self.left.get("data_format", "channels_last") not in ("channels_last", None):
            raise self.refuse("data_format='channels_first' has no layer; build it with channels_last")
        dtype = self.left.get("dtype")
        policy = dtype["config"].get("name") if isinstance(dtype, dict) else dtype
        if policy not in (None, "float32"):
            raise self.refuse(f"dtype {policy}: build it in float32, and choose a precision with --precision")
        for name, value in self.left.items():
            if name.endswith("_initializer"):
                self._note_start(name, value)
            elif name.endswith(("_regularizer", "_constraint")) and value is not None:
                raise self.refuse(f"{name} changes the loss or the weights; leave it out, or see --weight-decay")
            elif (
                name not in WITHOUT_EFFECT and value is not None and not name.endswith(("_regularizer", "_constraint"))
            ):
                raise self.refuse(f"the setting {name}={str(value)[:40]!r} is unknown here")

    def take_start(self, name: str) -> dict[str, str]:
        """Return {"initializer": ours}, or nothing for one that has no counterpart."""
        value = self.take(name)
        kind = value.get("class_name") if isinstance(value, dict) else None
        if kind in INITIALIZERS:
            return {"initializer": INITIALIZERS[kind]}
        if kind is not None:
            self.notes.append(f"{kind} kernels are drawn as glorot-uniform")
        return {}

    def _note_start(self, name: str, value: Any) -> None:
        kind = value.get("class_name") if isinstance(value, dict) else None
        usual = USUAL_START.get(name.removesuffix("_initializer"))
        if kind is not None and usual is not None and kind != usual:
            self.notes.append(f"{name} {kind} is drawn as {usual}")
