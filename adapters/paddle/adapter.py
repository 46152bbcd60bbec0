"""PaddlePaddle by its dynamic graph: forward, `loss.backward()`, `optimizer.step()`, `optimizer.clear_grad()`.

That loop is taught by Paddle's beginner's guide, "Model training, evaluation and inference" (paddlepaddle.org.cn,
guides/beginner/train_eval_predict). On a CPU all work is done when a call returns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import paddle
from paddle import optimizer as rules
from paddle.base import core
from paddle.base.framework import EagerParamBase
from paddle.nn import functional

from adapters import base, kernels
from adapters.base import NOT_YET, Facts, Floats, Order, Probe, Unsupported, parts
from adapters.paddle.layers import Network
from workloads import weights as layouts
from workloads.datasets import Images, Labels
from workloads.records.build import FLOAT32
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights


def turned(arrays: dict[str, Any]) -> Weights:
    """Exchange the axes of dense kernels, (out, in) <-> (in, out)."""
    kernels = {key for key, array in arrays.items() if key.endswith("kernel") and array.ndim == 2}
    return {key: np.ascontiguousarray(array.T) if key in kernels else array for key, array in arrays.items()}


def make_optimizer(rule: OptimizerSpec, parameters: list[Any]) -> Any:
    """Return Paddle's optimizer. For RMSProp it holds no more than the rate and the gradients (`Adapter._rmsprop`)."""
    given = {"learning_rate": rule.learning_rate, "parameters": parameters, "weight_decay": rule.weight_decay or None}
    if rule.name in ("adam", "adamw"):
        made = rules.Adam if rule.name == "adam" else rules.AdamW
        return made(**given | {"beta1": rule.beta1, "beta2": rule.beta2, "weight_decay": rule.weight_decay})
    if rule.name in ("sgd", "rmsprop"):
        return rules.SGD(**given)
    return rules.Momentum(**given, momentum=rule.momentum, use_nesterov=rule.name == "nesterov")


class Adapter(base.Adapter):
    """The verbs of `adapters.base.Adapter`, by the dynamic graph."""

    execution = base.EAGER

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        if (device, precision, feed) != ("cpu", FLOAT32, "host"):
            raise Unsupported(f"PaddlePaddle on {device}, {precision}, feed {feed}: {NOT_YET}")
        core.set_num_threads(threads)
        paddle.ones([1]).add_(paddle.ones([1]))
        facts = {"framework_version": paddle.__version__, "precision": precision, "tf32": False}
        facts |= kernels.of_onednn(paddle.get_flags("FLAGS_use_onednn")["FLAGS_use_onednn"], lambda: None)
        return facts | {"allocator_policy": "host", "intra_op_threads": threads}

    def load(self, images: Images, labels: Labels) -> None:
        self.images, self.labels = images, labels

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int) -> None:
        native = turned(layouts.channels_first(workload, weights))
        tensors = {key: paddle.to_tensor(array) for key, array in native.items()}
        self.trained = {key: EagerParamBase.from_tensor(tensors[key]) for key in workload.parameter_shapes()}
        self.network, self.rule, self.steps = Network(workload, tensors | self.trained), optimizer, 0
        self.optimizer = make_optimizer(optimizer, list(self.trained.values()))
        kept = self.trained if optimizer.name == "rmsprop" else {}
        self.squares = {key: paddle.zeros_like(tensor) for key, tensor in kept.items()}
        paddle.seed(seed)

    def _canonical(self, tensors: dict[str, Any]) -> Weights:
        return layouts.channels_last(
            self.network.workload, turned({key: each.numpy() for key, each in tensors.items()})
        )

    def _logits(self, images: Images, training: bool) -> Any:
        workload, self.network.training = self.network.workload, training
        x = paddle.to_tensor(images).transpose([0, 3, 1, 2]).astype("float32")
        return self.network.run(workload.layers, x * float(np.float32(workload.scale)))

    def _loss(self, images: Images, labels: Labels) -> Any:
        logits, targets = self._logits(images, training=True), paddle.to_tensor(labels)
        if self.network.workload.loss == "binary-cross-entropy":
            return functional.binary_cross_entropy_with_logits(logits, targets.astype("float32").unsqueeze(1))
        return functional.cross_entropy(logits, targets.astype("int64"))

    def probe(self, images: Images, labels: Labels) -> Probe:
        workload, tensors = self.network.workload, self.network.weights
        statistics = {key: tensors[key].numpy() for key in workload.statistic_shapes()}
        outputs: dict[str, Any] = {}
        self.network.outputs = outputs
        loss, self.network.outputs = self._loss(images, labels), None
        gradients = dict(zip(self.trained, paddle.grad(loss, list(self.trained.values())), strict=True))
        for key, array in statistics.items():
            tensors[key].set_value(array)
        arrays = {name: tensor.numpy() for name, tensor in outputs.items()}
        return Probe(float(loss), layouts.outputs_channels_last(workload, arrays), self._canonical(gradients))

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for number, batch in enumerate(order):
            if rates is not None:
                self.optimizer.set_lr(float(rates[number]))
            losses.append(self._differentiated(batch) if part is None else self._accumulated(batch, part))
            self._update()
        return losses

    def _differentiated(self, batch: Order, share: float | None = None) -> Any:
        """Add the gradient of the mean loss, times the share, to those there; returns that loss."""
        loss = self._loss(self.images[batch], self.labels[batch])
        loss = loss if share is None else loss * share
        loss.backward()
        return loss.detach()

    def _accumulated(self, batch: Order, part: int) -> Any:
        return sum(self._differentiated(piece, len(piece) / len(batch)) for piece in parts(batch, part))

    def _update(self) -> None:
        """Make a step. Paddle has Adam's epsilon inside the bias correction, so it is divided by that first."""
        self.steps += 1
        if self.squares:
            self._rmsprop()
        else:
            if self.rule.name in ("adam", "adamw"):
                self.optimizer._epsilon = self.rule.epsilon / math.sqrt(1 - self.rule.beta2**self.steps)
            self.optimizer.step()
        self.optimizer.clear_grad()

    @paddle.no_grad()
    def _rmsprop(self) -> None:
        """Make RMSprop's step with epsilon outside the root; Paddle's own has it inside."""
        rule, epsilon, rate = self.rule, paddle.to_tensor(self.rule.epsilon), self.optimizer.get_lr()
        for key, weight in self.trained.items():
            squares = self.squares[key].scale_(rule.rho).add_(weight.grad.square().scale_(1 - rule.rho))
            weight.subtract_(weight.grad.scale(rate).divide_(squares.sqrt().add_(epsilon)))

    def read(self, handle: list[Any]) -> Floats:
        return np.array([float(loss) for loss in handle], np.float32)

    @paddle.no_grad()
    def predict(self, images: Images) -> Floats:
        return self._logits(images, training=False).numpy()

    def weights(self) -> Weights:
        return self._canonical(self.network.weights)

    def synchronize(self) -> None:
        pass

    def out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)
