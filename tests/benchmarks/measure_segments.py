"""Compare the speed of a steady window cut from epochs with that of one after them, in turn in one process.

python tests/benchmarks/measure_segments.py [--framework NAME ...] [--batch-size N ...] [--rounds N] [--seconds S]

Prints, per framework and batch size, images/s of both (medians), their ratio, and by how much the peaks of memory
differ (median). The ratio is the mean of the rounds' logarithms with its 95 % interval by Student's t.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from conftest import PROJECT, REAL_FRAMEWORKS  # noqa: E402

from runner.environments.definition import read  # noqa: E402
from runner.launch import Local  # noqa: E402
from runner.machine.description import count_cores  # noqa: E402
from workloads.records.job import Placement  # noqa: E402
from workloads.statistics import mean_interval  # noqa: E402

Rounds = list[dict[str, dict[str, float]]]


def timed(framework: str, batch_size: int, rounds: int, seconds: float) -> Rounds:
    """Return what timed_segments.py prints."""
    environment = read(PROJECT, framework, "cpu")
    launcher = Local(str(environment.interpreter), environment.variables, PROJECT)
    words = (ROOT, framework, batch_size, rounds, seconds, count_cores())
    done = subprocess.run(
        [environment.interpreter, Path(__file__).with_name("timed_segments.py"), *map(str, words)],
        env=launcher.environment(Placement("cpu", count_cores(), {})),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{framework}, batch size {batch_size}: {done.stderr[-2000:]}")
    told: Rounds = json.loads(done.stdout.splitlines()[-1])
    return told


def main(words: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--framework", nargs="+", default=list(REAL_FRAMEWORKS), choices=REAL_FRAMEWORKS)
    parser.add_argument("--batch-size", nargs="+", type=int, default=[4, 32, 128, 256])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args(words)
    table = Table("framework", "batch", "cut, images/s", "behind, images/s", "ratio [95 %]", "peak, MiB", box=None)
    cells = [(framework, size) for framework in options.framework for size in options.batch_size]
    for framework, size in track(cells, console=Console(stderr=True)):
        rounds = timed(framework, size, options.rounds, options.seconds)
        if not rounds:
            table.add_row(framework, str(size), "epochs are too short to be cut")
            continue
        cut, behind = ([each[name]["images_per_s"] for each in rounds] for name in ("cut", "behind"))
        mean, low, high = map(math.exp, mean_interval([math.log(a / b) for a, b in zip(cut, behind, strict=True)]))
        more = statistics.median(each["cut"]["peak_bytes"] - each["behind"]["peak_bytes"] for each in rounds)
        speeds = [f"{statistics.median(speed):,.0f}" for speed in (cut, behind)]
        table.add_row(framework, str(size), *speeds, f"{mean:.3f} [{low:.3f}, {high:.3f}]", f"{more / 2**20:+.1f}")
    Console(width=150).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
