"""resnet-18: data, with only the logic that its publication repeats."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload


def _basic_block(name: str, entering: int, width: int, stride: int) -> tuple[layers.Layer, ...]:
    """Return two 3 x 3 convolutions and a shortcut, projected if the shape changes (He et al. 2016, option B)."""

    def normalised(part: str, kernel: int, stride: int) -> tuple[layers.Layer, ...]:
        convolution = layers.Conv2D(f"{name}_{part}", width, (kernel, kernel), stride, "same", False, "he-normal")
        return convolution, layers.BatchNorm(f"{name}_{part}_norm", momentum=0.9, epsilon=1e-5)

    chain = (*normalised("conv1", 3, stride), layers.Relu(f"{name}_relu1"), *normalised("conv2", 3, 1))
    shortcut = normalised("shortcut", 1, stride) if stride > 1 or entering != width else ()
    return layers.residual(f"{name}_add", chain, shortcut), layers.Relu(f"{name}_relu2")


def _resnet_18() -> tuple[layers.Layer, ...]:
    chain: tuple[layers.Layer, ...] = (
        layers.Conv2D("stem", 64, (3, 3), 1, "same", bias=False, initializer="he-normal"),
        layers.BatchNorm("stem_norm", momentum=0.9, epsilon=1e-5),
        layers.Relu("stem_relu"),
    )
    entering = 64
    for stage, width in enumerate((64, 128, 256, 512), start=1):
        for number in (1, 2):
            stride = 2 if stage > 1 and number == 1 else 1
            chain += _basic_block(f"stage{stage}_block{number}", entering, width, stride)
            entering = width
    return (*chain, layers.GlobalAveragePool2D("pool"), layers.Dense("dense", units=10))


RESNET_18 = Workload(
    name="resnet-18",
    summary="ResNet-18 (He et al. 2016) for 32 x 32: a stem of one 3 x 3 convolution, as in the paper's section 4.2",
    input_shape=(32, 32, 3),
    layers=_resnet_18(),
    differs="strided convolutions pad like TensorFlow's \"same\", below and on the right; the paper's code and "
    "torchvision pad 1 on each side. PyTorch and MXNet copy the images to pad them so, at a cost in speed",
)
