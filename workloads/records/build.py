"""The name of a build of a framework: "pytorch", or "pytorch@nightly" if there are several. A mode is appended:
"pytorch@tuned", "pytorch@nightly.tuned.bfloat16" do not train as the framework's guide teaches, or not in float32.
Each is a column of tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

MARK, DOT = "@", "."
LABEL = re.compile(r"[a-z0-9.-]{1,20}")  # the caller's; it is part of folder names

# The training styles of an adapter: as its framework's guide teaches, or as fast as possible with the same numbers; or
# as the guide teaches, with cuDNN's convolutions chosen by trying them, or by rule.
Profile = Literal["default", "tuned", "autotune", "no-autotune"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
DEFAULT, TUNED, AUTOTUNE, NO_AUTOTUNE = PROFILES
OF_CUDNN: tuple[str, ...] = (AUTOTUNE, NO_AUTOTUNE)
# The precisions of its layers; weights, losses and updates are always in float32.
Precision = Literal["float32", "tf32", "bfloat16", "float16"]
PRECISIONS: tuple[str, ...] = get_args(Precision)
FLOAT32, TF32, BFLOAT16, FLOAT16 = PRECISIONS
REDUCED: tuple[str, ...] = PRECISIONS[1:]
# Significant binary digits, the first of which is not stored: float32 has 24 (IEEE 754; NVIDIA's and Google's own).
DIGITS: dict[str, int] = {TF32: 11, BFLOAT16: 8, FLOAT16: 11}
FLOAT64 = "float64"  # used only by the referee; no study asks for it


@dataclass(frozen=True)
class Mode:
    """The training style and precision of a build."""

    profile: str = DEFAULT
    precision: str = FLOAT32


def adapter_of(build: str) -> str:
    """Return the framework of this build: its adapter's folder."""
    return build.partition(MARK)[0]


def label_of(build: str) -> str:
    """Return the label that separates it from other builds; "" for the framework's standard environment."""
    return build.partition(MARK)[2]


def mode_of(build: str) -> Mode:
    """Return the mode named by the last parts of its label, if any."""
    return _split(build)[1]


def installed_of(build: str) -> str:
    """Return the installed build, without its mode."""
    return _split(build)[0]


def in_mode(build: str, mode: Mode) -> str:
    """Return the same build in this mode; it must have none yet."""
    names = [name for name, usual in ((mode.profile, DEFAULT), (mode.precision, FLOAT32)) if name != usual]
    return _named(adapter_of(build), label_of(build), *names)


def _named(adapter: str, *label: str) -> str:
    return MARK.join(filter(None, (adapter, DOT.join(filter(None, label)))))


def _split(build: str) -> tuple[str, Mode]:
    label = label_of(build).split(DOT)
    precision = label.pop() if label[-1] in REDUCED else FLOAT32
    profile = label.pop() if label[-1:] and label[-1] in PROFILES[1:] else DEFAULT
    return _named(adapter_of(build), *label), Mode(profile, precision)
