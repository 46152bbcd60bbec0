"""The referee: forward and backward in plain numpy, checked by finite differences. No rival in the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.base import MEMORY_KINDS, Floats, Order, Unsupported
from workloads.datasets import Images, Labels
from workloads.spec import Conv2D, Dense, Flatten, MaxPool2D, OptimizerSpec, Relu, Workload
from workloads.weights import Weights

Array = NDArray[Any]
Parameters = dict[str, Array]
# forward(layer, parameters, x) -> output, backward; backward(gradient of output) -> gradient of x, of parameters
Backward = Callable[[Array], tuple[Array, Parameters]]


def conv2d(layer: Conv2D, parameters: Parameters, x: Array) -> tuple[Array, Backward]:
    kernel = parameters["kernel"]
    height, width, _, filters = kernel.shape
    windows = np.lib.stride_tricks.sliding_window_view(x, (height, width), axis=(1, 2))
    columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, kernel[..., 0].size)
    output_shape = (*windows.shape[:3], filters)
    y = (columns @ kernel.reshape(-1, filters) + parameters["bias"]).reshape(output_shape)

    def backward(dy: Array) -> tuple[Array, Parameters]:
        flat = dy.reshape(-1, filters)
        gradients = {"kernel": (columns.T @ flat).reshape(kernel.shape), "bias": flat.sum(axis=0)}
        dx = np.zeros_like(x)
        for i in range(height):
            for j in range(width):
                dx[:, i : i + dy.shape[1], j : j + dy.shape[2]] += dy @ kernel[i, j].T
        return dx, gradients

    return y, backward


def max_pool2d(layer: MaxPool2D, parameters: Parameters, x: Array) -> tuple[Array, Backward]:
    batch, height, width, channels = x.shape
    rows, columns, size = height // layer.size, width // layer.size, layer.size
    cropped = x[:, : rows * size, : columns * size]
    windows = cropped.reshape(batch, rows, size, columns, size, channels).transpose(0, 1, 3, 5, 2, 4)
    windows = windows.reshape(batch, rows, columns, channels, size * size)
    winner = windows.argmax(axis=-1)[..., None]

    def backward(dy: Array) -> tuple[Array, Parameters]:
        spread = np.zeros_like(windows)
        np.put_along_axis(spread, winner, dy[..., None], axis=-1)
        spread = spread.reshape(batch, rows, columns, channels, size, size).transpose(0, 1, 4, 2, 5, 3)
        dx = np.zeros_like(x)
        dx[:, : rows * size, : columns * size] = spread.reshape(cropped.shape)
        return dx, {}

    return np.take_along_axis(windows, winner, axis=-1)[..., 0], backward


def relu(layer: Relu, parameters: Parameters, x: Array) -> tuple[Array, Backward]:
    positive = x > 0
    return np.where(positive, x, x.dtype.type(0)), lambda dy: (dy * positive, {})


def flatten(layer: Flatten, parameters: Parameters, x: Array) -> tuple[Array, Backward]:
    return x.reshape(len(x), -1), lambda dy: (dy.reshape(x.shape), {})


def dense(layer: Dense, parameters: Parameters, x: Array) -> tuple[Array, Backward]:
    def backward(dy: Array) -> tuple[Array, Parameters]:
        return dy @ parameters["kernel"].T, {"kernel": x.T @ dy, "bias": dy.sum(axis=0)}

    return x @ parameters["kernel"] + parameters["bias"], backward


LAYERS: dict[type, Callable[[Any, Parameters, Array], tuple[Array, Backward]]] = {
    Conv2D: conv2d,
    MaxPool2D: max_pool2d,
    Relu: relu,
    Flatten: flatten,
    Dense: dense,
}


def cross_entropy(logits: Array, labels: Labels) -> tuple[float, Array]:
    """Mean softmax cross-entropy and its gradient with respect to the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    gradient = np.exp(log_probabilities)
    gradient[rows, labels] -= 1
    return -float(log_probabilities[rows, labels].mean()), gradient / np.asarray(len(labels), logits.dtype)


class Adapter:
    """`dtype` float64 is for finite differences; a trial runs in float32."""

    def __init__(self, dtype: type = np.float32) -> None:
        self.dtype = dtype

    def open(self, device: str, threads: int, profile: str, feed: str) -> dict[str, Any]:
        if device != "cpu":
            raise Unsupported("the numpy referee runs on the CPU only")
        return {"framework_version": np.__version__, "precision": np.dtype(self.dtype).name}

    def load(self, images: Images, labels: Labels) -> None:
        self.images, self.labels = images, labels

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights) -> None:
        self.workload, self.optimizer, self.step = workload, optimizer, 0
        self.parameters: Parameters = {key: array.astype(self.dtype) for key, array in weights.items()}
        self.first = {key: np.zeros_like(array) for key, array in self.parameters.items()}
        self.second = {key: np.zeros_like(array) for key, array in self.parameters.items()}

    def forward(self, images: Images) -> tuple[Array, list[tuple[str, Backward]]]:
        x: Array = images.astype(self.dtype) * self.dtype(self.workload.scale)
        tape = []
        for layer, shape in self.workload.walk():
            parameters = {role: self.parameters[f"{layer.name}/{role}"] for role in layer.parameter_shapes(shape)}
            x, backward = LAYERS[type(layer)](layer, parameters, x)
            tape.append((layer.name, backward))
        return x, tape

    def gradients(self, images: Images, labels: Labels) -> tuple[float, Parameters]:
        """Loss and the gradient of every parameter."""
        logits, tape = self.forward(images)
        loss, dy = cross_entropy(logits, labels)
        found: Parameters = {}
        for name, backward in reversed(tape):
            dy, gradients = backward(dy)
            found |= {f"{name}/{role}": gradient for role, gradient in gradients.items()}
        return loss, found

    def train(self, order: Order) -> Floats:
        losses = []
        for batch in order:
            loss, gradients = self.gradients(self.images[batch], self.labels[batch])
            self.step += 1
            for key, gradient in gradients.items():
                self.parameters[key] -= self._update(key, gradient)
            losses.append(loss)
        return np.array(losses, np.float32)

    def _update(self, key: str, g: Array) -> Array:
        o, first, second = self.optimizer, self.first, self.second
        if o.name == "sgd":
            return o.learning_rate * g
        if o.name == "adam":
            first[key] = o.beta1 * first[key] + (1 - o.beta1) * g
            second[key] = o.beta2 * second[key] + (1 - o.beta2) * g**2
            rate = o.learning_rate * np.sqrt(1 - o.beta2**self.step) / (1 - o.beta1**self.step)
            return self.dtype(rate) * first[key] / (np.sqrt(second[key]) + self.dtype(o.epsilon))
        first[key] = o.momentum * first[key] + g
        return o.learning_rate * (g + o.momentum * first[key] if o.name == "nesterov" else first[key])

    def read(self, handle: Floats) -> Floats:
        return handle

    def predict(self, images: Images) -> Floats:
        return self.forward(images)[0]

    def weights(self) -> Weights:
        return {key: array.copy() for key, array in self.parameters.items()}

    def memory(self) -> dict[str, int | None]:
        size = sum(array.nbytes for array in self.parameters.values())
        slots = {"sgd": 0, "momentum": 1, "nesterov": 1, "adam": 2}[self.optimizer.name]
        found: dict[str, int | None] = dict.fromkeys(MEMORY_KINDS)
        return found | {"parameters": size, "gradients": size, "optimizer": slots * size}

    def synchronize(self) -> None:
        pass

    def out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)
