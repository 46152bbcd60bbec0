"""What Slurm tells of a partition."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass

from runner.cluster.engine import EngineUnavailable, Wanted

SLURM = "slurm"
WORDS = 200  # characters of a reason that is Slurm's


@dataclass(frozen=True)
class Partition:
    """What Slurm tells of it. `slots`: blocks that its nodes can run at the same time."""

    slots: int
    limit_min: int | None  # of a job; None: there is none


def told_of(partition: str, wanted: Wanted) -> Partition:
    """Raises EngineUnavailable where it cannot run a block."""
    command = ["sinfo", "--noheader", "--Node", "--partition", partition, "--format", "%c|%l|%G"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except OSError as error:
        raise EngineUnavailable(f"--slurm {partition}: no Slurm here: {error.filename}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        raise EngineUnavailable(f"--slurm {partition}: sinfo: {in_a_line(error.stderr)}") from error
    nodes = [line.strip().split("|") for line in told.splitlines() if line.count("|") == 2]
    if not nodes:
        raise EngineUnavailable(f"--slurm {partition}: Slurm knows no such partition; sinfo lists them")
    slots = sum(min(cpus // wanted.threads, gpus if wanted.gpus else cpus) for cpus, gpus in map(room_of, nodes))
    if not slots:
        what = f"{wanted.threads} CPUs" + (" and a GPU" if wanted.gpus else "")
        raise EngineUnavailable(f"--slurm {partition}: no node has {what} for a trial: give --threads or --device")
    return Partition(slots, minutes(nodes[0][1]))


def room_of(node: list[str]) -> tuple[int, int]:
    """(CPUs, GPUs), of %c and %G: "64+", "gpu:a100:4(S:0-1),gpu:2"."""
    cpus = re.match(r"\d+", node[0])
    return int(cpus[0]) if cpus else 0, sum(map(int, re.findall(r"\bgpu(?::[^:,()]+)?:(\d+)", node[2])))


def minutes(limit: str) -> int | None:
    """Of %l: "infinite", "30:00", "1:30:00", "2-00:00:00"."""
    read = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    return (int(read[1] or 0) * 24 + int(read[2] or 0)) * 60 + int(read[3]) if read else None


def here(wanted: Wanted) -> Partition:
    """Of this machine's cores, in place of a partition."""
    return Partition(max(1, len(os.sched_getaffinity(0)) // wanted.threads), None)


def in_a_line(said: object) -> str:
    """The first that is more than white space."""
    lines = (line.strip() for line in str(said).splitlines())
    return next((line[:WORDS] for line in lines if line), type(said).__name__)
