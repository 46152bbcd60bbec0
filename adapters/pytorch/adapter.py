"""PyTorch. Default profile: the eager loop of PyTorch's own tutorial, channels first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch._dynamo  # the first optimizer would import it (1.5 s): count it as import
from torch import nn

from adapters.base import MEMORY_KINDS, Floats, Order, Unsupported
from workloads.datasets import Images, Labels
from workloads.spec import Conv2D, Dense, Flatten, MaxPool2D, OptimizerSpec, Relu, Shape, Workload
from workloads.weights import Weights, channels_first, channels_last

LAYERS: dict[type, Callable[[Any, Shape], nn.Module]] = {
    Conv2D: lambda layer, shape: nn.Conv2d(shape[2], layer.filters, layer.kernel),
    MaxPool2D: lambda layer, shape: nn.MaxPool2d(layer.size),
    Relu: lambda layer, shape: nn.ReLU(),
    Flatten: lambda layer, shape: nn.Flatten(),
    Dense: lambda layer, shape: nn.Linear(shape[0], layer.units),
}
ROLES = {"kernel": "weight", "bias": "bias"}


def make_optimizer(spec: OptimizerSpec, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if spec.name == "adam":
        return torch.optim.Adam(parameters, spec.learning_rate, (spec.beta1, spec.beta2), spec.epsilon)
    momentum = 0.0 if spec.name == "sgd" else spec.momentum
    return torch.optim.SGD(parameters, spec.learning_rate, momentum, nesterov=spec.name == "nesterov")


class Adapter:
    def open(self, device: str, threads: int, profile: str, feed: str) -> dict[str, Any]:
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(threads)
        if device == "cuda":
            if not torch.cuda.is_available():
                raise Unsupported("PyTorch finds no GPU that this build can use")
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False
            torch.cuda.reset_peak_memory_stats()
        self.device = torch.device(device)
        self.resident = feed == "device"
        return {
            "framework_version": torch.__version__,
            "cuda_version": torch.version.cuda if device == "cuda" else None,
            "cudnn_version": torch.backends.cudnn.version() if device == "cuda" else None,
            "precision": "float32",
            "tf32": torch.backends.cudnn.allow_tf32 if device == "cuda" else False,
            "intra_op_threads": torch.get_num_threads(),
            "inter_op_threads": torch.get_num_interop_threads(),
            "allocator_policy": "caching" if device == "cuda" else "host",
        }

    def load(self, images: Images, labels: Labels) -> None:
        if self.resident:
            self.images, self.labels = self._tensor(images), self._tensor(labels)
        else:
            self.images, self.labels = images, labels

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights) -> None:
        self.workload, self.rule = workload, optimizer
        model = nn.Sequential()
        for layer, shape in workload.walk():
            model.add_module(layer.name, LAYERS[type(layer)](layer, shape))
        self.model = model.to(self.device)
        with torch.no_grad():
            for key, array in channels_first(workload, weights).items():
                self._parameter(key).copy_(torch.from_numpy(array))
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = make_optimizer(optimizer, list(self.model.parameters()))
        self.steps = 0

    def _parameter(self, key: str) -> nn.Parameter:
        layer, role = key.split("/")
        return self.model.get_parameter(f"{layer}.{ROLES[role]}")

    def _logits(self, images: torch.Tensor) -> torch.Tensor:
        channels_first_images = images.permute(0, 3, 1, 2).contiguous()
        return self.model(channels_first_images.to(torch.float32) * np.float32(self.workload.scale))

    def train(self, order: Order) -> list[torch.Tensor]:
        self.model.train()
        losses = []
        for batch in order:
            if self.resident:
                index = self._tensor(batch)
                images, labels = self.images[index], self.labels[index]
            else:
                images, labels = self._tensor(self.images[batch]), self._tensor(self.labels[batch])
            self.optimizer.zero_grad()
            loss = self.loss(self._logits(images), labels.long())
            loss.backward()
            self._translate_epsilon()
            self.optimizer.step()
            losses.append(loss.detach())
        return losses

    def _translate_epsilon(self) -> None:
        """PyTorch's Adam adds epsilon after dividing by sqrt(1 - beta2^t), the contract before."""
        self.steps += 1
        if self.rule.name == "adam":
            for group in self.optimizer.param_groups:
                group["eps"] = self.rule.epsilon / (1 - self.rule.beta2**self.steps) ** 0.5

    def read(self, handle: list[torch.Tensor]) -> Floats:
        return torch.stack(handle).cpu().numpy()

    def predict(self, images: Images) -> Floats:
        self.model.eval()
        with torch.no_grad():
            return self._logits(self._tensor(images)).cpu().numpy()

    def weights(self) -> Weights:
        keys = self.workload.parameter_shapes()
        return channels_last(self.workload, {key: self._parameter(key).detach().cpu().numpy().copy() for key in keys})

    def memory(self) -> dict[str, int | None]:
        found: dict[str, int | None] = dict.fromkeys(MEMORY_KINDS)
        parameters = list(self.model.parameters())
        found["parameters"] = sum(p.nbytes for p in parameters)
        found["gradients"] = sum(p.grad.nbytes for p in parameters if p.grad is not None)
        found["optimizer"] = sum(
            value.nbytes
            for state in self.optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        )
        if self.device.type == "cuda":
            found["allocator_peak"] = torch.cuda.max_memory_allocated()
            found["allocator_reserved"] = torch.cuda.max_memory_reserved()
        return found

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def out_of_memory(self, error: BaseException) -> bool:
        signs = ("DefaultCPUAllocator: can't allocate memory", "CUDA error: out of memory", "ALLOC_FAILED")
        told = isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
        return told or isinstance(error, torch.OutOfMemoryError | MemoryError)
