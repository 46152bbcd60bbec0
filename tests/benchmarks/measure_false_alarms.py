"""Measure how often the gate accuses correct frameworks in odd settings.

python tests/benchmarks/measure_false_alarms.py FOLDER [--framework NAME ...] [--only SETTING ...] [--write PAGE]

Runs every setting into a separate folder below FOLDER, prints how its trials ended, and each accusation in full. The
same command goes on where it was interrupted. Exit code 1 where a trial was `unverified`. `--write` puts the table
between the marks of a page that name these frameworks. With three frameworks it takes about 40 minutes on two cores.
FOLDER can then be given to measure_margins.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from workloads.records.status import Status  # noqa: E402

TINY = ("--workload", "tiny", "--dataset", "digits-64", "--epochs", "3", "--window", "0.5")
OSU = ("--workload", "osu-cnn", "--dataset", "digits", "--epochs", "2", "--window", "1")
OWN = ("--workload", "tests/benchmarks/norm_and_dropout.py", "--dataset", "digits", "--epochs", "2", "--window", "1")
SIZES = ("--batch-size", "3", "16", "63", "--repeat", "3")
TWO_SIZES = ("--batch-size", "32", "479", "--repeat", "2")
SETTINGS: dict[str, tuple[str, ...]] = {
    "sizes that divide the split, or leave one image": (
        *TINY, "--batch-size", "2", "3", "7", "32", "63", "64", "--repeat", "2"
    ),
    "sizes that leave one image of osu-cnn": (*OSU, "--batch-size", "4", "359", "718", "1436", "--repeat", "1"),
    "last batch dropped": (*TINY, *SIZES, "--last-batch", "drop"),
    "adam": (*TINY, *SIZES, "--optimizer", "adam"),
    "adamw, weight decay, cosine, warm-up": (
        *TINY, *SIZES, "--optimizer", "adamw", "--weight-decay", "0.01", "--schedule", "cosine", "--warm-up", "5"
    ),
    "rmsprop, step": (*TINY, *SIZES, "--optimizer", "rmsprop", "--schedule", "step"),
    "nesterov, one-cycle": (*TINY, *SIZES, "--optimizer", "nesterov", "--schedule", "one-cycle"),
    "accumulated": (*TINY, "--batch-size", "4", "16", "--repeat", "3", "--accumulate", "3"),
    "augmented": (*OSU, *TWO_SIZES, "--augment", "flip-crop"),
    "BatchNorm and dropout": (*OWN, *TWO_SIZES),
    "BatchNorm and dropout, adam": (*OWN, *TWO_SIZES, "--optimizer", "adam"),
    "one thread": (*OSU, *TWO_SIZES, "--threads", "1"),
    "two devices": (*TINY, "--batch-size", "4", "32", "--repeat", "3", "--devices", "2"),
    "a memory limit": (*OSU, *TWO_SIZES, "--memory-limit", "3072"),
    "tuned": (*OSU, *TWO_SIZES, "--profile", "tuned"),
    "bfloat16": (*OSU, *TWO_SIZES, "--precision", "bfloat16"),
    "images on the device": (*OSU, *TWO_SIZES, "--feed", "device"),
}  # fmt: skip
ENDS = (Status.OK, Status.CONTENDED, Status.UNSUPPORTED, Status.UNVERIFIED)


def run(setting: str, folder: Path, frameworks: list[str]) -> list[dict[str, Any]]:
    """Run a setting; return the results of its trials. Raises SystemExit where the runner refuses it."""
    words = [*SETTINGS[setting], "--framework", *frameworks, "--device", "cpu", "--results", str(folder)]
    done = subprocess.run([sys.executable, "-m", "runner", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{setting}: {done.stderr.strip()}")
    return [json.loads(path.read_text()) for path in sorted(folder.glob("trials/*/result.json"))]


def main() -> int:
    """Run the settings and print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--framework", dest="frameworks", nargs="+", default=["all"])
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows, accused = [], []
    for number, setting in enumerate(options.only):
        results = run(setting, options.folder / f"{list(SETTINGS).index(setting):02}", options.frameworks)
        ends = Counter(result["status"] for result in results)
        others = sum(ends.values()) - sum(ends[end] for end in ENDS)
        rows.append([setting, len(results), *(ends[end] for end in ENDS), others])
        accused += [f"{setting}: {each['reason']}" for each in results if each["status"] == Status.UNVERIFIED]
        print(f"{number + 1} of {len(options.only)}: {setting}: {dict(ends)}", flush=True)
    rows.append(["all", *(sum(row[place] for row in rows) for place in range(1, len(rows[0])))])
    table = tabulate(rows, ["setting", "trials", *map(str, ENDS), "other ends"], tablefmt="github")
    print(f"\n{table}\n", *accused, sep="\n")
    if options.write:
        text = options.write.read_text()
        mark = f"<!-- false alarms: {' '.join(options.frameworks)} -->"
        head, rest = text.split(mark)
        options.write.write_text(f"{head}{mark}\n{table}\n<!-- end -->{rest.partition('<!-- end -->')[2]}")
    return int(bool(accused))


if __name__ == "__main__":
    sys.exit(main())
