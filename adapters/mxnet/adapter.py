"""MXNet Gluon. Default profile: a hybridized network, as in Gluon's guide. Tuned: network and loss compiled
together, with memory that is planned once for each shape.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import Block

from adapters import base
from adapters.base import ALONE, MEMORY_KINDS, Count, Facts, Floats, MemoryUse, Order, Probe, Unsupported, parts
from adapters.mxnet import optimizers
from adapters.mxnet.layers import LAYERS, ROLES, Losses, float32, losses_of, turned
from adapters.mxnet.libraries import chosen_kernels, compute_deterministically, compute_in, copy_by_one_thread, facts_of
from adapters.mxnet.optimizers import bytes_of
from adapters.shared import PROBED, make_checked, without_layers
from workloads.activations import pooled_values
from workloads.datasets import Images, Labels
from workloads.layers import Join, Layer, Shape
from workloads.records.build import TUNED
from workloads.records.network import OwnCode
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights, channels_first, channels_last, outputs_channels_last


class Adapter(base.Adapter):
    trace: Path | None = None  # output file of MXNet's profiler, once it counts memory

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        copy_by_one_thread()
        self.mixed, self.tuned = compute_in(precision, device), profile == TUNED
        self.context = mx.cpu()
        chosen = chosen_kernels() if device == "cpu" else {}
        if device == "cuda":
            self.context = mx.gpu(0)
            try:
                mx.nd.relu(mx.nd.ones((1,), self.context)).asnumpy()
            except mx.MXNetError as error:
                cause = str(error).strip().splitlines()[-1]
                raise Unsupported(f"MXNet {mx.__version__} cannot compute on this GPU: {cause}") from error
        self.resident, self.contexts = feed == "device", [self.context]
        return facts_of(device, precision) | chosen

    def make_deterministic(self) -> Facts:
        return compute_deterministically()

    def load(self, images: Images, labels: Labels) -> None:
        if self.resident:
            self.__dict__.update(images=None, labels=None)  # an earlier split is freed before the new one is made
            self.images, self.labels = self._array(turned(np.asarray(images))), self._array(labels)
        else:
            self.images, self.labels = images, labels

    def _array(self, array: np.ndarray) -> mx.nd.NDArray:
        return mx.nd.array(array, self.context, dtype=array.dtype)

    def _taken(self, array: np.ndarray) -> mx.nd.NDArray:
        """Share the memory on a CPU, as `array` is not written until it is read; not while MXNet counts memory."""
        if self.trace is not None:
            return self._array(array)
        return mx.nd.from_numpy(array).as_in_context(self.context)

    def build(
        self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int, model: Block | None = None
    ) -> None:
        for earlier in ("net", "blocks", "trainer", "losses"):  # it is freed before the new one is made
            self.__dict__.pop(earlier, None)
        gc.collect()
        mx.random.seed(seed)
        self.workload, self.rule = workload, optimizer
        self.blocks: dict[str, gluon.HybridBlock] = {}
        hybrid = model is None or isinstance(model, gluon.HybridBlock)
        net = gluon.nn.HybridSequential() if hybrid else gluon.nn.Sequential()
        scale = float(np.float32(workload.scale))
        net.add(gluon.nn.HybridLambda(lambda F, x: F.cast(x, "float32") * scale))
        if model is None:
            self._sequence(net, workload.layers, workload.input_shape)
            net.initialize(mx.init.Zero(), ctx=self.contexts)
        else:
            net.add(model)
        if self.mixed:
            net.add(gluon.nn.HybridLambda(float32))
        for key, array in channels_first(workload, weights).items():
            self._parameter(key).set_data(self._array(array))
        self.execution = base.HYBRIDIZED if hybrid else base.EAGER
        self.net, self.loss, self.request = net, losses_of(workload), "write"
        self.losses: Any = lambda images, labels: self.loss(self.net(images), labels)
        if self.tuned and hybrid:
            self.losses = Losses(net, self.loss)
        self._compile()
        net.collect_params().setattr("wd_mult", 1.0)  # everything decays
        self.trainer = gluon.Trainer(net.collect_params(), optimizers.make_optimizer(optimizer))

    def _compile(self) -> None:
        """Run the network as a graph from now on."""
        if isinstance(self.losses, Losses):
            self.losses.hybridize(static_alloc=True, static_shape=True)
        else:
            self.net.hybridize()

    def build_model(self, make_model: Callable[[int], Any], own: OwnCode, optimizer: OptimizerSpec, seed: int) -> int:
        mx.random.seed(seed)
        np.random.seed(seed)  # MXNet's initializers also draw from it
        height, width, channels = own.input_shape

        def predict(model: Block) -> Any:
            parameters = model.collect_params()
            for parameter in parameters.values():
                if parameter._data is None and not parameter._deferred_init:  # as `initialize()` draws by default
                    parameter.initialize(ctx=self.context, default_init=mx.init.Uniform())
            parameters.reset_ctx(self.context)
            return model(mx.nd.zeros((PROBED, channels, height, width), self.context))

        model = make_checked(make_model, own, (Block, mx.nd.NDArray), predict)
        self.build(without_layers(own), optimizer, {}, seed, model)
        return sum(bytes_of(p.data()) for p in model.collect_params().values() if p.grad_req == "null")

    def _sequence(self, sequence: gluon.nn.HybridSequential, layers: tuple[Layer, ...], shape: Shape) -> None:
        for layer in layers:
            block = LAYERS[type(layer)](layer, shape)
            if isinstance(layer, Join):
                for branch in layer.branches:
                    block.add(gluon.nn.HybridSequential())
                    self._sequence(block[-1], branch, shape)
            sequence.add(block)
            self.blocks[layer.name], shape = block, layer.output_shape(shape)

    def _parameter(self, key: str) -> gluon.Parameter:
        layer, role = key.split("/")
        return attrgetter(ROLES.get(role, role))(self.blocks[layer])

    def probe(self, images: Images, labels: Labels) -> Probe:
        outputs: dict[str, mx.nd.NDArray] = {}
        hooks = [
            block.register_forward_hook(lambda _, x, y, name=name: outputs.update({name: y}))
            for name, block in self.blocks.items()
        ]
        statistics = {key: self._parameter(key).data(self.context).copy() for key in self.workload.statistic_shapes()}
        self._gradients("write")
        self.net.hybridize(active=False)  # a compiled network calls no block
        with autograd.record():
            loss = self.loss(self.net(self._taken(turned(images))), self._taken(np.array(labels))).mean()
        loss.backward()
        for hook in hooks:
            hook.detach()
        self._compile()
        for key, before in statistics.items():
            self._parameter(key).set_data(before)
        keys = self.workload.parameter_shapes()
        return Probe(
            float(loss.asscalar()),
            outputs_channels_last(self.workload, {name: float32(mx.nd, y).asnumpy() for name, y in outputs.items()}),
            channels_last(self.workload, {key: self._parameter(key).grad(self.context).asnumpy() for key in keys}),
        )

    def parameter_gradients(self, images: Images, labels: Labels) -> dict[str, Floats]:
        fixed = [p for p in self.net.collect_params().values() if p.grad_req == "null"]
        statistics = [p.data(self.context).copy() for p in fixed]
        self._gradients("write")
        with autograd.record():
            loss = self.losses(self._taken(turned(images)), self._taken(np.array(labels)))
        loss.backward()
        gradients = {p.name: p.grad(self.context).asnumpy() / len(labels) for p in self._trained()}
        for parameter, before in zip(fixed, statistics, strict=True):
            parameter.set_data(before)
        return gradients

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[mx.nd.NDArray]:
        self._gradients("write" if part is None else "add")
        losses = []
        for number, batch in enumerate(order):
            if rates is not None:
                optimizers.set_rate(self.trainer, self.rule, float(rates[number]))
            losses.append(self._mean_loss(batch, part))
            self.trainer.step(len(batch))
        if rates is not None:
            optimizers.set_rate(self.trainer, self.rule, self.trainer.learning_rate)  # a step without rates keeps it
        return losses

    def _mean_loss(self, batch: np.ndarray, part: int | None) -> mx.nd.NDArray:
        """Return the mean loss of an update; `step` divides its images' summed gradient."""
        if part is None:
            return self._differentiated(batch).mean()
        self.net.collect_params().zero_grad()
        first, *others = [self._differentiated(piece).sum() for piece in parts(batch, part)]
        return sum(others, start=first) / len(batch)

    def _differentiated(self, batch: np.ndarray) -> mx.nd.NDArray:
        """Return the loss of each image; the gradient of their sum is written, or added."""
        images, labels = self._gathered(batch)
        with autograd.record():
            loss = self.losses(images, labels)
        loss.backward()
        return loss

    def _gradients(self, request: str) -> None:
        """Set what a backward pass does with existing gradients: "write" over them or "add" to them."""
        if request != self.request:
            self.request = request
            for parameter in self._trained():
                parameter.grad_req = request

    def _gathered(self, batch: np.ndarray) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
        if self.resident:
            index = self._array(batch)
            return mx.nd.take(self.images, index), mx.nd.take(self.labels, index)
        return self._taken(turned(self.images[batch])), self._taken(self.labels[batch])

    def read(self, handle: list[mx.nd.NDArray]) -> Floats:
        return np.array([loss.asscalar() for loss in handle], np.float32)

    def predict(self, images: Images) -> Floats:
        return self.net(self._taken(turned(images))).asnumpy()

    def weights(self) -> Weights:
        keys = self.workload.weight_shapes()
        return channels_last(self.workload, {key: self._parameter(key).data(self.context).asnumpy() for key in keys})

    def memory(self) -> dict[str, Count]:
        states = [state for updater in self.trainer._updaters for state in updater.states.values()]
        counts: dict[str, Count] = dict.fromkeys(MEMORY_KINDS, "MXNet reports it only to its profiler")
        return counts | {
            "parameters": sum(bytes_of(p.data(self.context)) for p in self._trained()),
            "gradients": self._gradient_bytes(),
            "optimizer": sum(bytes_of(state) for state in states),
        }

    def _trained(self) -> list[gluon.Parameter]:
        return [p for p in self.net.collect_params().values() if p.grad_req != "null"]

    def _gradient_bytes(self) -> int:
        return sum(bytes_of(p.grad(self.context)) for p in self._trained())

    def count_memory(self, folder: Path) -> None:
        # MXNet removes a file of this name and writes a new one, so the name must be ours.
        self.trace = folder / "mxnet_profile.json"
        mx.profiler.set_config(profile_memory=True, aggregate_stats=True, filename=str(self.trace))
        mx.profiler.set_state("run")

    def memory_use(self, order: Order, part: int | None = None) -> MemoryUse:
        if isinstance(self.losses, Losses):
            self._compile()  # a graph with memory of its own keeps it from step to step: it would count as there before
        before, batch = self._in_use(), parts(order[0], part)[0]
        images, labels = self._gathered(batch)
        mx.nd.waitall()
        with autograd.record():
            loss = self.losses(images, labels)
        held = self._in_use()
        loss.backward()
        inputs = bytes_of([images, labels])
        del images, labels, loss
        peaks = []
        for steps in (*order[:ALONE, None], order):
            self._in_use()
            self.train(steps, part=part)
            peaks.append(self._most_in_use())
        indices: Count = 4 * pooled_values(self.workload) * len(batch)  # int32, by oneDNN
        if self.context.device_type != "cpu":
            indices = "what MXNet's pools keep on a GPU was never measured"
        return MemoryUse(
            before, inputs, held, self._gradient_bytes(), max(peaks[:-1]), peaks[-1], indices, runs_ahead=True
        )

    def _in_use(self) -> int:
        """Return the bytes in use: the profiler reports only a maximum, here while only one number is made."""
        self._profiled()
        self._array(np.zeros(1, np.float32))
        return self._most_in_use()

    def _most_in_use(self) -> int:
        """Return the most bytes in use since the last call. Read as text: its JSON rounds to four digits."""
        most = re.search(rf"Memory: {self.context.device_type}/0\s+\d+\s+[\d.]+\s+([\d.]+)", self._profiled())
        if not most:
            raise Unsupported(f"MXNet {mx.__version__}'s profiler reported nothing about {self.context}")
        return round(float(most.group(1)) * 1000)

    def _profiled(self) -> str:
        """Return the profiler's counts since the last call; its trace, which is not used, is removed."""
        assert self.trace
        mx.nd.waitall()
        summary: str = mx.profiler.dumps(reset=True)
        self.trace.unlink(missing_ok=True)
        return summary

    def synchronize(self) -> None:
        mx.nd.waitall()

    def out_of_memory(self, error: BaseException) -> bool:
        text = str(error).lower()
        exhausted = any(sign in text for sign in ("out of memory", "failed to allocate", "alloc_failed", "bad_alloc"))
        return isinstance(error, MemoryError) or (isinstance(error, mx.MXNetError) and exhausted)
