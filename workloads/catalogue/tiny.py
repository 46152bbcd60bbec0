"""tiny: data."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload

TINY = Workload(
    name="tiny",
    summary="one small convolution: a trial of seconds that tries the installation, and measures nothing of interest",
    input_shape=(8, 8, 1),
    layers=(
        layers.Conv2D("conv1", filters=4, kernel=(3, 3)),
        layers.Relu("relu1"),
        layers.MaxPool2D("pool1", size=2),
        layers.Flatten("flatten"),
        layers.Dense("dense1", units=10),
    ),
)
