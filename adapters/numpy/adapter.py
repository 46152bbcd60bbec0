"""The referee: forward and backward in plain numpy, checked by finite differences. It does not compete in tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from adapters import base, kernels
from adapters.base import MEMORY_KINDS, Count, Facts, Floats, Order, Probe, Unsupported, parts
from adapters.numpy.layers import sequence
from adapters.numpy.passes import Array, Parameters, Pass, rounding_to
from adapters.shared import shares
from workloads.datasets import Images, Labels
from workloads.layers import Layer, Shape
from workloads.records.build import FLOAT32, FLOAT64
from workloads.spec import SLOTS, OptimizerSpec, Workload
from workloads.weights import Weights


def softmax_cross_entropy(logits: Array, labels: Labels) -> tuple[float, Array]:
    """Return the mean over the batch and its gradient with respect to the logits, (n, classes) both."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    gradient = np.exp(log_probabilities)
    gradient[rows, labels] -= 1
    return -float(log_probabilities[rows, labels].mean()), gradient / np.asarray(len(labels), logits.dtype)


def binary_cross_entropy(logits: Array, labels: Labels) -> tuple[float, Array]:
    """Return the same for a sigmoid output, from its logits (n, 1)."""
    targets = labels[:, None].astype(logits.dtype)
    loss = np.logaddexp(0, logits) - targets * logits
    probabilities = 0.5 * (1 + np.tanh(logits / 2))  # for any size without overflow
    return float(loss.mean()), ((probabilities - targets) / len(labels)).astype(logits.dtype)


LOSSES: dict[str, Callable[[Array, Labels], tuple[float, Array]]] = {
    "softmax-cross-entropy": softmax_cross_entropy,
    "binary-cross-entropy": binary_cross_entropy,
}


class Optimizer:
    """A rule in the numeric contract's notation, and its state; `rate` is that of the step, `steps` counts it."""

    def __init__(self, rule: OptimizerSpec, trained: dict[str, Shape], dtype: type) -> None:
        self.rule, self.dtype, self.rate, self.steps = rule, dtype, rule.learning_rate, 0
        self.first: Parameters = {key: np.zeros(shape, dtype) for key, shape in trained.items()}
        self.second: Parameters = {key: np.zeros(shape, dtype) for key, shape in trained.items()}

    def update(self, key: str, weights: Array, g: Array) -> Array:
        """Return what the step subtracts from these weights, whose gradient is g."""
        rule, first, second = self.rule, self.first, self.second
        if rule.name in ("adam", "adamw"):
            first[key] = rule.beta1 * first[key] + (1 - rule.beta1) * g
            second[key] = rule.beta2 * second[key] + (1 - rule.beta2) * g**2
            rate = self.rate * np.sqrt(1 - rule.beta2**self.steps) / (1 - rule.beta1**self.steps)
            change = self.dtype(rate) * first[key] / (np.sqrt(second[key]) + self.dtype(rule.epsilon))
            return change + self.rate * rule.weight_decay * weights if rule.name == "adamw" else change
        if rule.name == "rmsprop":
            second[key] = rule.rho * second[key] + (1 - rule.rho) * g**2
            return self.rate * g / (np.sqrt(second[key]) + self.dtype(rule.epsilon))
        if rule.weight_decay:
            g = g + rule.weight_decay * weights
        if rule.name == "sgd":
            return self.rate * g
        first[key] = rule.momentum * first[key] + g
        return self.rate * (g + rule.momentum * first[key] if rule.name == "nesterov" else first[key])


class Adapter(base.Adapter):
    execution = base.EAGER

    """The referee's adapter. Precision "float64" gives the truth that others are rounded from. In precisions below
    float32 it rounds the input and output of each layer.
    """

    def __init__(self, precision: str = FLOAT32) -> None:
        self._compute_in(precision)

    def _compute_in(self, precision: str) -> None:
        self.dtype: type = np.float64 if precision == FLOAT64 else np.float32
        self.rounded = rounding_to(precision)

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        if device != "cpu":
            raise Unsupported("the numpy referee runs on the CPU only")
        self._compute_in(precision)
        return {
            "framework_version": np.__version__,
            "precision": precision,
            **kernels.of_openblas(Path(np.__file__).parent.parent),
        }

    def load(self, images: Images, labels: Labels) -> None:
        self.images, self.labels = images, labels

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int) -> None:
        self.workload = workload
        self.state: Parameters = {key: array.astype(self.dtype) for key, array in weights.items()}
        self.optimizer = Optimizer(optimizer, workload.parameter_shapes(), self.dtype)
        self.generator = np.random.Generator(np.random.PCG64(seed))

    def rescaled(self, images: Images) -> Array:
        """Return the input of the first layer."""
        return self.rounded(images.astype(self.dtype) * self.dtype(self.workload.scale))

    def new_pass(self, training: bool) -> Pass:
        """Start a pass with the current weights. Reduced precision rounds kernels, but not one number per channel."""
        weights = {key: self.rounded(array) if array.ndim > 1 else array for key, array in self.state.items()}
        return Pass(weights, training, self.generator, rounded=self.rounded)

    def differentiate(self, images: Images, labels: Labels) -> tuple[float, Pass]:
        """Return the batch's loss, and the pass with its gradients and running statistics."""
        return self.differentiate_behind(self.workload.layers, self.rescaled(images), labels)

    def differentiate_behind(self, chain: tuple[Layer, ...], x: Array, labels: Labels) -> tuple[float, Pass]:
        """Return loss and pass for these layers, the network's last, applied to `x`."""
        run = replace(self.new_pass(training=True), images=x)
        logits, backward = sequence(chain, x, run)
        loss, dy = LOSSES[self.workload.loss](logits, labels)
        backward(dy)
        run.gradients = {key: self.rounded(gradient) for key, gradient in run.gradients.items()}
        return loss, run

    def probe(self, images: Images, labels: Labels) -> Probe:
        loss, run = self.differentiate(images, labels)
        return Probe(loss, run.outputs, run.gradients)

    def accumulate(self, images: Images, labels: Labels, part: int | None) -> tuple[float, Parameters]:
        """Return the mean loss of all images, and its gradients, from one part of them after the other. Running
        statistics move with each part.
        """
        mean, sums = 0.0, Parameters()
        for piece in parts(np.arange(len(labels), dtype=np.int32), part):
            loss, run = self.differentiate(images[piece], labels[piece])
            share = len(piece) / len(labels)
            mean += loss * share
            sums = {key: gradient * share + sums.get(key, 0) for key, gradient in run.gradients.items()}
            self.state |= run.statistics
        return mean, sums

    def divide(self, images: Images, labels: Labels, devices: int) -> tuple[float, Parameters]:
        """Return mean loss and gradients of several devices at once; running statistics are the first one's."""
        mean, sums, first = 0.0, Parameters(), Parameters()
        for share in shares(np.arange(len(labels), dtype=np.int32), devices):
            loss, run = self.differentiate(images[share.rows], labels[share.rows])
            mean += loss * share.weight
            sums = {key: gradient * share.weight + sums.get(key, 0) for key, gradient in run.gradients.items()}
            first = first or run.statistics
        self.state |= first
        return mean, sums

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        losses = []
        for number, batch in enumerate(order):
            loss, gradients = self.accumulate(self.images[batch], self.labels[batch], part)
            self.optimizer.steps += 1
            if rates is not None:
                self.optimizer.rate = float(rates[number])
            for key, gradient in gradients.items():
                self.state[key] = self.state[key] - self._update(key, gradient)
            losses.append(loss)
        return np.array(losses, np.float32)

    def _update(self, key: str, g: Array) -> Array:
        return self.optimizer.update(key, self.state[key], g)

    def read(self, handle: Floats) -> Floats:
        return handle

    def predict(self, images: Images) -> Floats:
        return sequence(self.workload.layers, self.rescaled(images), self.new_pass(training=False))[0]

    def weights(self) -> Weights:
        return {key: array.copy() for key, array in self.state.items()}

    def memory(self) -> dict[str, Count]:
        size = sum(array.nbytes for array in self.optimizer.first.values())
        slots = SLOTS[self.optimizer.rule.name]
        counts: dict[str, Count] = dict.fromkeys(MEMORY_KINDS, "numpy does not count what is in use")
        return counts | {"parameters": size, "gradients": size, "optimizer": slots * size}

    def count_memory(self, folder: Path) -> None:
        raise Unsupported("the referee is not a rival: its memory is not measured")

    def synchronize(self) -> None:
        pass

    def out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)
