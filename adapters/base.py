"""The base class of every adapter: ten verbs that a trial needs, and eight more, most with a reason as default.

Each verb states what it promises and what it must not do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.datasets import Images, Labels
from workloads.records.events import Count as Count
from workloads.records.network import OwnCode
from workloads.records.source_map import Mask
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights

Order = NDArray[np.int32]
Floats = NDArray[np.float32]
Facts = dict[str, Any]  # versions and settings as JSON

MEMORY_KINDS = ("parameters", "gradients", "optimizer", "allocator_peak", "allocator_reserved")

ALONE = 20  # the most steps that `memory_use` waits for one by one


# Initial loss scale of float16: small enough that the first steps, whose updates would be skipped, do not overflow. It
# falls after an overflow and never grows; otherwise one update per 2,000 steps would be skipped to find that it grew
# too far.
LOSS_SCALE, NEVER = 1024.0, 2**30  # steps


class Unsupported(Exception):
    """This framework cannot do what the trial asks here; the message is the reason that is shown."""


@dataclass(frozen=True)
class Probe:
    """Values that one training step computes before its update, in canonical layouts."""

    loss: float
    outputs: dict[str, Floats]  # of every layer in the order of `workload.walk()`; (batch, *output_shape)
    gradients: Weights  # of the loss, for everything trained


@dataclass(frozen=True)
class MemoryUse:
    """Bytes in use by the framework's allocator during steps on batches of one size."""

    before: int  # between two steps, with no gradients kept from the last one unless the framework keeps them
    inputs: int  # a batch and its labels
    held: int  # between forward and backward, everything
    gradients: int
    step_peak: int  # highest during a step that is waited for, over up to ALONE steps
    peak: int  # highest while all steps of `order` are called together
    pool_indices: Count  # part of `held` that records which element of each pool's window was the largest
    in_chunks: bool = False  # counts are of the allocator's chunks, each up to twice what was asked for
    runs_ahead: bool = False  # a step takes its memory when it is called, even while earlier ones still run
    planned: bool = False  # the compiler plans a whole step: what forward leaves is unknown, `held` is not read


def parts(batch: Order, part: int | None) -> list[Order]:
    """Cut `batch` (n,) into parts of `part` images, the last one possibly smaller; None keeps it whole."""
    return [batch] if part is None else [batch[first : first + part] for first in range(0, len(batch), part)]


# Ways in which a step executes.
EAGER, TRACED, HYBRIDIZED = "eager", "traced (tf.function)", "hybridized"
TORCH_COMPILE, XLA, JIT = "torch.compile (inductor)", "XLA (jit_compile)", "XLA (jax.jit)"

NOT_YET = "not in this adapter yet"  # ends the reason of a default


class Adapter(ABC):
    """Adapter of a framework, made by the worker as `adapters.<framework>.adapter.Adapter()`. The worker calls open
    first, then load, then build, then the others in any order. load, with the same shapes, and build may be
    repeated. `synchronize` may be called from `load` on, also before `build`; `out_of_memory` at any time.

    What an adapter does not have, a profile or a layer for example, raises Unsupported(reason): tables show the reason.
    `execution` says how a step executes, once there is a model; None if the adapter does not report it.
    """

    # How much longer than usual a call of `train` is: for a framework to which a call costs as much as many steps.
    call_factor = 1
    execution: str | None = None

    @abstractmethod
    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        """Take the device ("cpu", or "cuda" = the only visible GPU; computes on it once) and that many threads.

        In each `precision` except "float32", weights, loss and updates stay in float32. Layers compute in it as the
        framework's mixed precision decides; in "tf32" only their products do. In "float16" the loss is scaled by
        LOSS_SCALE, and by less after an overflow. `probe` and `predict` return float32 in any precision. `allocator`
        "on-demand" takes a GPU's memory as it is needed, "default" as the framework does by default. Returns facts.
        Raises Unsupported(reason).
        """

    @abstractmethod
    def load(self, images: Images, labels: Labels) -> None:
        """Take the training split, uint8 (n, h, w, c) and int32 (n,), in place of an earlier one.

        It is called once, or before every epoch if images are augmented. Then `images[batch]` gives an array, and
        `numpy.asarray(images)` the whole one. With feed "host" the split stays with numpy; each batch is gathered there
        and copied. With feed "device" it stays on the device from now on.
        """

    @abstractmethod
    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int) -> None:
        """Make model and optimizer with exactly these weights; an earlier model is dropped.

        `seed` is for the masks of Dropout and StochasticDepth, the only thing an adapter draws: the same seed gives the
        same masks.
        """

    def snapshot(self) -> Callable[[], None] | None:
        """Return a function that puts back what `build` has left: every variable of model and optimizer, as it is now.

        None means that the caller builds the model anew. Only the gate's probe asks (`take_snapshot`), right after
        `build`, because it needs the same model for each draw of images. No value may be written that was not read:
        a wrong one must come back, too. A workload that draws masks is always built anew.
        """
        return None

    @abstractmethod
    def probe(self, images: Images, labels: Labels) -> Probe:
        """Run forward and backward in training mode, on a batch of the caller's.

        Weights, running statistics and the optimizer stay unchanged. Masks are drawn as in a step; the framework
        decides whether they are the next step's or drawn separately.
        """

    @abstractmethod
    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Any:
        """Make one update per row of `order` (steps, batch), indices into the split, in the contract's arithmetic.

        `rates` (steps,) are their learning rates. None keeps the rate of the step before, or the optimizer's for the
        first. `part` is the number of images of a row that go through the network at once (`parts`); None means all.
        The optimizer gets, once per row, the gradient of the mean loss over all images of the row, also if its last
        part is smaller. BatchNorm's statistics are of each part, and its running ones move with each. A trial's calls
        have a power of two of rows: a loop may be compiled for each length, there are few. The gate also makes calls of
        three and four rows: a row computes the same in a call of any length. Returns a handle for `read`; may return
        before the device is done; waits for nothing, prints nothing.
        """

    @abstractmethod
    def read(self, handle: Any) -> Floats:
        """Return (steps,) losses, each the mean over the batch before its update; waits for them."""

    @abstractmethod
    def predict(self, images: Images) -> Floats:
        """Return (n, *output_shape) logits in evaluation mode: no softmax, no sigmoid."""

    @abstractmethod
    def weights(self) -> Weights:
        """Return copies of everything trained and BatchNorm's running statistics, in the canonical layout."""

    @abstractmethod
    def synchronize(self) -> None:
        """Return when all submitted work is done. May be called after `load`, before there is a model."""

    @abstractmethod
    def out_of_memory(self, error: BaseException) -> bool:
        """True if this exception means exactly that memory ran out."""

    def compile_into(self, folder: Path) -> None:  # noqa: B027  # most compile nothing to files
        """Keep all files that the framework compiles in `folder`, which is empty; called before open."""

    def make_deterministic(self) -> Facts:
        """Set the framework's own switch for deterministic computation; called after open and before anything else.

        Returns what the framework then reports about it. Raises Unsupported(reason) if it has no such switch.
        """
        raise Unsupported(f"--deterministic: {NOT_YET}")

    def build_model(self, make_model: Callable[[int], Any], own: OwnCode, optimizer: OptimizerSpec, seed: int) -> int:
        """Make model and optimizer around the model that `make_model(own.classes)` returns, in place of `build`.

        The model belongs to the framework. It gets images as is usual for such models, float32 in 0..1, and returns
        logits (n, classes). It draws its own initial weights from the seed. `probe` and `weights` are not called for
        it; `parameter_gradients` is. Returns the bytes of the model's non-trainable variables. Raises
        Unsupported(reason) if this cannot be done, ValueError or TypeError if the returned object is not such a model.
        """
        raise Unsupported(f"custom models: {NOT_YET}")

    def parameter_gradients(self, images: Images, labels: Labels) -> dict[str, Floats]:
        """Return the gradient of the batch's mean loss for every trained parameter of a custom model, in training mode.

        Names and layouts are the framework's own. Weights, running statistics and the optimizer stay unchanged. Masks
        are drawn anew for each call.
        """
        raise Unsupported(f"gradients of custom models: {NOT_YET}")

    def memory(self) -> dict[str, Count]:
        """Return bytes for every one of MEMORY_KINDS, or the reason why the framework does not report them."""
        return dict.fromkeys(MEMORY_KINDS, f"memory counts: {NOT_YET}")

    def count_memory(self, folder: Path) -> None:  # noqa: B027  # by default nothing must count so early
        """Start the counters that must run from the beginning; called before open, and only if `memory_use` will be
        called.

        Files that the framework writes meanwhile go into `folder`. Raises Unsupported(reason) if the framework does not
        report memory in use.
        """

    def memory_use(self, order: Order, part: int | None = None) -> MemoryUse:
        """Train on the batches of `order` (steps, batch) as `train` does, after such steps were made before. Memory in
        use between forward and backward is that of one part.

        Raises Unsupported(reason) if the framework does not report it. Nothing is timed here or afterwards.
        """
        raise Unsupported(f"memory in use: {NOT_YET}")


def take_snapshot(adapter: Adapter) -> Callable[[], None] | None:
    """Return the adapter's `snapshot`; None if its class has inherited that.

    A subclass may keep state that the inherited verb does not know.
    """
    return adapter.snapshot() if "snapshot" in vars(type(adapter)) else None


class SourceVerbs(ABC):
    """Verbs of the module that a network was imported from. The worker makes them by
    `adapters.<framework>.source.make_source(adapter)`, and the adapter has built the module by `build_model`.

    Tensors have the framework's own names and layouts. Without this file, networks cannot be imported from a framework.
    """

    channels_first = False  # the layout of images, and of features that a Flatten makes of them

    @abstractmethod
    def maker(self, path: Path, function: str) -> Callable[[int], Any]:
        """Return what `build_model` takes, from the user's file. Raises what the file raises, ValueError."""

    @abstractmethod
    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return copies of everything trained, and of running statistics."""

    @abstractmethod
    def set_tensors(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Write these tensors into the module. Raises ValueError for a name that it does not have."""

    @abstractmethod
    def count_parameters(self) -> int:
        """Return the count of numbers that the module trains."""

    @abstractmethod
    def list_masks(self, images: Images) -> list[Mask]:
        """Return the layers that draw masks with a rate above 0, in the order of computation."""

    @abstractmethod
    def stop_masks(self) -> None:
        """Set the rate of every mask to 0."""

    @abstractmethod
    def keep_biased_variance(self, pixels: Mapping[str, int]) -> None:
        """Make running variances those of the contract; {name of its tensor: values of a channel in an image}."""

    @abstractmethod
    def differentiate(
        self, images: Images, labels: Labels, places: Sequence[str]
    ) -> tuple[float, dict[str, NDArray[Any]], dict[str, list[Floats]]]:
        """Return, in training mode: the loss, {name: its gradient}, {place: its module's output at each call}.

        Weights, running statistics and the optimizer stay unchanged. A module without one array as output is left out.
        """
