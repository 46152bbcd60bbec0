"""Schedules with a framework's name give that framework's own rates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from suite import HERE, run_in

from workloads.schedules import compute_rates
from workloads.spec import OptimizerSpec

STEPS = (1, 2, 3, 4, 7, 10, 11, 100, 101, 1000)


def test_one_cycle_gives_each_step_the_rate_of_pytorchs_own_scheduler(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    run_in("pytorch", HERE / "one_cycle_of_torch.py", str(path), *map(str, STEPS))
    of_torch = json.loads(path.read_text())
    assert list(of_torch) == [str(steps) for steps in STEPS]
    rule = OptimizerSpec("momentum", 0.5, schedule="one-cycle")
    for steps, expected in of_torch.items():
        np.testing.assert_allclose(compute_rates(rule, int(steps)), expected, rtol=1e-6, err_msg=steps)
