"""Measure how long a folder of many trials keeps a person waiting.

python tests/benchmarks/measure_many_trials.py COUNT [FOLDER] [REPEATS]

FOLDER (by default a temporary one) is filled with COUNT trials, copies of a published one under other seeds and batch
sizes. A folder that already has as many is used unchanged. Then --list and --plan are timed REPEATS times each, by the
real command line. The first has no index, as after an update of the program.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from workloads.records.stored import result_of  # noqa: E402

ARCHIVE = ROOT / "published" / "2026-11-26-amd-epyc-quick" / "results.tar.xz"
SIZES = 9
COMMANDS = {
    "--list": ["--list"],
    "--plan": ["--plan", "--framework", "all", "--batch-size", "8", "128", "--repeat", "3"],
}


def main(count: int, folder: Path, repeats: int) -> None:
    """Fill the folder, then time the commands."""
    with tarfile.open(ARCHIVE) as archive:
        members = [each for each in archive.getnames() if each.endswith("/result.json")]
        content = archive.extractfile(members[0])
        assert content is not None
        result = result_of(content.read())
    trials = folder / "trials"
    trials.mkdir(parents=True, exist_ok=True)
    if len(list(trials.iterdir())) != count:
        for number in range(count):
            size, repeat = 2 ** (2 + number % SIZES), number // SIZES
            spec = replace(
                result.spec,
                cell=replace(result.spec.cell, batch_size=size),
                draw=replace(result.spec.draw, repeat=repeat, seed=repeat),
            )
            (trials / spec.id).mkdir()
            (trials / spec.id / "result.json").write_text(json.dumps(replace(result, spec=spec).to_json(), indent=1))
    for name, words in COMMANDS.items():
        print(f"{name}: " + ", ".join(timed([*words, "--results", str(folder)]) for _ in range(repeats)), flush=True)


def timed(words: Sequence[str]) -> str:
    """Return wall time, processor time and peak memory of the runner with these words."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "runner", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    took_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{took_s:.2f} s ({cpu_s:.2f} s of a core, {after.ru_maxrss / 1024:.0f} MiB)"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="batchwise-many-") as temporary:
        target = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(temporary)
        main(int(sys.argv[1]), target, int(sys.argv[3]) if len(sys.argv) > 3 else 4)
