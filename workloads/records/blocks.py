"""Blocks of steps of several batch sizes, in turn within one process: the output of a worker of the kind `blocks`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .record import Word

BLOCKS_FILE = "blocks.json"
TURNS = "turns"  # the worker's input: (rounds, sizes), each row has every batch size of the group once, in its order


class Phase(Word):
    """Kind of steps in a block."""

    TRAINING = "training"
    EVALUATION = "evaluation"


@dataclass(frozen=True)
class Block:
    """One block, synchronised at both edges. `foreign_cpu_percent` is the share of the worker's cores that other
    processes used, to 10 ms per core; None if the kernel does not say.
    """

    phase: Phase
    round: int  # from 0
    batch_size: int
    steps: int
    wall_s: float
    foreign_cpu_percent: float | None

    @property
    def image_s(self) -> float:
        """Seconds per image."""
        return self.wall_s / (self.steps * self.batch_size)


def main_size(group: Sequence[int]) -> int:
    """Return the size with most factors of two, which names the group's processes."""
    return max(group, key=lambda size: (size & -size, size))


def read_blocks(path: Path) -> list[Block]:
    """Read the blocks in the order of measurement. Raises ValueError, one line, for a file that no worker wrote."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))["blocks"]
        blocks = [Block(**block | {"phase": Phase(block["phase"])}) for block in stored]
        if not blocks or not all(map(_possible, blocks)):
            raise ValueError("a block with impossible values")
    except OSError as error:
        raise ValueError(f"{path.name}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(" ".join(f"{path.name}: {type(error).__name__}: {error}".split())[:300]) from error
    return blocks


def _possible(block: Block) -> bool:
    """True if a worker can have measured this block. Raises TypeError if a value is not a number."""
    counts = (block.round + 1, block.batch_size, block.steps)
    counted = all(type(count) is int and 0 < count < 2**31 for count in counts)
    share = block.foreign_cpu_percent  # busy time comes in ticks, so it may be slightly below 0
    return counted and 1e-9 < block.wall_s < 1e9 and (share is None or -1e9 < share < 1e9)


def whole_rounds(blocks: list[Block], phase: Phase) -> list[dict[int, Block]]:
    """Return {batch size: its block} of each round of the phase. Raises ValueError for missing or repeated sizes."""
    rounds: dict[int, dict[int, Block]] = {}
    for block in (each for each in blocks if each.phase is phase):
        of_round = rounds.setdefault(block.round, {})
        if block.batch_size in of_round:
            raise ValueError(f"round {block.round} of {phase} has batch size {block.batch_size} twice")
        of_round[block.batch_size] = block
    if len({frozenset(of_round) for of_round in rounds.values()}) > 1:
        raise ValueError(f"the rounds of {phase} are of different batch sizes")
    return [rounds[number] for number in sorted(rounds)]
