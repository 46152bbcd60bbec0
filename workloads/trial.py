"""One trial: what is asked of a worker (`TrialSpec`) and what came of it (`TrialResult`), as JSON."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from .spec import OptimizerSpec

SCHEMA_VERSION = 3

TRIAL_FILE = "trial.json"
EVENTS_FILE = "events.jsonl"
SAMPLES_FILE = "samples.csv"
DRIVER_SAMPLES_FILE = "driver_samples.csv"
METER_FILE = "meter.json"
LOG_FILE = "log.txt"
RESULT_FILE = "result.json"


class Word(str, Enum):  # noqa: UP042
    """A string with a fixed set of values; enum.StrEnum is not in the Python 3.10 of NVIDIA's MXNet image."""

    __str__ = str.__str__


class Status(Word):
    """How a trial ended. `ok` enters the tables; every other status carries a reason.

    What `diverged` was measured whole, but a loss was no number: its speed and memory are shown with a mark, its
    accuracy is not.
    """

    OK = "ok"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported"
    CONTENDED = "contended"
    UNVERIFIED = "unverified"
    DIVERGED = "diverged"


FINDINGS = (Status.OK, Status.OUT_OF_MEMORY, Status.DIVERGED)  # what was asked has an answer: not tried again


class Event(Word):
    """What the worker writes to events.jsonl, in this order; each with `t_ns` of the monotonic clock."""

    STARTED = "started"
    IMPORTED = "imported"
    OPENED = "opened"
    CONTEXT_SAMPLED = "context_sampled"  # on a GPU: the sampler has had time to see the bare context's memory
    LOADED = "loaded"
    PROBED = "probed"  # and finished: the gate's worker does nothing else
    MEMORY_TOLD = "memory_told"  # of one batch size, after `built`: by the memory worker, which does nothing else
    BUILT = "built"
    FIRST_STEP = "first_step"
    WARMED_UP = "warmed_up"
    EPOCH_TRAINED = "epoch_trained"
    EPOCH_EVALUATED = "epoch_evaluated"
    WINDOW_STARTED = "window_started"
    WINDOW_ENDED = "window_ended"
    FINISHED = "finished"  # everything that is timed or sampled has been; what comes behind it is optional
    ALLOCATOR_COUNTED = "allocator_counted"  # the framework's bytes by kind, or the reason why there are none
    HOST_COUNTED = "host_counted"  # the kernel's
    WINDOW_SETTLED = "window_settled"  # right behind `finished`: how long weights were waited for, twice
    END_PROBED = "end_probed"  # the last: the gate's second probe; what it saved is in the trial's folder
    ENDED = "ended"  # not finished: carries status and reason


Events = list[dict[str, Any]]
Count = int | str  # bytes, or the reason why they are unknown

DIVERGED_STEP = "diverged_step"  # the figure; null where every loss is a number

# What a framework's allocator holds while it trains; together they are its peak.
MEMORY_PARTS = (
    "parameters",
    "statistics",  # BatchNorm's
    "gradients",
    "optimizer",
    "dataset",  # the training split, where the feed keeps it on the device
    "inputs",  # one batch
    "activations",  # beyond all these, in use between forward and backward
    "workspace",  # temporaries, and what the framework keeps for them
)


@dataclass(frozen=True)
class InputFile:
    """A file below the results folder, and the sha256 it must have."""

    path: str
    sha256: str


@dataclass(frozen=True)
class TrialSpec:
    """Everything a worker is told. `id` is derived from all fields that can change a figure."""

    study: str
    workload: str
    dataset: str
    framework: str
    batch_size: int
    epochs: int  # 0: nothing but the gate's probe
    repeat: int
    seed: int
    optimizer: OptimizerSpec
    last_batch: str  # "keep" | "drop"
    profile: str  # "default"; the referee has "float64" too
    feed: str  # "host" | "device"
    allocator: str  # "on-demand": memory is taken as it is needed | "default": as the framework does by itself
    device: str  # "cpu" or the UUID of a GPU
    threads: int
    window_s: float
    timeout_s: float
    isolation: str  # "venv" | "docker" | "here"
    environment: str  # digest of the environment's definition, or of the image or interpreter in use
    variables: dict[str, str]  # the caller's that can change a figure: runner.machine.deciding_variables
    inputs: dict[str, InputFile]  # train_images, train_labels, test_images, test_labels, order, weights
    memory_limit_bytes: int | None = None  # of the worker's container

    @property
    def device_kind(self) -> str:
        return "cpu" if self.device == "cpu" else "cuda"

    @cached_property
    def id(self) -> str:
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        for irrelevant in ("study", "timeout_s"):
            del told[irrelevant]
        if self.memory_limit_bytes is None:
            del told["memory_limit_bytes"]
        told["optimizer"] = asdict(self.optimizer)
        told["inputs"] = {name: file.sha256 for name, file in self.inputs.items()}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.framework}-{self.device_kind}-b{self.batch_size:05d}-r{self.repeat}-{digest}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> TrialSpec:
        return TrialSpec(
            **{
                **data,
                "optimizer": OptimizerSpec(**data["optimizer"]),
                "inputs": {name: InputFile(**file) for name, file in data["inputs"].items()},
            }
        )


class Method(Word):
    """How a figure was counted, where nobody can judge it without knowing that."""

    CHUNKS = "chunks"  # the allocator's chunks, each up to twice what was asked for, and others in the next run


@dataclass(frozen=True)
class Figure:
    """One measured number; its unit is in its name. Unknown is None with a reason, never 0."""

    value: float | None
    source: str
    samples: int | None = None
    reason: str | None = None
    method: Method | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a figure has either a value or the reason why it has none")

    @staticmethod
    def from_json(data: dict[str, Any]) -> Figure:
        """Raises ValueError for a method that there is not, TypeError for a field too many or too few."""
        method = data.get("method")
        return Figure(**{**data, "method": None if method is None else Method(method)})


@dataclass(frozen=True)
class Check:
    """An identity that a result's own figures must satisfy."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Epoch:
    """One pass over the training split and the evaluation after it. A loss is None where it was not finite."""

    train_s: float
    steps: int
    images: int
    train_loss: float | None
    evaluate_s: float
    test_loss: float | None
    test_accuracy: float  # fraction, 0..1


@dataclass(frozen=True)
class TrialResult:
    """What one trial gave. Times in seconds; `phases_s` maps an event to the time since the one before."""

    spec: TrialSpec
    status: Status
    reason: str | None
    started_at: str
    wall_s: float
    phases_s: dict[str, float] = field(default_factory=dict)
    epochs: list[Epoch] = field(default_factory=list)
    first_losses: list[float | None] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)  # its framework's, for the gate: workloads.gate.Evidence
    end: dict[str, Any] = field(default_factory=dict)  # the gate's, of its own end: workloads.end_probe.TrialEnd
    figures: dict[str, Figure] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)  # the worker's: versions, settings
    machine: dict[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> TrialResult:
        """Raises ValueError for another schema version or a result that lacks or invents a field."""
        if not isinstance(data, dict):
            raise ValueError("not a trial result: no JSON object")
        if data.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"schema version {data.get('schema_version')}, this program reads {SCHEMA_VERSION}")
        data = {"end": {}, **data}  # stored before the gate looked at a trial's end
        unknown = set(data) ^ {f.name for f in fields(TrialResult)}
        if unknown:
            raise ValueError(f"fields missing or unknown: {sorted(unknown)}")
        try:
            return TrialResult(
                **{
                    **data,
                    "spec": TrialSpec.from_json(data["spec"]),
                    "status": Status(data["status"]),
                    "epochs": [Epoch(**epoch) for epoch in data["epochs"]],
                    "figures": {name: Figure.from_json(figure) for name, figure in data["figures"].items()},
                    "checks": [Check(**check) for check in data["checks"]],
                }
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a trial result: {error}") from error


def read_events(path: Path) -> Events:
    """The worker's events; a line that a kill cut short is left out."""
    events: Events = []
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return events


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Atomically: a reader sees the old file or the whole new one. JSON has no NaN or infinity: they become null."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(without_nan(data), file, indent=1, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def without_nan(value: Any) -> Any:
    """The same data with None for every NaN and infinity."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and value - value != 0:  # NaN and the infinities
        return None
    return value
