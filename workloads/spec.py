"""The workload and the optimizer, and the numeric contract every adapter keeps.

Numeric contract
----------------
* Images are NHWC uint8 up to the device; there `x = float32(pixel) * float32(workload.scale)`.
* Layers compute what their records in `layers/` say. Convolution kernels are HWIO (depthwise ones have I = 1),
  dense kernels (in, out); weights are keyed "layer/role".
* Loss, a mean over the batch, from logits z:
    softmax-cross-entropy   log(sum_k exp(z_k)) - z_label, one logit per class
    binary-cross-entropy    log(1 + exp(z)) - label z, one logit: that of a sigmoid output for class 1
* float32 throughout, TF32 off, unless the trial says otherwise.
* With g the gradient of the mean loss, w the weights before the step, m the momentum, d the weight decay, lr the
  learning rate of the step, and v, s, m1, m2 zero at first:
    sgd        w -= lr (g + d w)
    momentum   v = m v + g + d w;  w -= lr v
    nesterov   v = m v + g + d w;  w -= lr (g + d w + m v)
    rmsprop    s = rho s + (1 - rho) g^2;  w -= lr g / (sqrt(s) + epsilon)
    adam       m1 = beta1 m1 + (1 - beta1) g;  m2 = beta2 m2 + (1 - beta2) g^2
               w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) * m1 / (sqrt(m2) + epsilon)
    adamw      adam's, and also w -= lr d w: decoupled (Loshchilov & Hutter 2019)
  Everything trained decays, biases and norms too; d is 0 unless the trial says otherwise. Keras' decay is
  always decoupled, PyTorch's and MXNet's always in the gradient except in PyTorch's AdamW.
  Epsilon is outside the root. Adam's is outside the bias correction, too (Keras, MXNet); PyTorch keeps it inside and
  is translated by epsilon / sqrt(1 - beta2^t). RMSprop's is inside the root in Keras and MXNet.
  The learning rate is outside of v (PyTorch); Keras and MXNet keep it inside. So if it changes from a to b, their
  stored values are scaled by b / a before the step.
* An adapter draws nothing random except the masks of Dropout and StochasticDepth, from the trial's seed: initial
  weights and batch order arrive as data. Masks differ between frameworks, so values that must agree are computed
  `without_dropout`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from .layers import Join, Layer, Masked, Shape, Sigmoid, Softmax, changed, walk

Loss = Literal["softmax-cross-entropy", "binary-cross-entropy"]


@dataclass(frozen=True)
class Workload:
    """A model, its input and its loss. Kernels start as their initializer says (`weights.draw`)."""

    name: str
    summary: str
    input_shape: Shape
    layers: tuple[Layer, ...]
    scale: float = 1 / 255
    loss: Loss = "softmax-cross-entropy"
    differs: str = ""  # differences from what the summary names

    def __post_init__(self) -> None:
        names = [layer.name for layer in _every(self.layers)]
        if len(set(names)) != len(names):
            raise ValueError(f"workload {self.name}: layer names repeat: {names}")
        # Keras' loss would undo it, the others' would not.
        last = next((layer for layer in reversed(self.layers) if not isinstance(layer, Masked)), None)
        if isinstance(last, Sigmoid | Softmax):
            raise ValueError(f"workload {self.name}: ends in layer {last.name}, a {type(last).__name__}; leave it out")

    def walk(self) -> Iterator[tuple[Layer, Shape]]:
        """Yield each layer, also those of branches, with its input shape. Raises ValueError if one does not fit."""
        return walk(self.layers, self.input_shape)

    @property
    def output_shape(self) -> Shape:
        """Shape of the logits of one image: (classes,), or (1,) for a binary task."""
        layer, shape = list(self.walk())[-1]
        return layer.output_shape(shape)

    @property
    def classes(self) -> int:
        """Number of classes that the labels distinguish."""
        return 2 if self.loss == "binary-cross-entropy" else self.output_shape[0]

    def parameter_shapes(self) -> dict[str, Shape]:
        """Return {"layer/role": shape} of everything trained, in the order of the layers."""
        return {
            f"{layer.name}/{role}": parameter
            for layer, shape in self.walk()
            for role, parameter in layer.parameter_shapes(shape).items()
        }

    def statistic_shapes(self) -> dict[str, Shape]:
        """Return {"layer/role": shape} of BatchNorm's running statistics."""
        return {
            f"{layer.name}/{role}": statistic
            for layer, shape in self.walk()
            for role, statistic in layer.statistic_shapes(shape).items()
        }

    def weight_shapes(self) -> dict[str, Shape]:
        """Return both: all weights of a trained model."""
        return self.parameter_shapes() | self.statistic_shapes()

    @property
    def parameter_count(self) -> int:
        """Number of trained parameters."""
        return sum(math.prod(shape) for shape in self.parameter_shapes().values())

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of one forward pass of one image."""
        return sum(layer.multiply_adds(shape) for layer, shape in self.walk())

    @property
    def step_flop(self) -> int:
        """Floating-point operations of a training step, per image. A multiply-add is two. The backward pass, which
        makes a gradient of the input and one of the weights, is twice the forward pass.
        """
        return 3 * 2 * self.multiply_adds

    @property
    def draws(self) -> bool:
        """True if training is random beyond its inputs."""
        return any(isinstance(layer, Masked) and layer.rate > 0 for layer in _every(self.layers))

    def without_dropout(self) -> Workload:
        """Return the workload with the rate of every Dropout and StochasticDepth at zero."""

        def off(layer: Layer) -> Layer:
            return replace(layer, rate=0.0) if isinstance(layer, Masked) else layer

        return replace(self, layers=changed(self.layers, off))


def _every(layers: tuple[Layer, ...]) -> Iterator[Layer]:
    for layer in layers:
        yield layer
        if isinstance(layer, Join):
            for branch in layer.branches:
                yield from _every(branch)


OptimizerName = Literal["sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop"]
OPTIMIZER_NAMES: tuple[OptimizerName, ...] = get_args(OptimizerName)
# For each rule: the number of values it keeps per trained value.
SLOTS: dict[OptimizerName, int] = {"sgd": 0, "momentum": 1, "nesterov": 1, "adam": 2, "adamw": 2, "rmsprop": 1}
DECAYING: tuple[OptimizerName, ...] = ("sgd", "momentum", "nesterov", "adamw")  # take a weight decay

ScheduleName = Literal["constant", "cosine", "one-cycle", "step"]
SCHEDULE_NAMES: tuple[ScheduleName, ...] = get_args(ScheduleName)
ScaleName = Literal["none", "linear", "sqrt"]  # scaling of the learning rate, by the batch size
SCALE_NAMES: tuple[ScaleName, ...] = get_args(ScaleName)
BASE_BATCH_SIZE = 64  # the batch size at which the given learning rate applies, if it is scaled


@dataclass(frozen=True)
class OptimizerSpec:
    """An update rule of the numeric contract; fields a rule does not use are ignored by it.

    `learning_rate` is that of every step, or the highest of a schedule (`schedules.compute_rates`). `warm_up` precedes
    the schedule: this many steps or, below 1, this part of all steps. If there is a `scale`, the rate applies at
    `base_batch_size` images per update. `at` another number, it is multiplied by the ratio of the two numbers, or by
    the root of that.
    """

    name: OptimizerName
    learning_rate: float = 0.01
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-7
    rho: float = 0.9
    weight_decay: float = 0.0
    schedule: ScheduleName = "constant"
    warm_up: float = 0.0
    scale: ScaleName = "none"
    base_batch_size: int = BASE_BATCH_SIZE

    @staticmethod
    def named(
        name: OptimizerName, learning_rate: float | None = None, weight_decay: float | None = None
    ) -> OptimizerSpec:
        """Return the rule with its customary learning rate and weight decay unless others are given. The rate is
        0.001 if it divides by the gradient's size, else 0.01. The decay is 0.01 for AdamW, else none.
        """
        if learning_rate is None:
            learning_rate = 0.001 if name in ("rmsprop", "adam", "adamw") else 0.01
        if weight_decay is None:
            weight_decay = 0.01 if name == "adamw" else 0.0
        return OptimizerSpec(name, learning_rate, weight_decay=weight_decay)

    @property
    def changes_rate(self) -> bool:
        """True if steps or batch sizes differ in their learning rate: the rates are then data."""
        return self.schedule != "constant" or self.warm_up > 0 or self.scale != "none"

    def at(self, images: int) -> OptimizerSpec:
        """Return the rule for updates of this many images (the batch size times the accumulated parts)."""
        times = {"none": 1.0, "linear": images / self.base_batch_size, "sqrt": math.sqrt(images / self.base_batch_size)}
        return replace(self, learning_rate=self.learning_rate * times[self.scale], scale="none")
