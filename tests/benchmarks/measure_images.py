"""Measure one trial in a virtual environment, in a container of the runner and in the image alone, in turn.

python tests/benchmarks/measure_images.py [ROUNDS]

Prints losses and speeds.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "images")]

STUDY = ("--batch-size", "128", "--epochs", "2", "--window", "5", "--device", "cpu")
WAYS = ("virtual environment", "container of the runner", "image alone")


def main(rounds: int) -> None:
    from conftest import REAL_FRAMEWORKS, by_cell, run_runner
    from engines import alone, an_engine, build_all, learnt
    from tabulate import tabulate

    from workloads.statistics import mean_interval

    def measured(framework: str, way: str, results: Path) -> dict[str, Any]:
        if way == WAYS[2]:
            done = alone(framework, results, *STUDY)
            results = results / "quick"
        else:
            isolation = "venv" if way == WAYS[0] else "docker"
            done = run_runner("--framework", framework, "--isolation", isolation, *STUDY, "--results", results)
        (result,) = by_cell(results).values()
        assert result["status"] == "ok", done.stdout + done.stderr
        return result

    with tempfile.TemporaryDirectory() as temporary, an_engine(Path(temporary)) as engine:
        (Path(temporary) / "secrets").mkdir()
        build_all(engine, Path(temporary) / "secrets")
        found: dict[tuple[str, str], list[dict[str, Any]]] = {
            (framework, way): [] for framework in REAL_FRAMEWORKS for way in WAYS
        }
        for number in range(rounds):
            for framework in REAL_FRAMEWORKS:
                for place in range(len(WAYS)):
                    way = WAYS[(number + place) % len(WAYS)]
                    folder = Path(temporary) / f"{number}-{framework}-{WAYS.index(way)}"
                    found[framework, way].append(measured(framework, way, folder))
    rows = []
    for (framework, way), results in found.items():
        pairs = list(zip(results, found[framework, WAYS[0]], strict=True))
        logs = [math.log(speed(one) / speed(other)) for one, other in pairs]
        mean, low, high = (f"{100 * math.exp(log):.1f}" for log in mean_interval(logs))
        same = all(learnt(one) == learnt(other) for one, other in pairs)
        peaks = sorted(one["figures"]["host_memory_peak_bytes"]["value"] / 2**20 for one in results)
        speeds = sorted(speed(one) for one in results)
        ratio = "100" if way == WAYS[0] else f"{mean} [{low}, {high}]"
        equal = "" if way == WAYS[0] else "bit-identical" if same else "DIFFERENT"
        rows.append((framework, way, equal, f"{speeds[rounds // 2]:.0f}", ratio, f"{peaks[rounds // 2]:.0f}"))
    head = ("framework", "in", "losses", "images/s, median", "% of the venv's [95 %]", "host memory, MiB")
    print(tabulate(rows, head, tablefmt="github", disable_numparse=True))


def speed(result: dict[str, Any]) -> float:
    return float(result["figures"]["images_per_s"]["value"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
