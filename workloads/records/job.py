"""What is asked of a worker, as JSON."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from ..spec import OptimizerSpec


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
    variables: dict[str, str]  # the caller's that can change a figure: runner.machine.description.deciding_variables
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
