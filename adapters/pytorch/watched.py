"""Memory that PyTorch takes while it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


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
