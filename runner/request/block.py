"""Define blocks: the trials of one batch size and repeat over all frameworks, run on one machine.

Shards are every N-th block.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from workloads.records.build import DEFAULT, FLOAT32
from workloads.records.job import InputFile, TrialSpec
from workloads.records.record import Record

BLOCK_FILE = "block.json"


@dataclass(frozen=True)
class TrialBlock(Record):
    """Trials whose figures share one row or column of a table, so they meet the same machine.

    `commit` is that of the code that travels, because the copy on the node is no checkout. `number` counts the blocks
    that a sweep hands out: one with a trial that is tried again may begin like one that is still running.
    """

    trials: tuple[TrialSpec, ...]
    commit: str | None
    number: int = 0

    @property
    def name(self) -> str:
        """Name for people, shown in the engine's list of running blocks."""
        first = self.trials[0]
        frameworks = " ".join(spec.cell.framework for spec in self.trials)
        return f"{first.task.workload} b{first.cell.batch_size} r{first.draw.repeat}: {frameworks}"

    @property
    def on_gpu(self) -> bool:
        """True if its trials, one at a time, use a GPU."""
        return any(spec.placement.device != "cpu" for spec in self.trials)

    @property
    def threads(self) -> int:
        """Cores reserved for each of its trials, one at a time."""
        return max(spec.placement.threads for spec in self.trials)

    @property
    def inputs(self) -> dict[str, InputFile]:
        """Inputs of all its trials, by sha256."""
        return {file.sha256: file for spec in self.trials for file in spec.inputs.values()}


@dataclass(frozen=True)
class Shard:
    """A part of a plan: every `count`-th block, from the `number`-th on, counted from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def select(self, trials: Iterable[TrialSpec]) -> list[TrialSpec]:
        """Return the plan's trials that are in this shard, in their order."""
        chosen = build_blocks(trials, None)[self.number - 1 :: self.count]
        return [spec for block in chosen for spec in block.trials]


def parse_shard(text: str) -> Shard:
    """Return the shard that an argument I/N names. Raises ArgumentTypeError."""
    found = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N, e.g. 2/4")
    return Shard(int(found[1]), int(found[2]))


def build_blocks(trials: Iterable[TrialSpec], commit: str | None) -> list[TrialBlock]:
    """Group trials into blocks, in the order of the first trial of each."""
    together: dict[Any, list[TrialSpec]] = {}
    for spec in trials:
        task = replace(spec.task, profile=DEFAULT, precision=FLOAT32)
        key = task, spec.passes, spec.placement, spec.cell.batch_size, spec.cell.allocator, spec.draw
        together.setdefault(key, []).append(spec)
    return [TrialBlock(tuple(each), commit) for each in together.values()]
