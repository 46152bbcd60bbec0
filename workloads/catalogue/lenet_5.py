"""lenet-5: data."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload

LENET_5 = Workload(
    name="lenet-5",
    summary="LeNet-5 (LeCun et al. 1998) as commonly built: tanh, average pooling, every map sees all maps before it",
    input_shape=(32, 32, 1),
    layers=(
        layers.Conv2D("conv1", filters=6, kernel=(5, 5)),
        layers.Tanh("tanh1"),
        layers.AveragePool2D("pool1", size=2),
        layers.Conv2D("conv2", filters=16, kernel=(5, 5)),
        layers.Tanh("tanh2"),
        layers.AveragePool2D("pool2", size=2),
        layers.Flatten("flatten"),
        layers.Dense("dense1", units=120),
        layers.Tanh("tanh3"),
        layers.Dense("dense2", units=84),
        layers.Tanh("tanh4"),
        layers.Dense("dense3", units=10),
    ),
)
