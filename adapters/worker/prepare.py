"""Open the adapter and load its data: every kind of worker begins with this.

Images may be a map of their file: the kernel keeps as much of them in memory as there is space for.
"""

from __future__ import annotations

import importlib.metadata
import math
import mmap
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from adapters.base import Adapter, Facts, Floats, Order, Unsupported
from adapters.shared import function_of, without_layers
from adapters.worker import host
from adapters.worker.event_log import EventLog
from adapters.worker.refused_memory import machine_bytes
from workloads import control_groups
from workloads import weights as initial_weights
from workloads.augmentation import Augmented, Cost, Draws
from workloads.datasets import Images, Split, file_digest
from workloads.heap import settle_heap
from workloads.records import network
from workloads.records.build import AUTOTUNE
from workloads.records.events import Event
from workloads.records.files import COMPILED_FOLDER
from workloads.records.job import AUGMENTATION, RATES, TEST_LABELS, InputFile, Job
from workloads.records.network import OwnCode
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

CONTEXT_S = 0.3  # three periods of the sampler

Ahead = Callable[[Order], None]


def read_input(root: Path, file: InputFile) -> Path:
    """Return the input's path after checking its sha256."""
    path = root / file.path
    if (digest := file_digest(path, "sha256")) != file.sha256:
        raise ValueError(f"input {path}: sha256 expected {file.sha256}, found {digest}")
    return path


BuildArguments = tuple[Workload, OptimizerSpec, Weights, int]  # arguments of an adapter's `build`


@dataclass
class Prepared:
    """An adapter that is open and has its data; `order` is (epochs + 1, n). Test labels are the runner's alone."""

    train: Split
    test_images: Images
    order: NDArray[np.int32]
    task: BuildArguments
    rates: Floats | None = None  # of every step, if they differ
    draws: Draws | None = None  # of every image and epoch, if images are augmented
    ahead: Ahead | None = None  # if the training split does not fit into memory
    own: tuple[Path, OwnCode] | None = None  # in place of a network; `task` is then without layers and weights
    cost: Cost = field(default_factory=Cost)  # of augmenting images

    def build(self, adapter: Adapter) -> int:
        """Build the model and return bytes of its running statistics. Raises what the adapter and custom code raise."""
        workload, optimizer, _, seed = self.task
        if self.own is None:
            adapter.build(*self.task)
            return sum(4 * math.prod(shape) for shape in workload.statistic_shapes().values())
        path, own = self.own
        return adapter.build_model(function_of(path, own.function), own, optimizer, seed)

    def images(self, epoch: int) -> Images:
        """Return the training split as this epoch sees it; -1: as the probe and the steps after the epochs see it."""
        if self.draws is None:
            return self.train.images
        return cast(Images, Augmented(self.train.images, self.draws[epoch], self.cost))


def prepare(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> Prepared:
    """Open the adapter and load the data; raises what the adapter raises, ValueError for an input that was changed."""
    spec, task, placement = job.trial, job.trial.task, job.trial.placement
    settle_heap()
    adapter.compile_into(empty_folder(folder / COMPILED_FOLDER))
    facts = adapter.open(
        placement.device_kind, placement.device_threads, task.profile, task.precision, task.feed, spec.cell.allocator
    )
    if task.deterministic:
        facts["deterministic"] = switch_deterministic(adapter, task.profile)
    # Remains of an aborted installation have no name.
    packages = {name: each.version for each in importlib.metadata.distributions() if (name := each.metadata["Name"])}
    events.write(Event.OPENED, facts=facts | {"packages": packages}, resident_bytes=host.resident_bytes())
    if placement.device_kind == "cuda":
        time.sleep(CONTEXT_S)
        events.write(Event.CONTEXT_SAMPLED)

    root = (folder / job.results).resolve()
    paths = {name: read_input(root, file) for name, file in spec.inputs.items() if name != TEST_LABELS}
    (images, ahead), (test_images, _) = (images_of(paths[f"{name}_images"], task.feed) for name in ("train", "test"))
    train, order = Split(images, np.load(paths["train_labels"])), np.load(paths["order"])
    rates, draws = (np.load(paths[name]) if name in paths else None for name in (RATES, AUGMENTATION))
    arguments: BuildArguments
    if own := task.own_code:
        arguments = without_layers(own), task.optimizer, {}, spec.draw.seed
    else:
        weights = initial_weights.load(paths["weights"])
        arguments = network.read(paths["network"]), task.optimizer, weights, spec.draw.seed
    prepared = Prepared(
        train, test_images, order, arguments, rates, draws, ahead, (paths["model"], own) if own else None
    )
    adapter.load(prepared.images(0), train.labels)
    adapter.synchronize()
    events.write(Event.LOADED)
    return prepared


def empty_folder(folder: Path) -> Path:
    """Return the folder without what an earlier attempt at this trial left in it: its compiling is timed anew."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def switch_deterministic(adapter: Adapter, profile: str) -> Facts:
    """Return what the framework reports once its own switch is on. Raises Unsupported."""
    if profile == AUTOTUNE:
        raise Unsupported(
            f"profile {profile} chooses by timing, so two runs may choose differently: leave --deterministic out"
        )
    return adapter.make_deterministic()


def images_of(path: Path, feed: str) -> tuple[Images, Ahead | None]:
    """Return (images (n, h, w, c); a function that asks the disk for the images of some batches at once). With feed
    "host" the images are a read-only map; images for the device are read as a whole.

    The function is None if all of them fit into memory: they have just been read, for their checksum.
    """
    if feed != "host":
        return np.load(path), None
    array = np.load(path, mmap_mode="r")
    images, pages = array.view(np.ndarray), array.base  # a memmap's slices are slower to make
    if not isinstance(pages, mmap.mmap) or images.nbytes < room_bytes():
        return images, None
    first, row_bytes = array.offset % mmap.ALLOCATIONGRANULARITY, images[0].nbytes
    pages.madvise(mmap.MADV_RANDOM)  # an image's neighbours are not read with it

    def ahead(order: Order) -> None:
        for row in order.ravel().tolist():
            start = (first + row * row_bytes) // mmap.PAGESIZE * mmap.PAGESIZE
            pages.madvise(mmap.MADV_WILLNEED, start, first + (row + 1) * row_bytes - start)

    return images, ahead


def room_bytes() -> int:
    """Return the bytes of memory available for a file's map."""
    limit_bytes = control_groups.memory_limit_bytes()
    available_bytes = machine_bytes("MemAvailable")
    return min((size for size in (limit_bytes, available_bytes) if size is not None), default=2**63)
