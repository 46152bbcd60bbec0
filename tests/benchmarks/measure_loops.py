"""Measure the speed of our worker compared with the loops that people write, in fresh processes, in turn.

python tests/benchmarks/measure_loops.py [--framework NAME ...] [--batch-size N ...] [--rounds N] [--seconds S]
    [--beside LOOP ...] [--settings] [--against ROOT] [--with SETTING ...] [--neighbour]

Prints, per framework and batch size, images/s and page faults per step (medians over the rounds) and ratios. A ratio is
the mean of the rounds' logarithms with its 95 % interval by Student's t. Our worker in profile default is compared with
the guide's loop by hand and with the trainers that people use. It is also compared with the guide's loop with the
guide's own data pipeline (guide-feed). In profile tuned it is compared with the best loop found by hand. `--beside`:
profile default is compared with these loops alone. `--settings`: the guide's loop with each setting of tuned alone, and
with all of them, is compared with itself without. The best loop with each setting that tuned leaves out is compared
with itself. `--against ROOT`: our worker is compared with that of another checkout. `--with SETTING`: our worker with
one more setting is compared with itself, in both profiles. A setting is NAME=VALUE of its environment or a precision.
`--neighbour`: meanwhile a process that only computes has one of the cores. Exit code 1 where losses differ, or where
our worker's ratio to a loop by hand, of either feed, is below BAR with all of its interval.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
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
from runner.machine.description import count_cores  # noqa: E402
from workloads.records.build import DEFAULT, FLOAT32, PRECISIONS, TUNED  # noqa: E402
from workloads.records.job import Placement  # noqa: E402
from workloads.statistics import mean_interval  # noqa: E402

BAR, SAME_LOSSES = 0.98, 1e-3
BY_HAND, GUIDE_FEED, OTHER = "by-hand", "guide-feed", "other-checkout"
VARIABLES = "variables"  # this setting means those of [profile.tuned]
SETTINGS = {
    "pytorch": ("channels-last", "fused", VARIABLES),
    "tensorflow": ("steps-in-a-loop", VARIABLES),
    "mxnet": ("one-graph", "static", VARIABLES),
    "jax": ("steps-in-a-loop",),
}
NOT_TUNED = {"pytorch": ("compiled",), "tensorflow": ("xla",)}  # settings that tuned does without
# They report the mean loss. JAX and PaddlePaddle are measured without a trainer.
TRAINERS = {
    "pytorch": ("lightning",),
    "tensorflow": ("fit",),
    "mxnet": ("estimator",),
    "keras_jax": ("fit",),
    "keras_torch": ("fit",),
}
FED = ("pytorch", "tensorflow", "mxnet", "paddle")  # JAX has no data pipeline, Keras' is that of `fit`
FRAMEWORKS = (*REAL_FRAMEWORKS, "jax", "keras_jax", "keras_torch", "paddle")
# A trainer that does not come with its framework is installed in a separate folder, next to the framework's
# environment.
PACKAGES = {"lightning": Path(__file__).with_name("requirements-lightning.txt")}

TOLD = ("images_per_s", "page_faults_per_step")  # columns of each loop in the table
Told = dict[str, Any]
Pair = tuple[str, str]  # loops: the first's speed is compared with the second's


def best(framework: str) -> str:
    """Return the name of the loop with all settings."""
    return "+".join((BY_HAND, *SETTINGS[framework]))


def pairs_of(framework: str, options: argparse.Namespace) -> list[Pair]:
    """List the pairs of loops to compare."""
    if options.against:
        return [(DEFAULT, OTHER)]
    if options.more:
        profiles: tuple[str, ...] = (DEFAULT, TUNED)
        return [(f"{profile}+{each}", profile) for profile in profiles for each in options.more]
    if options.settings:
        alone = [(f"{BY_HAND}+{each}", BY_HAND) for each in SETTINGS[framework]]
        more = [(f"{best(framework)}+{each}", best(framework)) for each in NOT_TUNED.get(framework, ())]
        return [*alone, (best(framework), BY_HAND), *more]
    usual: str = DEFAULT
    if options.beside:
        return [(usual, each) for each in options.beside]
    feeds = (GUIDE_FEED,) if framework in FED else ()
    others = (BY_HAND, *feeds, *TRAINERS.get(framework, ()))
    return [(usual, each) for each in others] + ([(TUNED, best(framework))] if framework in SETTINGS else [])


def packages_of(loop: str) -> Path | None:
    """Return the folder of the packages that a loop needs more than its framework; None if it needs none. The folder is
    made once for each version of the list."""
    if loop not in PACKAGES:
        return None
    wanted = PACKAGES[loop]
    folder = ROOT / ".envs" / f"{loop}-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:8]}"
    if not folder.exists():
        made = folder.with_suffix(".part")
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--no-deps",
            "--target",
            str(made),
        ]
        subprocess.run([*pip, "-r", str(wanted)], check=True)
        made.rename(folder)
    return folder


def timed(framework: str, loop: str, batch_size: int, options: argparse.Namespace) -> Told:
    """Return what timed_loop.py prints."""
    environment = read(PROJECT, framework, "cpu")
    launcher = Local(str(environment.interpreter), environment.variables, PROJECT, {}, environment.profile_variables)
    root, name = (options.against, DEFAULT) if loop == OTHER else (ROOT, loop)
    profile = TUNED if loop.startswith(TUNED) or VARIABLES in loop.split("+") else DEFAULT
    precision, variables = FLOAT32, {}
    if loop.startswith((TUNED, DEFAULT)):
        name, _, more = loop.partition("+")
        variable, equals, value = more.partition("=")
        variables = {variable: value} if equals else {}
        precision = more if more in PRECISIONS else FLOAT32
    if packages := packages_of(loop):
        variables = {"PYTHONPATH": str(packages)}
    words = (root, framework, name, precision, batch_size, options.seconds, count_cores())
    done = subprocess.run(
        [environment.interpreter, Path(__file__).with_name("timed_loop.py"), *map(str, words)],
        env=launcher.environment(Placement("cpu", count_cores(), {}), profile) | variables,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{framework}, {loop}, batch size {batch_size}: {done.stderr[-2000:]}")
    told: Told = json.loads(done.stdout.splitlines()[-1])
    return told


def in_turn(
    framework: str, loops: Iterable[str], batch_size: int, options: argparse.Namespace
) -> list[dict[str, Told]]:
    """Return for each round {loop: what it printed}; every round begins with another loop."""
    names, rounds = list(dict.fromkeys(loops)), []
    for _ in range(options.rounds):
        rounds.append({name: timed(framework, name, batch_size, options) for name in names})
        names = [*names[1:], names[0]]
    return rounds


@contextmanager
def neighbour() -> Iterator[None]:
    """Start a process that computes on the last core."""
    computing = subprocess.Popen(["taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), sys.executable, "-c",
                                  "while True: pass"])  # fmt: skip
    try:
        yield
    finally:
        computing.kill()
        computing.wait()


def ratio(rounds: list[dict[str, Told]], pair: Pair) -> tuple[float, float, float]:
    """(mean, low, high) of the first's speed divided by the second's."""
    ours, theirs = ([each[loop]["images_per_s"] for each in rounds] for loop in pair)
    return tuple(map(math.exp, mean_interval([math.log(a / b) for a, b in zip(ours, theirs, strict=True)])))  # type: ignore[return-value]


def differ(pair: Pair, told: dict[str, Told]) -> bool:
    """True if both have the same precision and their losses differ."""
    if pair[0].rpartition("+")[2] in PRECISIONS:
        return False
    ours, theirs = (told[loop]["losses"] for loop in pair)
    return not np.allclose(theirs, ours if len(theirs) == len(ours) else np.mean(ours), rtol=SAME_LOSSES)


def main(words: list[str]) -> int:
    """Measure and print the table; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--framework", nargs="+", default=list(REAL_FRAMEWORKS), choices=FRAMEWORKS)
    parser.add_argument("--batch-size", nargs="+", type=int, default=[4, 32, 128, 1024])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--beside", nargs="+", choices=(BY_HAND, GUIDE_FEED))
    parser.add_argument("--settings", action="store_true")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--with", dest="more", nargs="+", metavar="SETTING")
    parser.add_argument("--neighbour", action="store_true")
    options = parser.parse_args(words)
    for word in options.more or ():
        if "=" not in word and word not in PRECISIONS:
            parser.error(f"--with {word}: give NAME=VALUE, or one of {', '.join(PRECISIONS)}")
    columns = ("framework", "batch", "loop", "images/s", "faults", "beside", "images/s", "faults", "ratio [95 %]", "")
    table = Table(*columns, box=None)
    console, failed = Console(width=150), False
    cells = [(framework, size) for framework in options.framework for size in options.batch_size]
    for framework, size in track(cells, console=Console(stderr=True)):
        pairs = pairs_of(framework, options)
        with neighbour() if options.neighbour else nullcontext():
            rounds = in_turn(framework, (loop for pair in pairs for loop in pair), size, options)
        for pair in pairs:
            mean, low, high = ratio(rounds, pair)
            below = pair[1].startswith((BY_HAND, GUIDE_FEED)) and not (options.settings or options.more) and high < BAR
            wrong = differ(pair, rounds[0])
            failed |= below or wrong
            (speed, faults), (other_speed, other_faults) = (
                [f"{statistics.median(each[loop][name] for each in rounds):,.0f}" for name in TOLD] for loop in pair
            )
            verdict = "; ".join(["below the bar"] * below + ["other losses"] * wrong)
            ours, theirs = (pair[0], speed, faults), (pair[1], other_speed, other_faults)
            told = (*ours, *theirs, f"{mean:.3f} [{low:.3f}, {high:.3f}]", verdict)
            table.add_row(framework, str(size), *told)
            print(framework, size, *told, file=sys.stderr, flush=True)  # known also where the rest is broken off
    console.print(table)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
