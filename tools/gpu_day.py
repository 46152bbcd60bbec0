"""The first day on a card, as steps: python -m tools.gpu_day STEP... --out DIR [--isolation here | --python FILE].

Each step runs commands of the project one after another, each with a time limit. It leaves their output in
DIR/STEP/*.log, their results in DIR/STEP/*, and a line for each command in DIR/day.jsonl. A command that failed is a
finding: the next one runs. A repeated step continues from its results. `pack` makes one archive of
each step, in parts below the machine's limit for a file. Ten lines at the end summarise the day.
Of several cards one is used for the whole day: tools/gpu_card.py.

Steps, most important first: probe, one, gate, conformance, study, several, faults, tuned, batch-size,
neighbours, check, pack.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runner.machine.allotment import UnclearGpus
from runner.request.parser import BadInput
from tools.gpu_card import set_card
from tools.gpu_seen import describe
from workloads.command_line import CommandLine

ROOT = Path(__file__).resolve().parents[1]
PART_BYTES = 15 * 2**20
# What a rehearsal takes in place of a step's own.
QUICK = ("--workload", "tiny", "--dataset", "digits", "--window", "1", "--repeat", "1")
QUICK_EPOCHS = ("--epochs", "1", "--batch-size", "32", "256")  # blocks have none
# Holds all of a card's memory but so many GiB, and computes, until its input closes.
HOLD = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(max(0, free - int(float(sys.argv[1]) * 2**30)), dtype=torch.uint8, device="cuda")
print("ready", flush=True)
sys.stdin.read()
"""


@dataclass
class Day:
    """The folder that the steps write into, and how the runner is started."""

    out: Path
    framework: list[str]  # options: the framework, where it runs, on which device
    quick: bool  # a rehearsal: the fewest and smallest trials
    left_s: Callable[[], float]
    python: str = sys.executable  # with PyTorch, for the loads of the steps

    def command(self, step: str, name: str, limit_s: float, *words: str | Path) -> int:
        """Run a command with its output in a log, and write what came of it; returns its exit code."""
        folder = self.out / step
        folder.mkdir(parents=True, exist_ok=True)
        limit_s = min(limit_s, self.left_s())
        if limit_s <= 0:
            self.say(step, name, None, 0.0, "no time left")
            return 1
        started_s = time.monotonic()
        with (folder / f"{name}.log").open("ab") as log:
            try:
                process = subprocess.Popen([*map(str, words)], stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
            except OSError as error:
                self.say(step, name, error.errno, 0.0, str(error))
                return 1
            try:
                code: int | None = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                code = None
        last = (folder / f"{name}.log").read_text(errors="replace").strip().splitlines()[-1:]
        self.say(step, name, code, time.monotonic() - started_s, *last)
        return 1 if code is None else code

    def run(self, step: str, name: str, limit_s: float, *options: str | Path) -> int:
        """Run the runner with its results in the step's folder."""
        results = self.out / step / name
        if self.quick:
            options = replace_options(options, (*QUICK, *(() if "--blocks" in options else QUICK_EPOCHS)))
        return self.command(
            step, name, limit_s, sys.executable, "-m", "runner", *self.framework, "--results", results, *options
        )

    def say(self, step: str, name: str, code: int | None, seconds: float, last: str = "") -> None:
        """Write a line of day.jsonl, and print it."""
        line: dict[str, Any] = {"step": step, "command": name, "exit": code, "seconds": round(seconds, 1), "last": last}
        with (self.out / "day.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{step} {name}: exit {code} in {seconds:.0f} s: {last}", flush=True)


def replace_options(options: Sequence[str | Path], others: Sequence[str]) -> tuple[str | Path, ...]:
    """Return the options with these others in place of their own values: a list option is given once."""
    kept: list[str | Path] = []
    replaced = False
    for word in options:
        replaced = word in others if str(word).startswith("--") else replaced
        kept += () if replaced else (word,)
    return (*kept, *others)


def probe(day: Day) -> None:
    """Ask the driver everything, and record a trace of the card under a known load."""
    day.command("probe", "nvidia-smi", 20, "nvidia-smi", "-q")
    day.command("probe", "topology", 20, "nvidia-smi", "topo", "-m")
    day.command("probe", "calls", 120, sys.executable, "-m", "tools.gpu_probe", day.out / "probe",
                "--scale", "0.2" if day.quick else "1", "--python", day.python)  # fmt: skip
    day.command("probe", "doctor", 60, sys.executable, "-m", "runner", "doctor")


def one(day: Day) -> None:
    """Measure the thesis' network, and ResNet-18, over batch sizes with repeats."""
    dataset, window = ("digits", "1") if day.quick else ("synthetic", "5")
    usual = ("--dataset", dataset, "--epochs", "1", "--window", window)
    repeat = "1" if day.quick else "3"
    sizes = ("32", "256") if day.quick else ("32", "256", "1024", "4096")
    day.run("one", "osu-cnn", 240, *usual, "--batch-size", *sizes, "--repeat", repeat)
    if not day.quick:
        day.run("one", "resnet-18", 300, *usual, "--workload", "resnet-18", "--batch-size", *sizes, "--repeat", repeat)


def gate(day: Day) -> None:
    """Train in every precision of a card: the differences to the referee, layer by layer, are in each result."""
    precisions = ("float32",) if day.quick else ("float32", "tf32", "bfloat16", "float16")
    trained = () if day.quick else ("--workload", "vgg-11", "--dataset", "synthetic")
    day.run("gate", "precisions", 200, *trained, "--epochs", "2", "--window", "1", "--batch-size", "128",
            "--precision", *precisions)  # fmt: skip


def conformance(day: Day) -> None:
    """Compute the conformance suite's cases on the card, and judge them by the referee on this machine's CPU."""
    script = ROOT / "tests" / "benchmarks" / "measure_on_gpu.py"
    few = ("plain-sgd",) if day.quick else ()
    device = day.framework[day.framework.index("--device") + 1]
    names = itertools.takewhile(lambda word: not word.startswith("--"), day.framework[1:])
    for name in names:
        seconds = max(10.0, min(120.0, day.left_s() - 15))
        day.command("conformance", name, 200, sys.executable, script, day.out / "conformance" / name, *few,
                    "--framework", name, "--device", device, "--seconds", f"{seconds:.0f}")  # fmt: skip


def study(day: Day) -> None:
    """Run the study `gpu`, which is published."""
    day.run("study", "gpu", 400, "--study", "gpu")


def several(day: Day) -> None:
    """Run the study `gpu-frameworks`, which is published, in every framework of the command line."""
    day.run("several", "gpu-frameworks", 420, "--study", "gpu-frameworks")


def faults(day: Day) -> None:
    """Hold the card's memory from outside: a large batch does not fit, a small one is disturbed, the next is clean."""
    left_gib = "2"
    workload = "tiny" if day.quick else "vgg-11"
    trial = ("--dataset", "synthetic", "--workload", workload, "--epochs", "1", "--window", "1")
    try:
        with subprocess.Popen([day.python, "-c", HOLD, left_gib], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as holder:  # fmt: skip
            assert holder.stdout
            if holder.stdout.readline() == "ready\n":
                day.run("faults", "held", 90, *trial, "--batch-size", "32", "4096")
            else:
                day.say("faults", "held", None, 0.0, f"the card's memory could not be held by {day.python}")
            holder.communicate()
    except OSError as error:
        print(f"faults: {error}")
    day.run("faults", "clean", 60, *trial, "--batch-size", "32")


def tuned(day: Day) -> None:
    """Compare the profiles, cuDNN's choices, and where the images live."""
    usual = ("--dataset", "synthetic", "--workload", "resnet-18-small", "--epochs", "1", "--window", "3")
    day.run("tuned", "profiles", 200, *usual, "--batch-size", "32", "512", "--profile", "default", "tuned",
            "--precision", "bfloat16")  # fmt: skip
    day.run("tuned", "feed", 100, *usual, "--batch-size", "32", "--feed", "device")


def batch_size(day: Day) -> None:
    """Search the largest batch size by the card's own memory: of more images than fit."""
    images = day.out / "batch-size" / "images.npz"
    if not images.exists():
        images.parent.mkdir(parents=True, exist_ok=True)
        _write_images(images, 256 if day.quick else 16_384)
    workload = "tiny" if day.quick else "resnet-50"
    day.command("batch-size", "answers", 400, sys.executable, "-m", "runner", "batch-size", *day.framework,
                "--results", day.out / "batch-size" / "answers", "--workload", workload, "--dataset", images,
                "--answer", "largest")  # fmt: skip


def _write_images(path: Path, images: int) -> None:
    """Write a data set of noise, ten classes of 64 x 64 images, as large as a search needs."""
    draw = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for part, count in {"train": images, "test": 256}.items():
        arrays[f"x_{part}"] = draw.integers(0, 256, (count, 64, 64, 3), np.uint8)
        arrays[f"y_{part}"] = np.arange(count) % 10
    np.savez(path, **arrays)


def neighbours(day: Day) -> None:
    """Powers of two and their neighbours, in turn in one process."""
    day.run("neighbours", "resnet-18", 200, "--dataset", "synthetic", "--workload", "resnet-18", "--precision",
            "bfloat16", "--blocks", "127,128,129", "255,256,257", "--repeat", "3")  # fmt: skip


def check(day: Day) -> None:
    """Check every results folder as a reader would."""
    for results in sorted(path.parent for path in day.out.glob("*/*/trials")):
        name = f"{results.parent.name}-{results.name}"
        day.command("check", name, 60, sys.executable, "-m", "reports", "check", results)


def pack(day: Day) -> None:
    """Write one archive for each step next to its folder, without memory-hungry copies of weights."""
    for folder in sorted(path for path in day.out.iterdir() if path.is_dir()):
        archive = day.out / f"{folder.name}.tar.xz"
        # Hard links as files: a link to a file that is left out could not be unpacked.
        with tarfile.open(archive, "w:xz", preset=1, dereference=True) as tar:
            tar.add(folder, folder.name, filter=_small)
        size = archive.stat().st_size
        print(f"pack {folder.name}: {size / 2**20:.1f} MiB{' (too large to come back)' if size > PART_BYTES else ''}")


def _small(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave large files out, and the suite's arrays: the command makes them again."""
    arrays = member.name.startswith("conformance/") and member.name.endswith(".npz")
    return None if member.size > 4 * 2**20 or arrays else member


STEPS: dict[str, Callable[[Day], None]] = {
    "probe": probe,
    "one": one,
    "gate": gate,
    "conformance": conformance,
    "study": study,
    "several": several,
    "faults": faults,
    "tuned": tuned,
    "batch-size": batch_size,
    "neighbours": neighbours,
    "check": check,
    "pack": pack,
}

LATE = ("check", "pack")  # they have time of their own, and need no card


def main(arguments: list[str]) -> int:
    """Run the steps that are asked for, within the time; return the exit code."""
    parser = CommandLine(prog="python -m tools.gpu_day", description=__doc__)
    parser.add_argument("steps", nargs="+", choices=STEPS, metavar="STEP")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=480.0, help="time for all steps but check and pack")
    parser.add_argument("--framework", nargs="+", default=["pytorch"])
    parser.add_argument("--device", default="cuda", help="cpu | cuda | cuda:N | UUID")
    parser.add_argument("--python", help="FRAMEWORK=PATH of an interpreter (default: this Python, --isolation here)")
    parser.add_argument("--quick", action="store_true", help="rehearse with the fewest and smallest trials")
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + options.seconds
    where = ["--python", options.python] if options.python else ["--isolation", "here"]
    if options.device != "cpu" and set(options.steps) - set(LATE):
        try:
            os.environ.update(set_card(options.device, out))
        except (BadInput, UnclearGpus) as error:
            print(f"gpu_day: {error}", file=sys.stderr)
            return 2
    words = ["--framework", *options.framework, *where, "--device", "cpu" if options.device == "cpu" else "cuda"]
    python = (options.python or "").partition("=")[2] or sys.executable
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    for name in options.steps:
        left_s = (lambda: 60.0) if name in LATE else (lambda: until_s - time.monotonic())
        STEPS[name](Day(out, words, options.quick, left_s, python))
    seen = "\n".join(describe(out))
    (out / "seen.txt").write_text(seen + "\n")
    print(seen)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
