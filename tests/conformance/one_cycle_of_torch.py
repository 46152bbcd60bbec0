"""Run inside PyTorch's environment: python one_cycle_of_torch.py OUT_FILE STEPS...

Writes the rates that PyTorch's OneCycleLR gives each of so many steps.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

HIGHEST = 0.5


def rates_of(steps: int) -> list[float]:
    """Return the rate of each step."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], HIGHEST)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, HIGHEST, total_steps=steps, cycle_momentum=False)
    rates = []
    for step in range(steps):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        if step < steps - 1:
            schedule.step()
    return rates


if __name__ == "__main__":
    path, *counts = sys.argv[1:]
    Path(path).write_text(json.dumps({count: rates_of(int(count)) for count in counts}))
