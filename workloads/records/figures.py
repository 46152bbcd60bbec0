"""Measured numbers: each with its source, or with the reason why it is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .word import Word

Count = int | str  # bytes, or the reason why they are unknown
DIVERGED_STEP = "diverged_step"  # the figure; null where every loss is a number

# What a framework's allocator holds while it trains; together they are its peak.
MEMORY_PARTS = (
    "parameters",
    "statistics",  # BatchNorm's
    "gradients",
    "optimizer",
    "dataset",  # the training split, where the feed keeps it on the device
    "inputs",  # one batch
    "activations",  # beyond all these, in use between forward and backward
    "workspace",  # temporaries, and what the framework keeps for them
)


class Method(Word):
    """How a figure was counted, where nobody can judge it without knowing that."""

    CHUNKS = "chunks"  # the allocator's chunks, each up to twice what was asked for, and others in the next run


@dataclass(frozen=True)
class Figure:
    """One measured number; its unit is in its name. Unknown is None with a reason, never 0."""

    value: float | None
    source: str
    samples: int | None = None
    reason: str | None = None
    method: Method | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a figure has either a value or the reason why it has none")

    @staticmethod
    def from_json(data: dict[str, Any]) -> Figure:
        """Raises ValueError for a method that there is not, TypeError for a field too many or too few."""
        method = data.get("method")
        return Figure(**{**data, "method": None if method is None else Method(method)})
