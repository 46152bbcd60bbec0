"""cats-dogs-cnn: data."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload

CATS_DOGS_CNN = Workload(
    name="cats-dogs-cnn",
    summary="the cats-and-dogs CNN of Lheureux 2022: one wide convolution, a sigmoid output",
    input_shape=(200, 200, 3),
    layers=(
        layers.Conv2D("conv1", filters=32, kernel=(3, 3), padding="same", initializer="he-uniform"),
        layers.Relu("relu1"),
        layers.MaxPool2D("pool1", size=2),
        layers.Flatten("flatten"),
        layers.Dense("dense1", units=128, initializer="he-uniform"),
        layers.Relu("relu2"),
        layers.Dense("dense2", units=1),
    ),
    loss="binary-cross-entropy",
)
