"""PyTorch. Default profile: the eager loop of PyTorch's tutorial, channels first. Tuned: the same with channels last
in memory and a fused optimizer. Compiled: the default's loop around the model as torch.compile makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo  # the first optimizer would import it (1.5 s): count it as import
from torch import nn

from adapters import base
from adapters.base import (
    ALONE,
    LOSS_SCALE,
    MEMORY_KINDS,
    NEVER,
    Count,
    Facts,
    Floats,
    MemoryUse,
    Order,
    Probe,
    Unsupported,
    parts,
)
from adapters.pytorch import optimizers
from adapters.pytorch.features import BiasedVariance
from adapters.pytorch.layers import LAYERS, ROLES, mean_loss
from adapters.pytorch.libraries import chosen_kernels, compile_into, compiled, compute_deterministically, facts_of
from adapters.pytorch.watched import refuse_graphs, watch
from adapters.shared import PROBED, make_checked, without_layers
from workloads.activations import pooled_values
from workloads.datasets import Images, Labels
from workloads.layers import BatchNorm, Join, Layer, Shape
from workloads.records.build import AUTOTUNE, BFLOAT16, COMPILED, FLOAT16, TF32, TUNED
from workloads.records.network import OwnCode
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights, channels_first, channels_last, outputs_channels_last


class Adapter(base.Adapter):
    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        chosen = chosen_kernels() if device == "cpu" else {}
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(threads)
        torch.backends.cudnn.benchmark = profile == AUTOTUNE  # the default is off
        if device == "cuda":
            if not torch.cuda.is_available():
                raise Unsupported("PyTorch finds no GPU that this build can use")
            torch.backends.cuda.matmul.allow_tf32 = precision == TF32
            torch.backends.cudnn.allow_tf32 = precision == TF32
            torch.zeros(1, device=device).add_(1)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        self.device = torch.device(device)
        lower = {BFLOAT16: torch.bfloat16, FLOAT16: torch.float16}.get(precision)
        self.autocast: AbstractContextManager[Any] = torch.autocast(device, lower) if lower else nullcontext()
        self.scales = precision == FLOAT16
        self.resident, self.tuned, self.compiles = feed == "device", profile == TUNED, profile == COMPILED
        self.execution = base.TORCH_COMPILE if self.compiles else base.EAGER
        self.memory_format = torch.channels_last if self.tuned else torch.contiguous_format
        return facts_of(device, precision) | chosen

    def compile_into(self, folder: Path) -> None:
        compile_into(folder)

    def make_deterministic(self) -> Facts:
        return compute_deterministically()

    def load(self, images: Images, labels: Labels) -> None:
        if self.resident:
            self.__dict__.update(images=None, labels=None)  # an earlier split is freed before the new one is made
            self.images, self.labels = self._tensor(images), self._tensor(labels)
        else:
            self.images, self.labels = images, labels

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def build(
        self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int, model: nn.Module | None = None
    ) -> None:
        for earlier in ("model", "called", "blocks", "norms", "optimizer"):  # freed before the new one is made
            self.__dict__.pop(earlier, None)
        torch.manual_seed(seed)
        self.workload, self.rule = workload, optimizer
        self.blocks: dict[str, nn.Module] = {}
        built = self._sequence(nn.Sequential(), workload.layers, workload.input_shape) if model is None else model
        self.model = built.to(self.device, memory_format=self.memory_format)
        self.called = compiled(self.model, whole=model is None) if self.compiles else self.model
        with torch.no_grad():
            for key, array in channels_first(workload, weights).items():
                self._weight(key).copy_(torch.from_numpy(array))
        self.norms = [
            BiasedVariance(self.blocks[layer.name], shape)
            for layer, shape in workload.walk()
            if isinstance(layer, BatchNorm)
        ]
        self.loss = mean_loss(workload)
        self.optimizer = optimizers.make_optimizer(optimizer, list(self.model.parameters()), self.tuned)
        self.scaler = torch.amp.GradScaler(
            self.device.type, init_scale=LOSS_SCALE, growth_interval=NEVER, enabled=self.scales
        )
        self.steps = 0

    def build_model(self, make_model: Callable[[int], Any], own: OwnCode, optimizer: OptimizerSpec, seed: int) -> int:
        torch.manual_seed(seed)  # for the weights that the model draws, lazy ones included
        height, width, channels = own.input_shape

        def predict(model: nn.Module) -> Any:
            model.to(self.device).eval()
            with torch.no_grad():
                return model(torch.zeros(PROBED, channels, height, width, device=self.device))

        model = make_checked(make_model, own, (nn.Module, torch.Tensor), predict)
        self.build(without_layers(own), optimizer, {}, seed, model)
        return sum(buffer.nbytes for buffer in model.buffers())

    def _sequence(self, sequence: nn.Sequential, layers: tuple[Layer, ...], shape: Shape) -> nn.Sequential:
        for layer in layers:
            block = LAYERS[type(layer)](layer, shape)
            if isinstance(layer, Join):
                block.branches.extend(self._sequence(nn.Sequential(), branch, shape) for branch in layer.branches)
            sequence.append(block)  # named by a number: a module cannot have every layer's name (train, float, type)
            self.blocks[layer.name], shape = block, layer.output_shape(shape)
        return sequence

    def _weight(self, key: str) -> torch.Tensor:
        layer, role = key.split("/")
        return attrgetter(ROLES.get(role, role))(self.blocks[layer])

    def _logits(self, images: torch.Tensor, model: nn.Module | None = None) -> torch.Tensor:
        """Return (n, classes) of `model`, by default as steps call it. The eager one has each layer's output."""
        channels_first_images = images.permute(0, 3, 1, 2).contiguous(memory_format=self.memory_format)
        with self.autocast:
            logits = (model or self.called)(channels_first_images.to(torch.float32) * np.float32(self.workload.scale))
        return logits.float()

    def probe(self, images: Images, labels: Labels) -> Probe:
        self.model.train()
        outputs: dict[str, torch.Tensor] = {}
        hooks = [
            block.register_forward_hook(lambda _, x, y, name=name: outputs.update({name: y.detach().float()}))
            for name, block in self.blocks.items()
        ]
        parameters = {key: self._weight(key) for key in self.workload.parameter_shapes()}
        loss, gradients = self._gradients_of(parameters, images, labels)
        for hook in hooks:
            hook.remove()
        return Probe(
            loss,
            outputs_channels_last(self.workload, {name: y.cpu().numpy() for name, y in outputs.items()}),
            channels_last(self.workload, gradients),
        )

    def _gradients_of(
        self, parameters: dict[str, torch.Tensor], images: Images, labels: Labels
    ) -> tuple[float, dict[str, Floats]]:
        """Return (loss, gradient by name; 0 for a parameter that the loss does not depend on); no buffer changes."""
        statistics = [buffer.clone() for buffer in self.model.buffers()]
        loss = self.loss(self._logits(self._tensor(images), self.model), self._tensor(labels))
        wanted, scale = list(parameters.values()), self.scaler.get_scale()
        scaled = torch.autograd.grad(self.scaler.scale(loss), wanted, allow_unused=True, materialize_grads=True)
        for buffer, before in zip(self.model.buffers(), statistics, strict=True):
            buffer.copy_(before)
        return loss.item(), {
            key: (gradient / scale).cpu().numpy() for key, gradient in zip(parameters, scaled, strict=True)
        }

    def parameter_gradients(self, images: Images, labels: Labels) -> dict[str, Floats]:
        self.model.train()
        trained = {name: parameter for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        return self._gradients_of(trained, images, labels)[1]

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[torch.Tensor]:
        self.model.train()
        losses = []
        for number, batch in enumerate(order):
            if rates is not None:
                optimizers.set_rate(self.optimizer, float(rates[number]))
            self.optimizer.zero_grad()
            first, *others = [self._differentiated(piece, len(batch)) for piece in parts(batch, part)]
            self._translate_epsilon()
            scale = self.scaler.get_scale()  # 1 if losses are not scaled
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if self.scaler.get_scale() < scale:
                self.steps -= 1  # gradients overflowed: the optimizer made no step
            losses.append(sum(others, start=first))
        return losses

    def _differentiated(self, piece: np.ndarray, update: int) -> torch.Tensor:
        """Add the gradient of this part of an update of `update` images; return its part of their mean loss."""
        for norm in self.norms:
            norm.expect(len(piece))
        images, labels = self._gathered(piece)
        loss = self.loss(self._logits(images), labels)
        if len(piece) < update:
            loss = loss * (len(piece) / update)
        self.scaler.scale(loss).backward()
        for norm in self.norms:
            norm.steps += 1
        return loss.detach()

    def _gathered(self, batch: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        if self.resident:
            index = self._tensor(batch)
            return self.images[index], self.labels[index]
        return self._tensor(self.images[batch]), self._tensor(self.labels[batch])

    def _translate_epsilon(self) -> None:
        """Set Adam's epsilon, which the contract has in another place."""
        self.steps += 1
        if self.rule.name in ("adam", "adamw"):
            for group in self.optimizer.param_groups:
                group["eps"] = optimizers.inner_epsilon(self.rule, self.steps)

    def read(self, handle: list[torch.Tensor]) -> Floats:
        return torch.stack(handle).cpu().numpy()

    def predict(self, images: Images) -> Floats:
        self._settle()
        self.model.eval()
        with torch.no_grad():
            return self._logits(self._tensor(images)).cpu().numpy()

    def _settle(self) -> None:
        for norm in self.norms:
            norm.settle()

    def weights(self) -> Weights:
        self._settle()
        keys = self.workload.weight_shapes()
        return channels_last(self.workload, {key: self._weight(key).detach().cpu().numpy().copy() for key in keys})

    def memory(self) -> dict[str, Count]:
        counts: dict[str, Count] = dict.fromkeys(MEMORY_KINDS, "PyTorch does not count what is in use on a CPU")
        if self.device.type == "cuda":
            counts["allocator_peak"] = torch.cuda.max_memory_allocated()
            counts["allocator_reserved"] = torch.cuda.max_memory_reserved()
        counts["parameters"] = sum(p.nbytes for p in self.model.parameters())
        return counts | {"gradients": self._gradient_bytes(), "optimizer": self._optimizer_bytes()}

    def _gradient_bytes(self) -> int:
        return sum(p.grad.nbytes for p in self.model.parameters() if p.grad is not None)

    def _optimizer_bytes(self) -> int:
        values = (value for state in self.optimizer.state.values() for value in state.values())
        return sum(value.nbytes for value in values if isinstance(value, torch.Tensor))

    def memory_use(self, order: Order, part: int | None = None) -> MemoryUse:
        refuse_graphs(self.device)
        self.optimizer.zero_grad()
        batch = parts(order[0], part)[0]
        (images, labels), allocated, _ = watch(self.device, lambda: self._gathered(batch))
        inputs = images.nbytes + labels.nbytes
        outside = max(0, inputs - allocated)  # from_numpy takes over numpy's memory, which is not counted here
        del images, labels
        resident = self.images.nbytes + self.labels.nbytes if self.resident else 0
        kept = [*self.model.parameters(), *self.model.buffers()]
        before = resident + sum(tensor.nbytes for tensor in kept) + self._optimizer_bytes()
        if self.device.type == "cuda":
            before = torch.cuda.memory_allocated()

        def forward() -> Any:
            images, labels = self._gathered(batch)
            return images, labels, self.loss(self._logits(images), labels)

        (images, labels, loss), held, _ = watch(self.device, forward)
        loss.backward()
        gradients = self._gradient_bytes()
        del images, labels, loss
        peaks = []
        for steps in (*order[:ALONE, None], order):
            self.optimizer.zero_grad()
            peaks.append(watch(self.device, partial(self.train, steps, part=part))[2])
        step_peak, peak = (before + outside + most for most in (max(peaks[:-1]), peaks[-1]))
        indices = 8 * pooled_values(self.workload) * len(batch)  # int64
        held += before + outside
        return MemoryUse(before, inputs, held, gradients, step_peak, peak, indices, planned=self.compiles)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def out_of_memory(self, error: BaseException) -> bool:
        signs = ("DefaultCPUAllocator: can't allocate memory", "CUDA error: out of memory", "ALLOC_FAILED", "bad_alloc")
        exhausted = isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
        return exhausted or isinstance(error, torch.OutOfMemoryError | MemoryError)
