"""BatchNorm's running variance as the contract defines it."""

from __future__ import annotations

import math
from typing import Any

import torch

from workloads.layers import Shape


class BiasedVariance:
    """Keeps a BatchNorm's running variance to the contract: PyTorch adds the unbiased variance of each batch.

    Over t steps of n values per channel, running = m^t start + (the sum of the added variances). The sum is n / (n - 1)
    times that of the biased variances. So it is corrected between steps, when n changes or it is read, and costs a step
    nothing.
    """

    def __init__(self, block: Any, shape: Shape) -> None:
        self.block, self.pixels = block, math.prod(shape[:-1])
        self.batch = self.steps = 0
        self.start = block.running_var.clone()

    def expect(self, batch: int) -> None:
        """Announce the batch size of the next steps."""
        if batch != self.batch:
            self.settle()
            self.batch = batch

    def settle(self) -> None:
        """Correct the running variance, for all steps since the last call."""
        with torch.no_grad():
            running, n = self.block.running_var, self.batch * self.pixels
            if self.steps:
                kept = (1 - self.block.momentum) ** self.steps * self.start
                running.copy_(kept + (running - kept) * ((n - 1) / n))
            self.start, self.steps = running.clone(), 0
