"""Memory counts that a worker reports."""

from __future__ import annotations

Count = int | str  # bytes, or the reason why they are unknown

# What a framework's allocator holds while it trains; together they are its peak.
PARTS = (
    "parameters",
    "statistics",  # BatchNorm's
    "gradients",
    "optimizer",
    "dataset",  # the training split, if the feed keeps it on the device
    "inputs",  # one batch
    "activations",  # beyond all these, in use between forward and backward
    "workspace",  # temporaries, and what the framework keeps for them
)
