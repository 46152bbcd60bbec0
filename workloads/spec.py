"""The vocabulary in which a workload is defined, and the numeric contract every adapter keeps.

Numeric contract
----------------
* Images are NHWC uint8 up to the device; there `x = float32(pixel) * float32(workload.scale)`.
* Convolution kernels are HWIO, dense kernels (in, out); weights are keyed "layer/role".
* Loss = mean over the batch of the softmax cross-entropy, from logits. No hidden weight decay.
* float32 throughout, TF32 off, unless the trial says otherwise.
* With g the gradient of the mean loss, m the momentum and lr the learning rate:
    sgd        w -= lr g
    momentum   v = m v + g;  w -= lr v
    nesterov   v = m v + g;  w -= lr (g + m v)
    adam       m1 = beta1 m1 + (1 - beta1) g;  m2 = beta2 m2 + (1 - beta2) g^2
               w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) * m1 / (sqrt(m2) + epsilon)
  Adam's epsilon is outside the bias correction (Keras, MXNet); PyTorch keeps it inside and is
  translated by epsilon / sqrt(1 - beta2^t).
* Nothing random is drawn by an adapter: initial weights and batch order arrive as data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

Shape = tuple[int, ...]


def image_shape(layer: str, shape: Shape) -> tuple[int, int, int]:
    """The shape as (h, w, c); ValueError naming the layer where it is none."""
    if len(shape) != 3:
        raise ValueError(f"layer {layer}: needs an image (h, w, c), got {shape}")
    return shape[0], shape[1], shape[2]


@dataclass(frozen=True)
class Conv2D:
    """2-D convolution with bias, stride 1, "valid" padding: (h, w, c) -> (h-kh+1, w-kw+1, filters)."""

    name: str
    filters: int
    kernel: tuple[int, int]

    def output_shape(self, shape: Shape) -> Shape:
        (height, width, _), (kernel_height, kernel_width) = image_shape(self.name, shape), self.kernel
        if height < kernel_height or width < kernel_width:
            raise ValueError(f"layer {self.name}: kernel {self.kernel} is larger than its input {shape}")
        return (height - kernel_height + 1, width - kernel_width + 1, self.filters)

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"kernel": (*self.kernel, shape[2], self.filters), "bias": (self.filters,)}

    def multiply_adds(self, shape: Shape) -> int:
        return math.prod(self.output_shape(shape)) * math.prod(self.kernel) * shape[2]


@dataclass(frozen=True)
class MaxPool2D:
    """Maximum over size x size windows, stride = size; a remainder at the edge is dropped."""

    name: str
    size: int

    def output_shape(self, shape: Shape) -> Shape:
        height, width, channels = image_shape(self.name, shape)
        if height < self.size or width < self.size:
            raise ValueError(f"layer {self.name}: window {self.size} is larger than its input {shape}")
        return (height // self.size, width // self.size, channels)

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {}

    def multiply_adds(self, shape: Shape) -> int:
        return 0


@dataclass(frozen=True)
class Relu:
    """max(x, 0); its derivative at 0 is 0."""

    name: str

    def output_shape(self, shape: Shape) -> Shape:
        return shape

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {}

    def multiply_adds(self, shape: Shape) -> int:
        return 0


@dataclass(frozen=True)
class Flatten:
    """(h, w, c) -> (h*w*c,) in that order: the channel varies fastest."""

    name: str

    def output_shape(self, shape: Shape) -> Shape:
        return (math.prod(shape),)

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {}

    def multiply_adds(self, shape: Shape) -> int:
        return 0


@dataclass(frozen=True)
class Dense:
    """Fully connected layer with bias: (in,) -> (units,)."""

    name: str
    units: int

    def output_shape(self, shape: Shape) -> Shape:
        if len(shape) != 1:
            raise ValueError(f"layer {self.name}: needs a flat input, got {shape}; put a Flatten before it")
        return (self.units,)

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"kernel": (shape[0], self.units), "bias": (self.units,)}

    def multiply_adds(self, shape: Shape) -> int:
        return shape[0] * self.units


Layer = Conv2D | MaxPool2D | Relu | Flatten | Dense


@dataclass(frozen=True)
class Workload:
    """A model and its input. Kernels start glorot-uniform, biases at zero (`weights.draw`)."""

    name: str
    summary: str
    input_shape: Shape
    layers: tuple[Layer, ...]
    scale: float = 1 / 255

    def __post_init__(self) -> None:
        names = [layer.name for layer in self.layers]
        if len(set(names)) != len(names):
            raise ValueError(f"workload {self.name}: layer names repeat: {names}")

    def walk(self) -> Iterator[tuple[Layer, Shape]]:
        """Each layer with the shape (without the batch) that enters it; ValueError where one does not fit."""
        shape = self.input_shape
        for layer in self.layers:
            yield layer, shape
            shape = layer.output_shape(shape)

    @property
    def output_shape(self) -> Shape:
        layer, shape = list(self.walk())[-1]
        return layer.output_shape(shape)

    @property
    def classes(self) -> int:
        return self.output_shape[0]

    def parameter_shapes(self) -> dict[str, Shape]:
        """{"layer/role": shape} of everything trained, in the order of the layers."""
        return {
            f"{layer.name}/{role}": parameter
            for layer, shape in self.walk()
            for role, parameter in layer.parameter_shapes(shape).items()
        }

    @property
    def parameter_count(self) -> int:
        return sum(math.prod(shape) for shape in self.parameter_shapes().values())

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of one forward pass of one image."""
        return sum(layer.multiply_adds(shape) for layer, shape in self.walk())


OptimizerName = Literal["sgd", "momentum", "nesterov", "adam"]
OPTIMIZER_NAMES: tuple[OptimizerName, ...] = get_args(OptimizerName)


@dataclass(frozen=True)
class OptimizerSpec:
    """An update rule of the numeric contract; fields a rule does not use are ignored by it."""

    name: OptimizerName
    learning_rate: float = 0.01
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-7

    @staticmethod
    def named(name: OptimizerName, learning_rate: float | None = None) -> OptimizerSpec:
        """The rule with its customary learning rate (0.001 for Adam, else 0.01) unless one is given."""
        if learning_rate is None:
            learning_rate = 0.001 if name == "adam" else 0.01
        return OptimizerSpec(name, learning_rate)
