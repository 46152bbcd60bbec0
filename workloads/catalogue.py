"""The named workloads: data, no logic."""

from __future__ import annotations

from .spec import Conv2D, Dense, Flatten, MaxPool2D, Relu, Workload

OSU_CNN = Workload(
    name="osu-cnn",
    summary="the TensorFlow CIFAR-10 tutorial CNN, the likeliest network of the OSU 2020 thesis",
    input_shape=(32, 32, 3),
    layers=(
        Conv2D("conv1", filters=32, kernel=(3, 3)),
        Relu("relu1"),
        MaxPool2D("pool1", size=2),
        Conv2D("conv2", filters=64, kernel=(3, 3)),
        Relu("relu2"),
        MaxPool2D("pool2", size=2),
        Conv2D("conv3", filters=64, kernel=(3, 3)),
        Relu("relu3"),
        Flatten("flatten"),
        Dense("dense1", units=64),
        Relu("relu4"),
        Dense("dense2", units=10),
    ),
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in (OSU_CNN,)}
