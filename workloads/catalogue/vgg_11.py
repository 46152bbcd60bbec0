"""vgg-11: data, with only the logic that its publication repeats."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload


def _vgg_11() -> tuple[layers.Layer, ...]:
    chain: tuple[layers.Layer, ...] = ()
    for stage, widths in enumerate(((64,), (128,), (256, 256), (512, 512), (512, 512)), start=1):
        for number, width in enumerate(widths, start=1):
            name = f"conv{stage}_{number}"
            chain += (
                layers.Conv2D(name, width, (3, 3), padding="same", bias=False, initializer="he-normal"),
                layers.BatchNorm(f"{name}_norm", momentum=0.9, epsilon=1e-5),
                layers.Relu(f"{name}_relu"),
            )
        chain += (layers.MaxPool2D(f"pool{stage}", size=2),)
    return (*chain, layers.Flatten("flatten"), layers.Dense("dense", units=10))


VGG_11 = Workload(
    name="vgg-11",
    summary="VGG-11 (Simonyan & Zisserman 2015, column A) for 32 x 32, with BatchNorm and one dense layer",
    input_shape=(32, 32, 3),
    layers=_vgg_11(),
    differs="convolutions have no bias, the paper's have one",
)
