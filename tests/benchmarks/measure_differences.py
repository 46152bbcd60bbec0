"""Measure how far correct adapters are from the referee, over draws and instruction sets.

python measure_differences.py FOLDER gathers the gate's evidence (drawn.py, in each framework's environment) into
FOLDER, where it is kept: existing files are not made again. Then it prints, as Markdown, the distribution of every kind
of difference as a part of what the gate allows. The rate of false alarms and the sizes of the planted errors follow.
docs/evidence/tolerances.md has a run of it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import stats  # type: ignore[import-untyped]  # it has no stubs

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = ROOT / "tests" / "conformance"
sys.path[:0] = [str(ROOT), str(CONFORMANCE)]

from planted import PLANTED, errors_of  # noqa: E402
from settings import CASES  # noqa: E402

from runner.environments.definition import build_worker_variables, read  # noqa: E402
from runner.gate.tolerances import Deviation, Truth, compute_deviations  # noqa: E402
from runner.project import Project  # noqa: E402
from workloads.records.evidence import Evidence  # noqa: E402

SMALL = (
    *("plain", "batchnorm", "statistics", "padding", "mobile", "binary"),
    *("branches", "pooling", "grouped", "transformer", "smooth"),
)
LARGE = ("cats-dogs-cnn", "mobilenet-v3-large")
# Variables that make a framework on this processor compute as on another; each framework reads those that it knows.
INSTRUCTION_SETS = {
    "native": {},
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "sse41": {
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "DNNL_MAX_CPU_ISA": "SSE41",
        "ATEN_CPU_CAPABILITY": "default",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
    "plain": {"TF_ENABLE_ONEDNN_OPTS": "0"},
    "threads": {},
}
SETS = {
    "numpy": ("native", "sse41"),
    "pytorch": ("native", "avx2", "sse41", "threads"),
    "mxnet": ("native", "avx2", "sse41", "threads"),
    "tensorflow": ("native", "plain", "avx2", "sse41"),
}
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Run:
    """One process: so many draws of each network, from number `first` on."""

    who: str  # a framework, or the name of a planted error
    framework: str
    module: str
    precision: str
    instructions: str
    networks: tuple[str, ...]
    draws: int
    first: int = 0

    @property
    def name(self) -> str:
        return f"{self.who}.{self.precision}.{self.instructions}.{'+'.join(self.networks)}.{self.first}.jsonl"

    def start(self, folder: Path) -> None:
        if (folder / self.name).exists():
            return
        environment = read(Project.of_this_code(), self.framework, "cpu")
        threads = "2" if self.instructions == "threads" else "1"
        part = folder / f"{self.name}.part"
        arguments = [self.module, self.precision, threads, part, self.first, self.first + self.draws, *self.networks]
        subprocess.run(
            [environment.interpreter, CONFORMANCE / "drawn.py", *map(str, arguments)],
            env={
                "PATH": os.environ["PATH"],
                "OMP_NUM_THREADS": threads,
                "OPENBLAS_NUM_THREADS": threads,
                **build_worker_variables(environment),
                **INSTRUCTION_SETS[self.instructions],
            },
            stderr=subprocess.DEVNULL,
            check=True,
        )
        part.rename(folder / self.name)


def right_runs(draws: dict[str, int]) -> Iterator[Run]:
    """Yield the referee in float64 first, then the correct adapters. TensorFlow, which compiles for each draw, has a
    fifth."""
    for network, count in draws.items():
        yield Run("numpy", "numpy", "adapters.numpy.adapter", "float64", "native", (network,), count)
        for framework, sets in SETS.items():
            few = -(-count // 5) if framework == "tensorflow" else count
            for instructions in sets:
                module = f"adapters.{framework}.adapter"
                yield Run(framework, framework, module, "float32", instructions, (network,), few)


def planted_runs(draws: int) -> Iterator[Run]:
    """Yield each planted error on the networks of its cases."""
    for name in PLANTED:
        framework, cases, _ = errors_of(name)
        for network in sorted({CASES[case].workload.name for case in cases} - {"dropout"}):
            yield Run(name, framework, f"broken.{name}", "float32", "native", (network,), draws)


Draw = tuple[str, int]


def stored(folder: Path, pattern: str) -> dict[Draw, tuple[str, Evidence]]:
    """{(network, number): (optimizer, evidence)} of the files of that name."""
    lines = (line for path in sorted(folder.glob(pattern)) for line in path.read_text("utf-8").splitlines())
    found = {}
    for line in filter(None, lines):
        draw = json.loads(line)
        found[draw["network"], draw["number"]] = (draw["optimizer"], Evidence.from_json(draw["evidence"]))
    return found


def truths(folder: Path) -> dict[Draw, Truth]:
    exact, rounded = stored(folder, "numpy.float64.native.*.jsonl"), stored(folder, "numpy.float32.native.*.jsonl")
    return {draw: Truth(exact[draw][1], rounded[draw][1]) for draw in exact.keys() & rounded.keys()}


@dataclass(frozen=True)
class Trial:
    """One framework on one draw, judged."""

    who: str
    instructions: str
    network: str
    optimizer: str
    together: list[Deviation]  # as the gate judges: what differs in every probe
    apart: list[list[Deviation]]  # each probe alone

    @property
    def ratio(self) -> float:
        return max(one.ratio for one in self.together)

    @property
    def probes_over(self) -> int:
        return sum(any(one.ratio > 1 for one in probe) for probe in self.apart)


def judged(folder: Path, who: str, instructions: str, known: dict[Draw, Truth]) -> list[Trial]:
    trials = []
    for draw, (optimizer, evidence) in stored(folder, f"{who}.float32.{instructions}.*.jsonl").items():
        if draw not in known:
            continue
        truth = known[draw]
        probes = zip(evidence.probes, truth.expected.probes, truth.rounded.probes, strict=True)
        apart = [
            compute_deviations(replace(found, again=[]), Truth(replace(expected, again=[]), replace(rounded, again=[])))
            for found, expected, rounded in probes
        ]
        trials.append(Trial(who, instructions, draw[0], optimizer, compute_deviations(evidence, truth), apart))
    return trials


def at_most(hits: int, count: int) -> float:
    """The upper end of a one-sided Clopper-Pearson interval."""
    return 1.0 if hits == count else float(stats.beta.ppf(CONFIDENCE, hits + 1, count - hits))


def tail(ratios: list[float]) -> tuple[float, float]:
    """(P(ratio > 1), the upper end of its interval) of a generalised Pareto law above the 90 % quantile of the ratio's
    logarithm. It is fitted by probability-weighted moments (Hosking & Wallis 1987), with 400 bootstrap samples. The
    result is an extrapolation and no count."""
    logs = np.log(np.maximum(ratios, 1e-12))

    def beyond(sample: np.ndarray) -> float:
        threshold = float(np.quantile(sample, 0.9))
        above = np.sort(sample[sample > threshold] - threshold)
        weights = 1 - (np.arange(len(above)) + 0.65) / len(above)
        mean, weighted = above.mean(), (weights * above).mean()
        shape, scale = mean / (mean - 2 * weighted) - 2, 2 * mean * weighted / (mean - 2 * weighted)
        return 0.1 * float(stats.genpareto.sf(-threshold, -shape, 0, scale))

    generator = np.random.Generator(np.random.PCG64(1))
    samples = [beyond(generator.choice(logs, len(logs))) for _ in range(400)]
    return beyond(logs), float(np.quantile(samples, CONFIDENCE))


def table(heading: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    for row in (heading, ("---",) * len(heading), *rows):
        print("| " + " | ".join(map(str, row)) + " |")
    print()


def print_distributions(trials: list[Trial]) -> None:
    by_kind: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for trial in trials:
        for kind in dict.fromkeys(one.kind for one in trial.together):
            single = [max((o.ratio for o in probe if o.kind is kind), default=0.0) for probe in trial.apart]
            together = max(one.ratio for one in trial.together if one.kind is kind)
            by_kind[trial.network, kind.name].extend((one, together) for one in single)
    rows: list[tuple[object, ...]] = []
    for (network, name), values in by_kind.items():
        alone, largest = map(np.array, zip(*values, strict=True))
        quantiles = " / ".join(f"{value:.2g}" for value in np.quantile(alone, [0.5, 0.99, 1.0]))
        over = int((alone > 1).sum())
        rows.append((network, name.lower(), len(alone), quantiles, over, f"{largest.max():.2g}"))
    table(("network", "quantity", "probes", "one probe: median / 99 % / most", "over 1", "all probes: most"), rows)


def print_rates(trials: list[Trial]) -> None:
    rows: list[tuple[object, ...]] = []
    groups = {(trial.who, trial.instructions): "" for trial in trials}
    for who, instructions in groups:
        chosen = [trial for trial in trials if (trial.who, trial.instructions) == (who, instructions)]
        over = [sum(trial.probes_over >= count for trial in chosen) for count in (1, 2)]
        most = max(trial.ratio for trial in chosen)
        rows.append((who, instructions, len(chosen), *over, sum(t.ratio > 1 for t in chosen), f"{most:.2g}"))
    heading = ("framework", "instructions", "trials", "over in 1+ probe", "in 2+", "suspected", "largest ratio")
    table(heading, rows)
    for network in dict.fromkeys(trial.network for trial in trials):
        print_rate(network, [trial for trial in trials if trial.network == network])
    print_rate("all", trials)


def print_rate(network: str, trials: list[Trial]) -> None:
    probes = sum(len(trial.apart) for trial in trials)
    over = sum(trial.probes_over for trial in trials)
    single, bound = over / probes, at_most(over, probes)
    independent, worst = (float(np.mean([p ** len(trial.apart) for trial in trials])) for p in (single, bound))
    pairs = [itertools.combinations([any(o.ratio > 1 for o in probe) for probe in t.apart], 2) for t in trials]
    both = [one and other for trial in pairs for one, other in trial]
    alarms = sum(trial.ratio > 1 for trial in trials)
    beyond = "" if len(trials) < 100 else "; tail fit {:.1e}, at most {:.1e}".format(*tail([t.ratio for t in trials]))
    print(
        f"{network}: {len(trials)} trials, {alarms} suspected: at most {at_most(alarms, len(trials)):.1e} by count. "
        f"One probe alone is over in {over} of {probes} ({single:.2%}, at most {bound:.2%}); two of a trial both in "
        f"{sum(both)} of {len(both)} ({single**2 * len(both):.2f} if they were independent); all of a trial, if "
        f"independent, {independent:.1e}, at most {worst:.1e}{beyond}.\n"
    )


def print_power(folder: Path, known: dict[Draw, Truth]) -> None:
    rows: list[tuple[object, ...]] = []
    for name in PLANTED:
        _, cases, _ = errors_of(name)
        optimizers = {CASES[case].optimizer.name for case in cases}
        trials = [t for t in judged(folder, name, "native", known) if t.optimizer in optimizers]
        if not trials:
            continue
        largest = [max(trial.together, key=lambda one: one.ratio) for trial in trials]
        ratios = sorted(one.ratio for one in largest)
        kinds = sorted({one.kind.name.lower() for one in largest})
        caught = f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)}"
        rows.append((name, caught, f"{ratios[0]:.3g}", f"{float(np.median(ratios)):.3g}", ", ".join(kinds)))
    table(("planted error", "caught", "smallest ratio", "median", "seen most in"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=96, help="of osu-cnn, for each framework and instruction set")
    parser.add_argument("--small", type=int, default=32, help="of each of the suite's networks")
    parser.add_argument("--large", type=int, default=0, help="of each of the catalogue's large networks")
    parser.add_argument("--planted", type=int, default=16, help="of each planted error and network")
    parser.add_argument("--read", action="store_true", help="gather nothing: only what is in the folder")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    draws = {"osu-cnn": chosen.draws, **dict.fromkeys(SMALL, chosen.small), **dict.fromkeys(LARGE, chosen.large)}
    if not chosen.read:
        for run in (
            *right_runs({name: count for name, count in draws.items() if count}),
            *planted_runs(chosen.planted),
        ):
            run.start(chosen.folder)
    known = truths(chosen.folder)
    trials = [t for who, sets in SETS.items() for name in sets for t in judged(chosen.folder, who, name, known)]
    right = [trial for trial in trials if (trial.who, trial.instructions) != ("numpy", "native")]  # it is the rounding
    print_distributions(right)
    print_rates(right)
    print_power(chosen.folder, known)


if __name__ == "__main__":
    main()
