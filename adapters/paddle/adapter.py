"""PaddlePaddle by its dynamic graph: forward, `loss.backward()`, `optimizer.step()`, `optimizer.clear_grad()`.

That is the loop of Paddle's beginner's guide, "Model training, evaluation and inference", section 2.2
(paddlepaddle.org.cn, guides/beginner/train_eval_predict). Channels are first, as there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import paddle
from paddle import optimizer
from paddle.base import core
from paddle.base.framework import EagerParamBase
from paddle.nn import functional

from adapters import base
from adapters.base import NOT_YET, Facts, Floats, Order, Probe, Unsupported, parts
from adapters.paddle.layers import Network
from workloads import weights as layouts
from workloads.datasets import Images, Labels
from workloads.records.build import FLOAT32
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights


def make_optimizer(rule: OptimizerSpec, parameters: list[Any]) -> Any:
    """Return Paddle's optimizer; None for RMSProp, whose epsilon Paddle has inside of the root."""
    given: dict[str, Any] = {"learning_rate": rule.learning_rate, "parameters": parameters}
    match rule.name:
        case "rmsprop":
            return None
        case "adam":
            return optimizer.Adam(**given, beta1=rule.beta1, beta2=rule.beta2)
        case "adamw":
            return optimizer.AdamW(**given, beta1=rule.beta1, beta2=rule.beta2, weight_decay=rule.weight_decay)
    given["weight_decay"] = rule.weight_decay or None
    if rule.name == "sgd":
        return optimizer.SGD(**given)
    return optimizer.Momentum(**given, momentum=rule.momentum, use_nesterov=rule.name == "nesterov")


def turned(key: str, array: Any) -> Any:
    """Exchange the axes of a dense kernel: (out, in) <-> (in, out)."""
    return np.ascontiguousarray(array.T) if key.endswith("kernel") and array.ndim == 2 else array


def native(workload: Workload, weights: Weights) -> Weights:
    """Canonical -> Paddle's layout: channels first, but dense kernels are (in, out)."""
    return {key: turned(key, array) for key, array in layouts.channels_first(workload, weights).items()}


def canonical(workload: Workload, tensors: dict[str, Any]) -> Weights:
    """The inverse of `native`."""
    return layouts.channels_last(workload, {key: turned(key, tensor.numpy()) for key, tensor in tensors.items()})


class Adapter(base.Adapter):
    """The verbs of `adapters.base.Adapter`, by the dynamic graph."""

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        if device != "cpu":
            raise Unsupported(f"PaddlePaddle on {device}: {NOT_YET}")
        if precision != FLOAT32:
            raise Unsupported(f"PaddlePaddle in {precision} on a CPU: {NOT_YET}")
        paddle.set_device("cpu")
        core.set_num_threads(threads)
        self.feed = feed
        paddle.ones([1]).add_(paddle.ones([1]))
        return {
            "framework_version": paddle.__version__, "precision": precision, "tf32": False,
            "allocator_policy": "host", "intra_op_threads": threads,
        }  # fmt: skip

    def load(self, images: Images, labels: Labels) -> None:
        self.images, self.labels = images, labels
        if self.feed == "device":
            self.images, self.labels = paddle.to_tensor(np.asarray(images)), paddle.to_tensor(labels.astype(np.int64))

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int) -> None:
        tensors = {key: paddle.to_tensor(array) for key, array in native(workload, weights).items()}
        self.trained = {key: tensors[key] for key in workload.parameter_shapes()}
        for key in self.trained:
            tensors[key] = self.trained[key] = EagerParamBase.from_tensor(tensors[key])
        self.network, self.rule, self.steps = Network(workload, tensors), optimizer, 0
        self.rate = optimizer.learning_rate
        self.optimizer = make_optimizer(optimizer, list(self.trained.values()))
        self.squares = {key: paddle.zeros_like(tensor) for key, tensor in self.trained.items()} if not self.optimizer else {}
        paddle.seed(seed)

    def _logits(self, images: Any, training: bool) -> Any:
        workload, self.network.training = self.network.workload, training
        x = paddle.to_tensor(images).transpose([0, 3, 1, 2]).astype("float32")
        return self.network.run(workload.layers, x * float(np.float32(workload.scale)))

    def _loss(self, images: Any, labels: Any) -> Any:
        logits, labels = self._logits(images, training=True), paddle.to_tensor(labels)
        if self.network.workload.loss == "binary-cross-entropy":
            return functional.binary_cross_entropy_with_logits(logits, labels.astype("float32").unsqueeze(1))
        return functional.cross_entropy(logits, labels.astype("int64"))

    def probe(self, images: Images, labels: Labels) -> Probe:
        workload, tensors = self.network.workload, self.network.weights
        statistics = {key: tensors[key].numpy() for key in workload.statistic_shapes()}
        self.network.outputs = {}
        loss = self._loss(images, labels)
        outputs, self.network.outputs = self.network.outputs, None
        gradients = dict(zip(self.trained, paddle.grad(loss, list(self.trained.values())), strict=True))
        for key, array in statistics.items():
            tensors[key].set_value(array)
        arrays = {name: tensor.numpy() for name, tensor in outputs.items()}
        return Probe(float(loss), layouts.outputs_channels_last(workload, arrays), canonical(workload, gradients))

    def _gathered(self, batch: Order) -> tuple[Any, Any]:
        if self.feed == "host":
            return self.images[batch], self.labels[batch]
        rows = paddle.to_tensor(batch)
        return paddle.gather(self.images, rows), paddle.gather(self.labels, rows)

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for number, batch in enumerate(order):
            if rates is not None:
                self._set_rate(float(rates[number]))
            losses.append(self._differentiated(batch, part))
            self._update()
        return losses

    def _differentiated(self, batch: Order, part: int | None) -> Any:
        """Leave the gradient of the mean loss; returns the loss."""
        if part is None:
            loss = self._loss(*self._gathered(batch))
            loss.backward()
            return loss.detach()
        mean = 0.0
        for piece in parts(batch, part):
            loss = self._loss(*self._gathered(piece)) * (len(piece) / len(batch))
            loss.backward()
            mean = loss.detach() + mean
        return mean

    def _set_rate(self, rate: float) -> None:
        self.rate = rate
        if self.optimizer:
            self.optimizer.set_lr(rate)

    def _update(self) -> None:
        """Make the step; Adam's epsilon is divided by the bias correction that Paddle has it inside of."""
        if self.optimizer:
            if self.rule.name in ("adam", "adamw"):
                self.steps += 1
                self.optimizer._epsilon = self.rule.epsilon / math.sqrt(1 - self.rule.beta2**self.steps)
            self.optimizer.step()
            self.optimizer.clear_grad()
            return
        epsilon = paddle.to_tensor(self.rule.epsilon)
        with paddle.no_grad():
            for key, weight in self.trained.items():
                squares = self.squares[key].scale_(self.rule.rho)
                squares.add_(weight.grad.square().scale_(1 - self.rule.rho))
                weight.subtract_(weight.grad.scale(self.rate).divide_(squares.sqrt().add_(epsilon)))
                weight.clear_gradient()

    def read(self, handle: list[Any]) -> Floats:
        return np.array([float(loss) for loss in handle], np.float32)

    @paddle.no_grad()
    def predict(self, images: Images) -> Floats:
        return self._logits(images, training=False).numpy()

    def weights(self) -> Weights:
        return canonical(self.network.workload, self.network.weights)

    def synchronize(self) -> None:
        pass  # on a CPU all work is done when a call returns

    def out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)
