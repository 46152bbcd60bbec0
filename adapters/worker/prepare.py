"""What every kind of worker begins with: an adapter that is open and has its data."""

from __future__ import annotations

import importlib.metadata
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adapters.base import Adapter
from adapters.worker import host
from adapters.worker.event_log import EventLog
from adapters.worker.mapped import Ahead, images_of
from workloads import weights as initial_weights
from workloads.datasets import Split, file_digest
from workloads.records import network
from workloads.records.events import Event
from workloads.records.job import InputFile, Job
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

SPLITS = ("train", "test")
CONTEXT_S = 0.3  # three periods of the sampler


def read_input(root: Path, file: InputFile) -> Path:
    """The input's path, its sha256 verified."""
    path = root / file.path
    if (digest := file_digest(path, "sha256")) != file.sha256:
        raise ValueError(f"input {path}: sha256 expected {file.sha256}, found {digest}")
    return path


BuildArguments = tuple[Workload, OptimizerSpec, Weights, int]  # of an adapter


@dataclass
class Prepared:
    """An adapter that is open and has its data; `order` is (epochs, n)."""

    train: Split
    test: Split
    order: NDArray[np.int32]
    task: BuildArguments
    ahead: Ahead | None = None  # where the training split does not fit into memory


def prepare(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> Prepared:
    """Open the adapter and load the data; raises what the adapter raises, ValueError for an input that was changed."""
    spec, task, placement = job.trial, job.trial.task, job.trial.placement
    facts = adapter.open(placement.device_kind, placement.threads, task.profile, task.feed, spec.cell.allocator)
    packages = {package.metadata["Name"]: package.version for package in importlib.metadata.distributions()}
    events.write(Event.OPENED, facts=facts | {"packages": packages}, resident_bytes=host.resident_bytes())
    if placement.device_kind == "cuda":
        time.sleep(CONTEXT_S)
        events.write(Event.CONTEXT_SAMPLED)

    root = (folder / job.results).resolve()
    paths = {name: read_input(root, file) for name, file in spec.inputs.items()}
    arrays = [images_of(paths[f"{name}_images"], task.feed) for name in SPLITS]
    train, test = (
        Split(images, np.load(paths[f"{name}_labels"])) for name, (images, _) in zip(SPLITS, arrays, strict=True)
    )
    order = np.load(paths["order"])
    adapter.load(train.images, train.labels)
    adapter.synchronize()
    events.write(Event.LOADED)
    workload, weights = network.read(paths["network"]), initial_weights.load(paths["weights"])
    return Prepared(train, test, order, (workload, task.optimizer, weights, spec.draw.seed), arrays[0][1])
