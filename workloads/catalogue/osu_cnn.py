"""osu-cnn: data."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload

OSU_CNN = Workload(
    name="osu-cnn",
    summary="the TensorFlow CIFAR-10 tutorial CNN, the likeliest network of the OSU 2020 thesis",
    input_shape=(32, 32, 3),
    layers=(
        layers.Conv2D("conv1", filters=32, kernel=(3, 3)),
        layers.Relu("relu1"),
        layers.MaxPool2D("pool1", size=2),
        layers.Conv2D("conv2", filters=64, kernel=(3, 3)),
        layers.Relu("relu2"),
        layers.MaxPool2D("pool2", size=2),
        layers.Conv2D("conv3", filters=64, kernel=(3, 3)),
        layers.Relu("relu3"),
        layers.Flatten("flatten"),
        layers.Dense("dense1", units=64),
        layers.Relu("relu4"),
        layers.Dense("dense2", units=10),
    ),
)
