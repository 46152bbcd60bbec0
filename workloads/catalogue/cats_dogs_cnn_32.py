"""cats-dogs-cnn-32: data."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload

CATS_DOGS_CNN_32 = Workload(
    name="cats-dogs-cnn-32",
    summary="the layers of cats-dogs-cnn on images of 32 x 32, for cifar10-cats-dogs",
    input_shape=(32, 32, 3),
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
