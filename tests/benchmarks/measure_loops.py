"""How fast our worker is beside the loops that people write, in fresh processes, in turn.

python tests/benchmarks/measure_loops.py [--framework NAME ...] [--batch-size N ...] [--pairs N] [--seconds S]
    [--profile NAME ...] [--against ROOT]

Prints, per framework and batch size, images/s of each loop (median over the rounds) and our worker's over it: the mean
of the ratios' logarithms with its 95 % interval by Student's t. `--against ROOT`: the worker of another checkout is one
loop more. Exit code 1 where a ratio to "by-hand" is below BAR with all of its interval, or losses differ.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from conftest import PROJECT, REAL_FRAMEWORKS  # noqa: E402

from runner.environments.definition import read  # noqa: E402
from runner.launch import Local  # noqa: E402
from runner.machine.description import cores  # noqa: E402
from workloads.records.intervals import mean_interval  # noqa: E402
from workloads.records.job import Placement  # noqa: E402

BAR, BY_HAND, OTHER = 0.98, "by-hand", "other-checkout"
SAME_LOSSES = 1e-3
LOOPS = {"pytorch": (BY_HAND,), "tensorflow": (BY_HAND, "fit"), "mxnet": (BY_HAND,)}
MEAN_ONLY = {"fit"}  # loops that tell the mean of their losses

Told = dict[str, Any]


def timed(framework: str, loop: str, batch_size: int, seconds: float, root: Path) -> Told:
    """What timed_loop.py prints."""
    environment = read(PROJECT, framework, "cpu")
    profile = "default" if loop == OTHER else loop
    launcher = Local(str(environment.interpreter), environment.variables, PROJECT, {}, environment.profile_variables)
    words = (root, framework, profile, batch_size, seconds, cores())
    done = subprocess.run(
        [environment.interpreter, Path(__file__).with_name("timed_loop.py"), *map(str, words)],
        env=launcher.environment(Placement("cpu", cores(), {}), profile),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{framework}, {loop}, batch size {batch_size}: {done.stderr[-2000:]}")
    told: Told = json.loads(done.stdout.splitlines()[-1])
    return told


def differ(loop: str, losses: list[float], ours: list[float]) -> bool:
    """Whether a loop computes something else."""
    return not np.allclose(losses, np.mean(ours) if loop in MEAN_ONLY else ours, rtol=SAME_LOSSES)


def main(words: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--framework", nargs="+", default=list(REAL_FRAMEWORKS), choices=REAL_FRAMEWORKS)
    parser.add_argument("--batch-size", nargs="+", type=int, default=[4, 32, 128, 1024])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--profile", nargs="+", default=["default"])
    parser.add_argument("--against", type=Path)
    options = parser.parse_args(words)
    table, console, failed = (
        Table("framework", "batch", "ours", "beside", "images/s", "its", "ours / its"),
        Console(),
        False,
    )
    cells = [(framework, size) for framework in options.framework for size in options.batch_size]
    for framework, size in track(cells, console=Console(stderr=True)):
        others = (*LOOPS[framework], *((OTHER,) if options.against else ()))
        rounds: list[dict[str, Told]] = []
        for number in range(options.pairs):
            names = (*options.profile, *others)
            turn = number % len(names)
            rounds.append(
                {
                    name: timed(framework, name, size, options.seconds, options.against if name == OTHER else ROOT)
                    for name in (*names[turn:], *names[:turn])
                }
            )
        for profile in options.profile:
            for other in others:
                ratios = [math.log(each[profile]["images_per_s"] / each[other]["images_per_s"]) for each in rounds]
                mean, low, high = map(math.exp, mean_interval(ratios))
                wrong = differ(other, rounds[0][other]["losses"], rounds[0][profile]["losses"])
                below = other == BY_HAND and high < BAR
                failed |= wrong or below
                speeds = (statistics.median(each[name]["images_per_s"] for each in rounds) for name in (profile, other))
                told = f"{mean:.3f} [{low:.3f}, {high:.3f}]" + " below the bar" * below + " other losses" * wrong
                table.add_row(framework, str(size), profile, other, *(f"{each:,.0f}" for each in speeds), told)
    console.print(table)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
