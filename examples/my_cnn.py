"""A custom network: a ResNet-18 an eighth as wide, for photographs of up to ten kinds.

    python -m runner --framework all --workload examples/my_cnn.py --dataset ./photos

`photos` holds train/KIND/*.jpg and test/KIND/*.jpg. Print the network's cost, layer by layer:

    python -m workloads describe examples/my_cnn.py
"""

from workloads.layers import AveragePool2D, BatchNorm, Conv2D, Dense, GlobalAveragePool2D, Layer, Relu, residual
from workloads.spec import Workload


def convolution(name: str, width: int, kernel: int, stride: int = 1) -> list[Layer]:
    """A convolution without a bias, and its norm."""
    return [
        Conv2D(name, width, (kernel, kernel), stride, "same", bias=False, initializer="he-normal"),
        BatchNorm(f"{name}_norm", momentum=0.9),
    ]


def block(name: str, width: int, halves: bool) -> list[Layer]:
    """Two convolutions with a shortcut; where they halve rows and columns, so does it (ResNet-D, He et al. 2019)."""
    first = convolution(f"{name}_conv1", width, 3, stride=2 if halves else 1)
    second = convolution(f"{name}_conv2", width, 3)
    shortcut = [AveragePool2D(f"{name}_pool", size=2), *convolution(f"{name}_shortcut", width, 1)] if halves else []
    return [residual(f"{name}_add", (*first, Relu(f"{name}_relu1"), *second), tuple(shortcut)), Relu(f"{name}_relu2")]


layers = [*convolution("stem", 8, 3), Relu("stem_relu")]
for stage, width in enumerate((8, 16, 32, 64)):
    layers += block(f"stage{stage}_block0", width, halves=stage > 0)
    layers += block(f"stage{stage}_block1", width, halves=False)
layers += [GlobalAveragePool2D("pool"), Dense("dense", units=10)]

MY_CNN = Workload(
    name="my-cnn",
    summary="ResNet-18, an eighth as wide, for up to ten kinds of photographs",
    input_shape=(32, 32, 3),
    layers=tuple(layers),
)
