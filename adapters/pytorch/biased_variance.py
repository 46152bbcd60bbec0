"""BatchNorm's running variance as the contract has it."""

from __future__ import annotations

import math
from typing import Any

import torch

from workloads.layers import Shape


class BiasedVariance:
    """Keeps a BatchNorm's running variance to the contract: PyTorch adds the unbiased variance of each batch.

    Over t steps of n values a channel, running = m^t start + (the sum of what was added), and the sum is
    n / (n - 1) times what the biased variance gives. So it is put right between steps, when n changes or somebody
    looks, and costs a step nothing.
    """

    def __init__(self, block: Any, shape: Shape) -> None:
        self.block, self.pixels = block, math.prod(shape[:-1])
        self.batch = self.steps = 0
        self.start = block.running_var.clone()

    def expect(self, batch: int) -> None:
        """The next steps have this batch size."""
        if batch != self.batch:
            self.settle()
            self.batch = batch

    def settle(self) -> None:
        """Put the running variance right, for all steps since this was asked last."""
        with torch.no_grad():
            running, n = self.block.running_var, self.batch * self.pixels
            if self.steps:
                kept = (1 - self.block.momentum) ** self.steps * self.start
                running.copy_(kept + (running - kept) * ((n - 1) / n))
            self.start, self.steps = running.clone(), 0
