"""How one build of a framework is named: "pytorch", or "pytorch@nightly" where several stand beside each other; and
"pytorch@tuned", "pytorch@nightly.tuned", where it trains otherwise than its guide teaches. Each is a column of tables.
"""

from __future__ import annotations

import re

MARK, DOT = "@", "."
DEFAULT, TUNED = "default", "tuned"  # profiles
LABEL = re.compile(r"[a-z0-9.-]{1,20}")  # it stands in names of folders


def adapter_of(build: str) -> str:
    """The framework that it is a build of: its adapter's folder."""
    return build.partition(MARK)[0]


def label_of(build: str) -> str:
    """What tells it from other builds; "" of the framework's own environment."""
    return build.partition(MARK)[2]


def profile_of(build: str) -> str:
    """How it trains: the last part of its label, if that is a profile's name."""
    return TUNED if label_of(build).rpartition(DOT)[2] == TUNED else DEFAULT


def with_profile(build: str, profile: str) -> str:
    """The same build in this profile; it has none yet."""
    if profile == DEFAULT:
        return build
    return f"{build}{DOT if label_of(build) else MARK}{profile}"


def without_profile(build: str) -> str:
    """What is installed, in whatever profile it trains."""
    if profile_of(build) == DEFAULT:
        return build
    return build.rpartition(DOT if DOT in label_of(build) else MARK)[0]
