"""Run inside a framework's environment: python masks.py OUT_FILE FRAMEWORK DEVICES [SEED...]

Takes one update of as many white images as there are devices, through a dropout of half of all values. Writes each row
of the next layer's kernel, before and after; `of_seeds` has the latter for each seed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from adapters.worker.__main__ import adapter_for
from workloads import weights
from workloads.layers import Dense, Dropout, Flatten, Relu
from workloads.spec import OptimizerSpec, Workload

# A layer has the name that Keras gives an activation without one.
LAYERS = (Flatten("relu"), Relu("positive"), Dropout("dropout", 0.5), Dense("dense", 4))
WORKLOAD = Workload("masks", "", (16, 12, 3), LAYERS)

if __name__ == "__main__":
    out, framework, devices = sys.argv[1], sys.argv[2], int(sys.argv[3])
    adapter = adapter_for(framework, devices)
    adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
    adapter.load(np.full((devices, *WORKLOAD.input_shape), 255, np.uint8), np.arange(devices, dtype=np.int32))
    of_seeds = []
    for seed in map(int, sys.argv[4:] or ["5"]):
        adapter.build(WORKLOAD, OptimizerSpec("sgd", 0.1), weights.draw(WORKLOAD, 3), seed)
        before = adapter.weights()["dense/kernel"].copy()
        adapter.read(adapter.train(np.arange(devices, dtype=np.int32)[None]))
        of_seeds.append(adapter.weights()["dense/kernel"].copy())
    np.savez(out, before=before, after=of_seeds[0], of_seeds=np.stack(of_seeds))
