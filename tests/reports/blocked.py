"""Blocks of steps as a worker leaves them, with times from a formula: a known effect, drift and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from conftest import make_spec
from stored import MACHINE

from workloads.records.blocks import BLOCKS_FILE, TURNS, Block, Phase
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.job import InputFile, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status

IMAGE_S, STEPS = 1e-4, 20
BLOCK_SPREAD = 0.01
NOTHING: Mapping[int, float] = {}


def simulated(
    generator: np.random.Generator,
    group: Sequence[int] = (127, 128, 129),
    effects: Mapping[int, float] = NOTHING,
    rounds: int = 20,
    *,
    process_spread: float = 0.003,
    drift: float = 0.0,
) -> list[Block]:
    """Simulate the blocks of one process. `effects`: logarithm of how many times as fast a size is; a process varies
    from it by `process_spread`. `drift`: logarithm by which everything slows down from the first block to the last. One
    block in thirty takes half as long again."""
    blocks = []
    own = {size: effects.get(size, 0.0) + generator.normal(0, process_spread) for size in group}
    for phase in Phase:
        for number in range(rounds):
            for place, size in enumerate(generator.permutation(group).tolist()):
                late = (number + place / len(group)) / rounds
                log = generator.normal(0, BLOCK_SPREAD) - own[size] + drift * late + 0.4 * (generator.random() < 1 / 30)
                wall_s = IMAGE_S * (1 + 20 / size) * STEPS * size * float(np.exp(log))  # a step has a fixed cost
                blocks.append(Block(phase, number, size, STEPS, wall_s, 1.0))
    return blocks


def spec_of(framework: str, group: Sequence[int], process: int, **changes: object) -> TrialSpec:
    """The spec of one process of the group."""
    usual = {"framework": framework, "batch_size": max(group, key=lambda size: size & -size), "epochs": 0}
    spec = make_spec(**usual | {"dataset": "cifar10", "repeat": process, "seed": process} | changes)
    turns = InputFile(f"inputs/{framework}-{process}.npy", f"{process:064x}")
    return replace(spec, inputs={TURNS: turns})


def store(results: Path, spec: TrialSpec, blocks: Sequence[Block], status: Status = Status.OK, **facts: object) -> Path:
    """Store a trial's result and blocks as the runner does; return the folder."""
    folder = results / "blocks" / spec.id
    folder.mkdir(parents=True)
    reason = None if status is Status.OK else "made up"
    result = TrialResult(spec, status, reason, "2026-11-24T10:00:00+00:00", 9.0, facts=dict(facts), machine=MACHINE)
    write_json(folder / RESULT_FILE, result.to_json())
    write_json(folder / BLOCKS_FILE, {"blocks": [asdict(block) for block in blocks]})
    return folder


def study(
    results: Path,
    effects: Mapping[int, float],
    groups: Sequence[Sequence[int]] = ((127, 128, 129),),
    frameworks: Sequence[str] = ("pytorch",),
    processes: int = 6,
    **settings: float,
) -> Path:
    """Store processes of all groups and frameworks; return `results`."""
    generator = np.random.default_rng(7)
    for framework in frameworks:
        for group in groups:
            for process in range(processes):
                blocks = simulated(generator, group, effects, **settings)  # type: ignore[arg-type]
                store(results, spec_of(framework, group, process), blocks)
    return results
