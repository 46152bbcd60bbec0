"""Define what a sweep needs of an engine: where blocks run at the same time, and how they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runner.cluster.ship import Parcel
from runner.request.block import Block


class EngineUnavailable(Exception):
    """The requested engine is not available; the message is one line: why, and what to do."""


@dataclass(frozen=True)
class Wanted:
    """Resources reserved for a block while it runs."""

    threads: int
    gpus: int = 0


@dataclass(frozen=True)
class Over:
    """End of a block; nothing more arrives from it. `reason` says what ended it, None if it finished."""

    reason: str | None = None


class Engine(Protocol):
    """Carry blocks to machines, and their trials back."""

    def slots(self) -> int:
        """Return how many blocks can run at the same time at present, at least one."""

    def submit(self, block: Block) -> None:
        """Hand out the block; it waits where nothing is free."""

    def arrival(self) -> tuple[Block, Parcel | Over]:
        """Return the next arrival from any block that was handed out; blocks until there is one."""

    def close(self) -> None:
        """End all running blocks."""
