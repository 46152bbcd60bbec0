"""A column of tables: a build of a framework, in a training style and a precision; and its name, which files store.

"pytorch" is a framework's standard build, "pytorch@nightly" another. A mode is appended: "pytorch@tuned" and
"pytorch@nightly.tuned.bfloat16" do not train as the framework's guide teaches, or not in float32.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, get_args

MARK, DOT = "@", "."
ALL, EVERYTHING = "all", "everything"  # of --framework: the thesis' three, and all that there are
LABEL = re.compile(r"[a-z0-9.-]{1,20}")  # the caller's; it is part of folder names

# The training styles of an adapter: as its framework's guide teaches, or as fast as possible with the same numbers; or
# as the guide teaches, with cuDNN's convolutions chosen by trying them, or by rule; by the `fit` of Keras, as its users
# do; or with the framework's compiler.
Profile = Literal["default", "tuned", "autotune", "no-autotune", "fit", "compiled"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
DEFAULT, TUNED, AUTOTUNE, NO_AUTOTUNE, FIT, COMPILED = PROFILES
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


@dataclass(frozen=True)
class Column:
    """A build of a framework in a mode; str() is its name.

    `framework` is its adapter's folder. `label` separates the build from the framework's others; "" is the standard
    environment.
    """

    framework: str
    label: str = ""
    mode: Mode = Mode()

    @property
    def suffix(self) -> str:
        """Part of the name after MARK: label and mode, the usual ones left out."""
        usual = ((self.label, ""), (self.mode.profile, DEFAULT), (self.mode.precision, FLOAT32))
        return DOT.join(name for name, left_out in usual if name != left_out)

    def __str__(self) -> str:
        return f"{self.framework}{MARK}{self.suffix}" if self.suffix else self.framework

    @property
    def installed(self) -> str:
        """Name of the installed build, which is the same in each mode."""
        return str(replace(self, mode=Mode()))


@cache
def column_of(name: str) -> Column:
    """Read a column's name; the last parts of its label are the mode, if they name one."""
    framework, _, label = name.partition(MARK)
    parts = label.split(DOT)
    precision = parts.pop() if parts[-1] in REDUCED else FLOAT32
    profile = parts.pop() if parts[-1:] and parts[-1] in PROFILES[1:] else DEFAULT
    return Column(framework, DOT.join(filter(None, parts)), Mode(profile, precision))
