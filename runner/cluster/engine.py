"""What a sweep asks of an engine: where blocks run at the same time, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runner.cluster.block import Block
from runner.cluster.ship import Parcel


class EngineUnavailable(Exception):
    """No engine can be had as asked for; the message is one line: why, what to do."""


@dataclass(frozen=True)
class Wanted:
    """What a block has to itself while it runs."""

    threads: int
    gpus: int = 0


@dataclass(frozen=True)
class Over:
    """Nothing more comes of a block; `reason` says what ended it, None where that was its own end."""

    reason: str | None = None


class Engine(Protocol):
    """Carry blocks to machines, and their trials back."""

    def slots(self) -> int:
        """How many blocks can run at the same time just now, at least one."""

    def submit(self, block: Block) -> None:
        """Hand it out; it waits where nothing is free."""

    def arrival(self) -> tuple[Block, Parcel | Over]:
        """The next thing that comes of any block that was handed out; blocks until there is one."""

    def close(self) -> None:
        """Ends whatever still runs."""
