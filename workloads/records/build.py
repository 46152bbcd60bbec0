"""How one build of a framework is named: "pytorch", or "pytorch@nightly" where several stand beside each other."""

from __future__ import annotations

import re

MARK = "@"
LABEL = re.compile(r"[a-z0-9.-]{1,20}")  # it stands in names of folders


def adapter_of(build: str) -> str:
    """The framework that it is a build of: its adapter's folder."""
    return build.partition(MARK)[0]


def label_of(build: str) -> str:
    """What tells it from other builds; "" of the framework's own environment."""
    return build.partition(MARK)[2]
