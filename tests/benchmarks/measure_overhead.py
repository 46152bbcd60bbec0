"""Measure the cost of the sampler and the events: the same work in turn with and without them, one process per cell.

python tests/benchmarks/measure_overhead.py [--framework NAME ...] [--batch-size N ...] [--pairs N]

Prints, per framework and batch size, images/s with the instruments divided by images/s without. It is the geometric
mean over the pairs with its 95 % interval by Student's t. Exit code 1 where a cell is over the bar. Pairs in which
other processes took more than 10 % of the cores are left out, unless fewer than three remain.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from conftest import PROJECT, REAL_FRAMEWORKS  # noqa: E402

from runner.environments.definition import read  # noqa: E402
from runner.launch import Local, open_sampler, watch  # noqa: E402
from runner.machine.description import count_cores  # noqa: E402
from workloads.records.job import Placement  # noqa: E402
from workloads.statistics import mean_interval  # noqa: E402

DISTURBED_PERCENT = 10.0
LARGE_BATCH, BAR_PERCENT, BAR_BELOW_PERCENT, SAMPLER_BAR_PERCENT = 64, 99, 98, 5

Pairs = list[dict[str, dict[str, float]]]


def timed(framework: str, batch_size: int, pairs: int) -> Pairs:
    """Return what timed_overhead.py prints."""
    environment = read(PROJECT, framework, "cpu")
    launcher = Local(str(environment.interpreter), environment.variables, PROJECT)
    placement = Placement("cpu", count_cores(), {})
    script = Path(__file__).with_name("timed_overhead.py")
    with TemporaryDirectory() as folder, open_sampler(PROJECT, Path(folder), placement) as sampling:
        words = (ROOT, framework, batch_size, pairs, count_cores(), sampling.pid, folder)
        worker = subprocess.Popen(
            [environment.interpreter, script, *map(str, words)],
            env=launcher.environment(placement), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        watch(sampling, worker.pid)
        told, errors = worker.communicate()
    if worker.returncode:
        raise SystemExit(f"{framework}, batch size {batch_size}: {errors[-2000:]}")
    measured: Pairs = json.loads(told.splitlines()[-1])
    return measured


def disturbance(pair: dict[str, dict[str, float]]) -> float:
    """Foreign CPU in %, the larger of the two, so that the choice favours neither kind."""
    return max(stretch["foreign_cpu_percent"] for stretch in pair.values())


def main(words: list[str]) -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--framework", nargs="+", default=list(REAL_FRAMEWORKS), choices=REAL_FRAMEWORKS)
    parser.add_argument("--batch-size", nargs="+", type=int, default=[32, 128])
    parser.add_argument("--pairs", type=int, default=200)
    options = parser.parse_args(words)
    if options.pairs < 3:
        parser.error("--pairs: must be 3 or more, for an interval")
    table = Table(
        "framework", "batch", "pairs", "speed, % [95 %]", "bar, %", "verdict", "sampler, % of a core", box=None
    )
    over = False
    cells = [(framework, size) for framework in options.framework for size in options.batch_size]
    for framework, size in track(cells, console=Console(stderr=True)):
        pairs = timed(framework, size, options.pairs)
        used = [pair for pair in pairs if disturbance(pair) <= DISTURBED_PERCENT]
        used = used if len(used) >= 3 else pairs
        logarithms = [math.log(pair["with"]["images_per_s"] / pair["without"]["images_per_s"]) for pair in used]
        ratio, low, high = (100 * math.exp(value) for value in mean_interval(logarithms))
        core = 100 * sum(p["with"]["sampler_cpu_s"] for p in used) / sum(p["with"]["wall_s"] for p in used)
        bar = BAR_PERCENT if size >= LARGE_BATCH else BAR_BELOW_PERCENT
        verdict = "over the bar" if high < bar else "within the bar" if low >= bar else "uncertain"
        over |= high < bar or core > SAMPLER_BAR_PERCENT
        table.add_row(framework, str(size), f"{len(used)} of {len(pairs)}", f"{ratio:.2f} [{low:.2f}, {high:.2f}]",
                      str(bar), verdict, f"{core:.2f}")  # fmt: skip
    Console(width=150).print(table)
    return int(over)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
