"""The verbs of an adapter. All are mandatory; each says what it promises and what it may not do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workloads.datasets import Images, Labels
from workloads.records.memory_counts import Count as Count
from workloads.records.own_code import OwnCode
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

Order = NDArray[np.int32]
Floats = NDArray[np.float32]

MEMORY_KINDS = ("parameters", "gradients", "optimizer", "allocator_peak", "allocator_reserved")

ALONE = 20  # steps at most that `memory_use` waits for one by one


# Of float16, at first: so little that the first steps do not overflow, whose updates would be left out. It falls where
# one does and never grows, or every 2,000 steps an update would be left out to find that it grew too far.
LOSS_SCALE, NEVER = 1024.0, 2**30  # steps


class Unsupported(Exception):
    """This framework cannot do what the trial asks here; the message is the reason a reader sees."""


@dataclass(frozen=True)
class Probe:
    """What one training step computes before its update, in canonical layouts."""

    loss: float
    outputs: dict[str, Floats]  # of every layer in the order of `workload.walk()`; (batch, *output_shape)
    gradients: Weights  # of the loss, for everything trained


@dataclass(frozen=True)
class MemoryUse:
    """Bytes in use by the framework's allocator, as steps on batches of one size go by."""

    before: int  # between two steps, with no gradients kept from the last one unless the framework keeps them
    inputs: int  # a batch and its labels
    held: int  # between forward and backward, all of it
    gradients: int
    step_peak: int  # highest during a step that is waited for, of up to ALONE steps
    peak: int  # highest while all steps of `order` are called together
    pool_indices: Count  # of `held`, what tells which element of each pool's window was the largest
    in_chunks: bool = False  # what is counted are the allocator's chunks, each up to twice what was asked for
    runs_ahead: bool = False  # a step takes its memory when it is called, also where earlier ones still run
    planned: bool = False  # the compiler plans a whole step: nobody can tell what forward leaves, `held` is not read


def parts(batch: Order, part: int | None) -> list[Order]:
    """`batch` (n,) cut into parts of so many images, the last one smaller; None: all of it in one."""
    return [batch] if part is None else [batch[first : first + part] for first in range(0, len(batch), part)]


class Adapter(Protocol):
    """Made by the worker as `adapters.<framework>.adapter.Adapter()`; open first, then load,
    then build, then the others in any order; load, of the same shapes, and build may come again.
    `synchronize` comes from `load` on, also before `build`; `out_of_memory` at any time.
    """

    def open(
        self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str
    ) -> dict[str, Any]:
        """Take the device ("cpu", or "cuda" = the one GPU that is visible; computes on it once) and that many threads.

        In each `precision` but "float32" weights, loss and updates stay in float32; layers compute in it as the
        framework's own mixed precision decides, in "tf32" their products alone. Of "float16" the loss is scaled by
        LOSS_SCALE, and by less after an overflow. What `probe` and `predict` give is float32 in any.
        `allocator` "on-demand" takes a GPU's memory as it is needed, "default" as the framework does by itself.
        Returns facts: versions and settings as JSON. Raises Unsupported(reason).
        """

    def load(self, images: Images, labels: Labels) -> None:
        """Take the training split, uint8 (n, h, w, c) and int32 (n,), in place of an earlier one.

        It comes once, or before every epoch where images are augmented: then `images[batch]` gives an array, and
        `numpy.asarray(images)` the whole one.
        With feed "host" it stays with numpy and each batch is gathered there and copied;
        with feed "device" it lives on the device from here on.
        """

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int) -> None:
        """Make model and optimizer with exactly these weights; an earlier model is dropped.

        `seed` is for Dropout's masks, the one thing an adapter draws: the same seed, the same masks.
        """

    def build_model(self, make_model: Callable[[int], Any], own: OwnCode, optimizer: OptimizerSpec, seed: int) -> int:
        """In place of `build`: model and optimizer around what `make_model(own.classes)` returns.

        A model of the framework: it gets images as such models do by custom, float32 in 0..1, and gives logits
        (n, classes); its initial weights are its own, drawn from the seed. `probe` and `weights` are not asked of it.
        Returns the bytes of what it keeps and does not train. Raises Unsupported(reason) where there is no such thing,
        ValueError or TypeError where what it returns is no such model.
        """

    def probe(self, images: Images, labels: Labels) -> Probe:
        """Forward and backward in training mode, on a batch of the caller's.

        Weights, running statistics and the optimizer stay as they are. Dropout draws masks as in a step; whether they
        are the next step's, or drawn apart, is left to the framework.
        """

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Any:
        """One update per row of `order` (steps, batch), indices into the split, in the contract's arithmetic.

        `rates` (steps,) are their learning rates; None: that of the step before, of the first the optimizer's own.
        `part`: so many images of a row go through the network at once (`parts`); None: all of them. What the optimizer
        gets, once a row, is the gradient of the mean loss over all images of the row, also where its last part is
        smaller; BatchNorm's statistics are of each part, and its running ones move with each.
        A trial's calls have a power of two of rows: a loop may be compiled for each length, there are few. The gate
        makes calls of three and four rows, too: what a row computes is the same in a call of any length.
        Returns a handle for `read`; may return before the device is done; waits for nothing, prints nothing.
        """

    def read(self, handle: Any) -> Floats:
        """(steps,) losses, each the mean over the batch before its update; waits for them."""

    def predict(self, images: Images) -> Floats:
        """(n, *output_shape) logits in evaluation mode: no softmax, no sigmoid."""

    def weights(self) -> Weights:
        """Copies of everything trained and BatchNorm's running statistics, in the canonical layout."""

    def memory(self) -> dict[str, Count]:
        """By kind, every one of MEMORY_KINDS: its bytes, or the reason why the framework does not tell them."""

    def count_memory(self, folder: Path) -> None:
        """Comes before open, and only where `memory_use` will be asked: starts what must count from the beginning.

        Files that the framework writes meanwhile go into `folder`.
        Raises Unsupported(reason) where the framework does not tell what is in use.
        """

    def memory_use(self, order: Order, part: int | None = None) -> MemoryUse:
        """Trains on the batches of `order` (steps, batch) as `train` does, such steps having been made before; what is
        in use between forward and backward is that of one part.

        Raises Unsupported(reason) where the framework does not tell. Nothing is timed here or afterwards.
        """

    def synchronize(self) -> None:
        """Returns when all submitted work is done. Comes after `load`, too, where there is no model yet."""

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether this exception is the framework's way of saying that memory ran out, and nothing else."""
