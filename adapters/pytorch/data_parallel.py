"""PyTorch on several devices: DistributedDataParallel, a process for each, by gloo on CPUs and NCCL on GPUs.

The first rank is the worker's own process. It starts the others as python -m adapters.pytorch.data_parallel PARENT RANK
DEVICES MEETING and sends them each call that all take part in (`ranks`). Every rank gathers its own rows of the trial's
order. GPUs: written as in PyTorch's guide, never run.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from adapters import base
from adapters.base import Facts, Floats, Order, Unsupported
from adapters.pytorch import adapter
from adapters.pytorch.ranks import Others, obey
from adapters.shared import refuse, refuse_parts, shares
from workloads.datasets import Images, Labels
from workloads.records.build import COMPILED, DEFAULT
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

NAME = "PyTorch"
SEEDS_APART = 2**28  # between the ranks' masks, 16 at most: on a CPU only the lower 32 bits of a seed count


class DataParallel(adapter.Adapter):
    """One of `devices` ranks; `others` are those that this one leads, empty except for the first rank.

    Evaluation, weights and running statistics are the first rank's.
    """

    build_model, memory_use = base.Adapter.build_model, base.Adapter.memory_use

    def __init__(self, devices: int, rank: int = 0, meeting: str = "") -> None:
        self.devices, self.rank = devices, rank
        self.others = Others(devices) if rank == 0 else None
        self.meeting = self.others.meeting if self.others else meeting

    def _tell(self, verb: str, *arguments: Any) -> None:
        if self.others:
            self.others.tell(verb, *arguments)

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        refuse(profile if profile == COMPILED else DEFAULT, precision, "host", NAME)  # the others are as for one device
        self._tell("open", device, threads, profile, precision, feed, allocator)
        if device == "cuda":
            if torch.cuda.device_count() < self.devices:
                raise Unsupported(f"PyTorch finds {torch.cuda.device_count()} GPUs, {self.devices} are requested")
            torch.cuda.set_device(self.rank)
        facts = super().open(device, threads, profile, precision, feed, allocator)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # a machine's name need not have an address
        backend = "nccl" if device == "cuda" else "gloo"
        distributed.init_process_group(
            backend, init_method=f"file://{self.meeting}", rank=self.rank, world_size=self.devices
        )
        return facts | {"devices": self.devices, "data_parallel": f"DistributedDataParallel, {backend}"}

    def make_deterministic(self) -> Facts:
        self._tell("make_deterministic")
        return super().make_deterministic()

    def load(self, images: Images, labels: Labels) -> None:
        """Load the whole split on every rank."""
        if not isinstance(images, np.ndarray):
            raise Unsupported("PyTorch on several devices: images augmented in each epoch stay in one process")
        self._tell("load", images, labels)
        super().load(images, labels)

    def build(
        self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int, model: nn.Module | None = None
    ) -> None:
        self._tell("build", workload, optimizer, weights, seed)
        self.__dict__.pop("replica", None)  # it is freed before the new one is made
        super().build(workload, optimizer, weights, seed + self.rank * SEEDS_APART, model)
        gpus = [self.rank] if self.device.type == "cuda" else None
        self.replica = DistributedDataParallel(self.model, device_ids=gpus)

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[torch.Tensor]:
        refuse_parts(part, NAME)
        self._tell("train", order, rates)
        losses = torch.stack(super().train(order, rates))
        distributed.all_reduce(losses)  # once per call: each rank has its part of every mean
        return list(losses)

    def _differentiated(self, piece: np.ndarray, update: int) -> torch.Tensor:
        """Return this rank's share of the update's mean loss; the gradient is the whole update's, averaged by DDP."""
        share = shares(piece, self.devices)[self.rank]
        for norm in self.norms:
            norm.expect(len(share.rows))
        images, labels = self._gathered(share.rows)
        channels_first = images.permute(0, 3, 1, 2).contiguous(memory_format=self.memory_format)
        logits = self.replica(channels_first.to(torch.float32) * np.float32(self.workload.scale))
        loss = self.loss(logits.float(), labels) * share.weight
        (loss * self.devices).backward()
        for norm in self.norms:
            norm.steps += 1
        return loss.detach()

    def out_of_memory(self, error: BaseException) -> bool:
        return super().out_of_memory(error) or (self.others is not None and self.others.out_of_memory())


if __name__ == "__main__":
    parent, rank, devices, meeting = sys.argv[1:]
    obey(int(parent), lambda: DataParallel(int(devices), int(rank), meeting))
