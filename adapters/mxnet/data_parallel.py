"""MXNet on several devices: Gluon's parameters on a context for each, gradients summed by the Trainer's kvstore.

GPUs: written as in Gluon's guide, never run.
"""

from __future__ import annotations

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import Block

from adapters import base
from adapters.base import Count, Facts, Floats, Order, Unsupported
from adapters.mxnet import adapter, optimizers
from adapters.shared import refuse, refuse_parts, shares
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

NAME = "MXNet"


class DataParallel(adapter.Adapter):
    """`devices` contexts in one process, each with its copy of all parameters and of the optimizer's state.

    Evaluation, weights and running statistics are the first context's.
    """

    build_model, memory_use = base.Adapter.build_model, base.Adapter.memory_use

    def __init__(self, devices: int) -> None:
        self.devices = devices

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        refuse(profile, precision, feed, NAME)
        facts = super().open(device, threads, profile, precision, feed, allocator)
        kind = mx.gpu if device == "cuda" else mx.cpu
        if device == "cuda" and mx.context.num_gpus() < self.devices:
            raise Unsupported(f"MXNet finds {mx.context.num_gpus()} GPUs, {self.devices} are requested")
        self.contexts = [kind(number) for number in range(self.devices)]
        return facts | {"devices": self.devices, "data_parallel": "Gluon's Trainer, kvstore device"}

    def build(
        self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int, model: Block | None = None
    ) -> None:
        super().build(workload, optimizer, weights, seed, model)
        # The optimizer stays with the Trainer: in the kvstore its velocities could not be rescaled when rates change.
        self.trainer = gluon.Trainer(
            self.net.collect_params(), optimizers.make_optimizer(optimizer), kvstore="device", update_on_kvstore=False
        )

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[mx.nd.NDArray]:
        refuse_parts(part, NAME)
        return super().train(order, rates)

    def _mean_loss(self, batch: np.ndarray, part: int | None) -> mx.nd.NDArray:
        """Return the mean loss of an update; each context has its images' summed gradient, which `step` adds up."""
        divided = list(zip(shares(batch, self.devices), self.contexts, strict=True))
        inputs = [tuple(each.as_in_context(place) for each in self._gathered(share.rows)) for share, place in divided]
        with autograd.record():
            each = [self.losses(images, labels) for images, labels in inputs]
            each = [loss if share.weight else loss * 0 for loss, (share, _) in zip(each, divided, strict=True)]
        autograd.backward(each)
        first, *others = [loss.sum().as_in_context(self.context) for loss in each]
        return sum(others, start=first) / len(batch)

    def memory(self) -> dict[str, Count]:
        """Return the counts of one device, as an adapter of one device does."""
        state = self.trainer._updaters[0].states.values() if self.trainer._updaters else ()
        return super().memory() | {"optimizer": sum(optimizers.bytes_of(each) for each in state)}
