"""How one build of a framework is named: "pytorch", or "pytorch@nightly" where several stand beside each other; and
"pytorch@tuned", "pytorch@nightly.tuned.bfloat16", where it trains otherwise than its guide teaches, or not in float32.
Each is a column of tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

MARK, DOT = "@", "."
LABEL = re.compile(r"[a-z0-9.-]{1,20}")  # of the caller's; it stands in names of folders

# How an adapter trains: as its framework's guide teaches, or as fast as it is known to with the same numbers; or as the
# guide teaches, with cuDNN's convolutions chosen by trying them, or by rule.
Profile = Literal["default", "tuned", "autotune", "no-autotune"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
DEFAULT, TUNED, AUTOTUNE, NO_AUTOTUNE = PROFILES
OF_CUDNN: tuple[str, ...] = (AUTOTUNE, NO_AUTOTUNE)
# What it computes its layers in: all but the first with weights, losses and updates in float32.
Precision = Literal["float32", "tf32", "bfloat16", "float16"]
PRECISIONS: tuple[str, ...] = get_args(Precision)
FLOAT32, TF32, BFLOAT16, FLOAT16 = PRECISIONS
REDUCED: tuple[str, ...] = PRECISIONS[1:]
# Significant binary digits, of which the first is not stored: 24 of float32 (IEEE 754; NVIDIA's and Google's own).
DIGITS: dict[str, int] = {TF32: 11, BFLOAT16: 8, FLOAT16: 11}
FLOAT64 = "float64"  # the referee's alone; no study asks for it


@dataclass(frozen=True)
class Mode:
    """How a build trains."""

    profile: str = DEFAULT
    precision: str = FLOAT32


def adapter_of(build: str) -> str:
    """The framework that it is a build of: its adapter's folder."""
    return build.partition(MARK)[0]


def label_of(build: str) -> str:
    """What tells it from other builds; "" of the framework's own environment."""
    return build.partition(MARK)[2]


def mode_of(build: str) -> Mode:
    """What the last parts of its label say, if they are a mode's names."""
    return _split(build)[1]


def installed_of(build: str) -> str:
    """What is installed, however it trains."""
    return _split(build)[0]


def in_mode(build: str, mode: Mode) -> str:
    """The same build in this mode; it has none yet."""
    names = [name for name, usual in ((mode.profile, DEFAULT), (mode.precision, FLOAT32)) if name != usual]
    return _named(adapter_of(build), label_of(build), *names)


def _named(adapter: str, *label: str) -> str:
    return MARK.join(filter(None, (adapter, DOT.join(filter(None, label)))))


def _split(build: str) -> tuple[str, Mode]:
    label = label_of(build).split(DOT)
    precision = label.pop() if label[-1] in REDUCED else FLOAT32
    profile = label.pop() if label[-1:] and label[-1] in PROFILES[1:] else DEFAULT
    return _named(adapter_of(build), *label), Mode(profile, precision)
