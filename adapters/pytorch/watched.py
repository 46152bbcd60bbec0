"""Memory that PyTorch takes while it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from adapters.base import Unsupported

SHARED_POOL = (0, 0)  # the allocator's own; each CUDA graph is captured into a pool with another id


def refuse_graphs(device: torch.device) -> None:
    """Raise Unsupported if steps may be replays of a CUDA graph, as custom code may make them.

    A replay uses its graph's private pool without asking the allocator, which counts what the capture left: activations
    would be nearly 0, and the peak too small.
    """
    if device.type != "cuda":
        return
    private = sum(
        segment["total_size"]
        for segment in torch.cuda.memory_snapshot()
        if tuple(segment.get("segment_pool_id", SHARED_POOL)) != SHARED_POOL  # old builds do not say it
    )
    if private:
        raise Unsupported(
            f"a CUDA graph keeps {private / 2**20:.1f} MiB for itself: PyTorch does not count what its replays use"
        )


def watch(device: torch.device, work: Callable[[], Any]) -> tuple[Any, int, int]:
    """Return (the work's result, bytes it leaves in use, the most it used), both above the bytes in use before."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = work()
        torch.cuda.synchronize()
        return result, torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        result = work()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    in_use = np.cumsum([0, *changes])
    return result, int(in_use[-1]), int(in_use.max())
