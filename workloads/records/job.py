"""The jobs of a worker, as JSON: one trial, or a question about several trials at once."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from ..spec import OptimizerSpec
from .build import FLOAT32, MARK, Column, column_of
from .network import OwnCode
from .record import Record, Word

Fit = Literal["stretch", "crop", "pad"]  # how an image is brought to a size, by interpolation
FITS: tuple[Fit, ...] = get_args(Fit)
AS_PUBLISHED: Literal[""] = ""  # in place of a Fit: nothing is interpolated, as `datasets.fit` brings images to a size
PixelRange = tuple[float, float]  # values of an image's file that become 0 and 255
ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")  # a trial's folder; no separator, so it cannot leave its parent folder
OF_THE_CALLER = "python"  # the isolation of a build that runs in an interpreter the caller names
# Changes to the training images: new ones in each epoch, or one more copy of all, made by the runner before training.
AugmentName = Literal["none", "flip-crop", "copy", "zoom-copy"]
AUGMENTATIONS: tuple[AugmentName, ...] = get_args(AugmentName)
ANEW: tuple[AugmentName, ...] = ("flip-crop",)
Initial = Literal["source", "drawn"]  # first weights: an imported model's own, or drawn from the seed
OWN, DRAWN = get_args(Initial)
RATES, AUGMENTATION = "rates", "augmentation"  # inputs that not every trial has
TEST_LABELS = "test_labels"  # the input that the runner alone reads
ANY_GPU = "cuda"  # a trial's device in a sweep: the GPU that it is assigned where it runs
DERIVED = {"derived": True}  # marks a field that follows from others: no id counts it
ON_DEMAND, AS_BY_ITSELF = "on-demand", "default"  # memory is taken as it is needed | as the framework does by default


@dataclass(frozen=True)
class InputFile:
    """A file below the results folder, and the sha256 it must have."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Cell:
    """The setting that a table compares."""

    framework: str  # name of its column: `records.build`
    batch_size: int
    allocator: str  # ON_DEMAND | AS_BY_ITSELF

    @property
    def column(self) -> Column:
        """The build and mode that its name means."""
        return column_of(self.framework)


@dataclass(frozen=True)
class ImageFindings:
    """Numbers of images that are identical by their stored pixels, lost contrast or are dim, found while decoding."""

    tested_on_trained: int  # test images identical to a training image
    two_labels: int  # images of both splits, identical to one of another class
    repeated_train: int  # training images identical to an earlier one
    repeated_test: int
    faded: int  # images of both splits that lost nearly all of the contrast that their files have
    dim: int = 0  # all images, if their highest value is below an eighth of white; else none


@dataclass(frozen=True)
class ImageSource:
    """Record of how the images were prepared before any worker saw them."""

    content: str  # digest of a custom data set, its images and their classes; "" for a published one
    rows: int  # size of the images as they are stored
    columns: int
    enlarged: bool  # by the network's first layer, on the device: the network's input is larger
    fit: str  # a Fit, or AS_PUBLISHED
    train: int  # images
    test: int
    drawn_test: bool  # a share of each class, drawn by the runner because there was no test split
    skipped: int  # images that could not be decoded
    pixel_range: PixelRange | None = None  # None: the range of the file's type
    test_folder: str = ""  # the folder that is the test split, if it is not test/
    # None: not examined. It follows from `content`, so neither an id nor a condition counts it.
    findings: ImageFindings | None = field(default=None, compare=False, metadata=DERIVED)


@dataclass(frozen=True)
class Task:
    """The computation of a step, and the source of its images."""

    workload: str
    dataset: str
    optimizer: OptimizerSpec
    profile: str  # of build.PROFILES
    feed: str  # "host" | "device"
    network: str = ""  # digest of the workload as JSON; none for custom code
    source: ImageSource | None = None  # None for a published data set as the catalogue brings it to the network
    own_code: OwnCode | None = None  # in place of a network: compared with nothing
    augment: str = "none"  # of AUGMENTATIONS
    accumulate: int = 1  # parts, each of `Cell.batch_size` images, whose gradients make one update
    precision: str = FLOAT32  # of build.PRECISIONS; the referee also has FLOAT64
    initial: str = DRAWN  # an `Initial`
    deterministic: bool = False  # with the framework's own switch for it


@dataclass(frozen=True)
class Passes:
    """The passes of a trial through the training split."""

    epochs: int
    last_batch: str  # "keep" | "drop"


@dataclass(frozen=True)
class Placement:
    """The device a trial runs on, and the resources it may use there."""

    device: str  # "cpu", the UUID of a GPU, or ANY_GPU
    threads: int
    variables: dict[str, str] = field(hash=False)  # the caller's: runner.machine.description.list_deciding_variables
    memory_limit_bytes: int | None = None  # of the worker's container or control group, or of its data segment
    control_group: bool = False  # True if a local worker's limit is that of its own control group
    # Devices that train one model in data parallel, each on `Cell.batch_size` images; on a CPU, parts of the threads.
    devices: int = 1
    others: tuple[str, ...] = ()  # UUIDs of the GPUs besides `device`

    @property
    def device_kind(self) -> str:
        """Return "cpu" or "cuda"."""
        return "cpu" if self.device == "cpu" else "cuda"

    @property
    def device_threads(self) -> int:
        """Threads of each device: at least one, so more devices than threads share cores."""
        return max(1, self.threads // self.devices)

    @property
    def first(self) -> Placement:
        """The same placement with its first device only."""
        return replace(self, devices=1, others=())


@dataclass(frozen=True)
class Installation:
    """The environment that the framework is started from."""

    isolation: str  # "venv" | "docker" | "here" | OF_THE_CALLER
    environment: str  # digest of the environment's definition, or of the image or interpreter in use


@dataclass(frozen=True)
class Draw:
    """Random choices of a trial: initial weights, the order of the images, masks."""

    repeat: int
    seed: int

    @property
    def first_seed(self) -> int:
        """The seed of repeat 0, which all repeats share."""
        return self.seed - self.repeat


@dataclass(frozen=True)
class TrialSpec(Record):
    """One trial. `id` is derived from everything that can change a figure."""

    cell: Cell
    task: Task
    passes: Passes
    placement: Placement
    installation: Installation
    draw: Draw
    # train_ and test_ images and labels, order; network and weights, or model; RATES, of every step, where they differ;
    # AUGMENTATION, of every image and epoch, where there is any; for NOISE, `noise_scale.BATCHES` and `HELD`; for
    # BLOCKS, `blocks.TURNS`
    inputs: dict[str, InputFile]
    window_s: float
    timeout_s: float
    study: str
    cool_down_s: float = 0.0  # pause before the trial, in which nothing computes
    # Why an imported network is not compared with the model it comes from; "" if it is, or is none. It changes nothing.
    unproven: str = field(default="", compare=False, metadata=DERIVED)

    @cached_property
    def id(self) -> str:
        """Name of the trial's folder; its digest covers everything that may change a measurement."""
        *parts, window_s, cool_down_s = self.setting
        others = {"window_s": window_s} | ({"cool_down_s": cool_down_s} if cool_down_s else {})
        digest = _digest(*parts, self.draw, **others, inputs=_hashes(self.inputs))
        return f"{self._prefix}-b{self.cell.batch_size:05d}-r{self.draw.repeat}-{digest}"

    @property
    def part(self) -> int | None:
        """Images that go through the network at once if an update has several parts; None if it has one."""
        return self.cell.batch_size if self.task.accumulate > 1 else None

    @property
    def global_batch(self) -> int:
        """Number of images of an update."""
        return self.cell.batch_size * self.task.accumulate * self.placement.devices

    @property
    def probe_id(self) -> str:
        """Id shared by trials whose frameworks are probed alike: in parts or not, however many, on one device."""
        task = replace(self.task, accumulate=min(self.task.accumulate, 2))
        parts = (task, self.placement.first, self.installation, self.draw)
        probed = {name: file for name, file in self.inputs.items() if name != RATES}  # `evidence.probe_rates`
        return f"{self._prefix}-r{self.draw.repeat}-{_digest(*parts, inputs=_hashes(probed))}"

    @property
    def memory_id(self) -> str:
        """Id shared by trials that differ only in batch size and in settings that do not change the memory it takes."""
        return f"{self._prefix}-{_digest(self.task, self.placement, self.installation)}"

    @property
    def rule(self) -> OptimizerSpec:
        """The update rule at this number of images per update."""
        return self.task.optimizer.at(self.global_batch)

    @property
    def setting(self) -> tuple[Cell, Task, Passes, Placement, Installation, float, float]:
        """The settings that repeats share."""
        places = self.cell, self.task, self.passes, self.placement, self.installation
        return *places, self.window_s, self.cool_down_s

    @property
    def _prefix(self) -> str:
        return f"{self.cell.framework.replace(MARK, '-')}-{self.placement.device_kind}"


def _hashes(inputs: dict[str, InputFile]) -> dict[str, str]:
    return {name: file.sha256 for name, file in inputs.items()}


def _digest(*parts: Any, **others: Any) -> str:
    """Digest the fields that differ from their defaults, so that a new field with a default changes no id."""
    for part in parts:
        others |= _counted(part)
    text = json.dumps(others, sort_keys=True, default=_counted)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _counted(record: Any) -> dict[str, Any]:
    """Return {name: value} of a record's fields that differ from their defaults and follow from no other field."""
    values = {f.name: getattr(record, f.name) for f in fields(record) if "derived" not in f.metadata}
    defaults = {f.name: f.default for f in fields(record)}
    return {name: value for name, value in values.items() if value != defaults[name]}


class Kind(Word):
    """The kinds of work a worker does."""

    TRIAL = "trial"
    PROBE = "probe"  # gives the gate its evidence of a framework
    MEMORY = "memory"  # reports what memory holds, per batch size
    NOISE = "noise"  # measures gradients at fixed weights: which batch size is best for learning
    STEPS = "steps"  # a steady window at one batch size, no epochs: does it fit, and how fast is it
    BLOCKS = "blocks"  # blocks of steps of several batch sizes in turn: what one more image costs


ROOMS = {
    Kind.TRIAL: "trials",
    Kind.PROBE: "probes",
    Kind.MEMORY: "memory",
    Kind.NOISE: "noise",
    Kind.STEPS: "steps",
    Kind.BLOCKS: "blocks",
}


@dataclass(frozen=True)
class Job(Record):
    """The work of one worker. `trial` is the trial, or one of the trials that share the answer."""

    kind: Kind
    trial: TrialSpec
    batch_sizes: tuple[int, ...] = ()  # of MEMORY
    results: str = "../.."  # the results folder, relative to the job's folder: a container has both elsewhere

    @property
    def id(self) -> str:
        """Id of the trial, of the probe or of the memory steps: trials with the same id share its answer."""
        ids = {Kind.PROBE: self.trial.probe_id, Kind.MEMORY: self.trial.memory_id}
        return ids.get(self.kind, self.trial.id)

    def folder(self, results: Path) -> Path:
        """Absolute path of the job's folder, in the folder for its kind in `results`."""
        return (results / ROOMS[self.kind] / self.id).resolve()
