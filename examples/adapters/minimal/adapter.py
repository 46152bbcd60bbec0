"""The shortest complete adapter: PyTorch once more, by its functions alone, written from docs/extend/a-framework.md.

It has the ten verbs that a trial needs, the layers of osu-cnn, and two optimizers. Weights and images keep their
canonical layouts, so only a convolution and a pool translate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from adapters import base
from adapters.base import NOT_YET, Floats, Order, Probe, Unsupported
from workloads import layers
from workloads.datasets import Images, Labels
from workloads.records.build import FLOAT32
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

Tensors = dict[str, torch.Tensor]


def padded(layer: Any, x: torch.Tensor, value: float) -> torch.Tensor:
    """(n, h, w, c) -> (n, c, h, w), with the layer's margins of that value."""
    (above, below), (left, right) = layer.margins(tuple(x.shape[1:]))
    return functional.pad(x.permute(0, 3, 1, 2), (left, right, above, below), value=value)


def convolution(layer: layers.Conv2D, x: torch.Tensor, weights: Tensors) -> torch.Tensor:
    """(n, h, w, c) -> (n, rows, columns, filters)."""
    kernel, bias = weights[f"{layer.name}/kernel"].permute(3, 2, 0, 1), weights.get(f"{layer.name}/bias")
    others = {"dilation": layer.dilation, "groups": layer.groups}
    return functional.conv2d(padded(layer, x, 0), kernel, bias, layer.stride, **others).permute(0, 2, 3, 1)


def max_pool(layer: layers.MaxPool2D, x: torch.Tensor, weights: Tensors) -> torch.Tensor:
    """(n, h, w, c) -> (n, rows, columns, c)."""
    return functional.max_pool2d(padded(layer, x, -torch.inf), layer.size, layer.step).permute(0, 2, 3, 1)


LAYERS = {
    layers.Conv2D: convolution,
    layers.MaxPool2D: max_pool,
    layers.Relu: lambda layer, x, weights: x.relu(),
    layers.Flatten: lambda layer, x, weights: x.flatten(1),
    layers.Dense: lambda layer, x, weights: x @ weights[f"{layer.name}/kernel"] + weights[f"{layer.name}/bias"],
}


class Adapter(base.Adapter):
    def open(
        self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str
    ) -> dict[str, Any]:
        if (device, precision, feed) != ("cpu", FLOAT32, "host"):
            raise Unsupported(f"{device}, {precision}, feed {feed}: {NOT_YET}")
        torch.set_num_threads(threads)
        torch.zeros(1).add_(1)
        return {"framework_version": torch.__version__, "precision": precision, "tf32": False}

    def load(self, images: Images, labels: Labels) -> None:
        self.images, self.labels = images, labels

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int) -> None:
        asked = {optimizer.name, *(type(layer).__name__ for layer in workload.layers)}
        if missing := asked - {"sgd", "momentum", *(record.__name__ for record in LAYERS)}:
            raise Unsupported(f"{', '.join(sorted(missing))}: {NOT_YET}")
        self.workload, self.rule, self.rate = workload, optimizer, optimizer.learning_rate
        self.state = {key: torch.tensor(array, requires_grad=True) for key, array in weights.items()}
        self.velocities = {key: torch.zeros_like(weight) for key, weight in self.state.items()}

    def _outputs(self, images: Images) -> Tensors:
        """Return the output of each layer; the last one has the logits."""
        x = torch.from_numpy(np.ascontiguousarray(images)).float() * np.float32(self.workload.scale)
        outputs = {}
        for layer in self.workload.layers:
            outputs[layer.name] = x = LAYERS[type(layer)](layer, x, self.state)
        return outputs

    def _differentiated(self, images: Images, labels: Labels) -> tuple[torch.Tensor, Tensors, Tensors]:
        """Return (mean loss, outputs, gradients)."""
        outputs = self._outputs(images)
        logits = outputs[self.workload.layers[-1].name]
        if logits.shape[1] == 1:  # binary: the softmax of (0, z) is the sigmoid of z
            logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
        loss = functional.cross_entropy(logits, torch.from_numpy(labels).long())
        gradients = torch.autograd.grad(loss, list(self.state.values()))
        return loss.detach(), outputs, dict(zip(self.state, gradients, strict=True))

    def probe(self, images: Images, labels: Labels) -> Probe:
        loss, outputs, gradients = self._differentiated(images, labels)
        arrays = ({name: tensor.detach().numpy() for name, tensor in each.items()} for each in (outputs, gradients))
        return Probe(loss.item(), *arrays)

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[torch.Tensor]:
        if part is not None:
            raise Unsupported(f"updates in parts: {NOT_YET}")
        losses = []
        for number, batch in enumerate(order):
            self.rate = self.rate if rates is None else float(rates[number])
            loss, _, gradients = self._differentiated(self.images[batch], self.labels[batch])
            losses.append(loss)
            for key, weight in self.state.items():
                change = gradients[key] + self.rule.weight_decay * weight.detach()
                if self.rule.name == "momentum":
                    change = self.velocities[key].mul_(self.rule.momentum).add_(change)
                weight.detach().sub_(self.rate * change)
        return losses

    def read(self, handle: list[torch.Tensor]) -> Floats:
        return torch.stack(handle).numpy()

    def predict(self, images: Images) -> Floats:
        with torch.no_grad():
            return self._outputs(images)[self.workload.layers[-1].name].numpy()

    def weights(self) -> Weights:
        return {key: weight.detach().numpy().copy() for key, weight in self.state.items()}

    def synchronize(self) -> None:
        pass  # all work is done when a call returns

    def out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate memory" in str(error)
