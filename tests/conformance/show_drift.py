"""Print the results of measure_drift.py over all frameworks: python show_drift.py FILE.jsonl... [RESULTS_FOLDER...]

A row is a workload, an optimizer and a number of updates made. It has the largest difference between two correct
frameworks of an epoch's training loss and test loss (relative) and test accuracy. It has the number of epochs, and the
nearest that any came to what the gate allows. Nothing is shown beyond what the gate compares.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent)]

from runner.gate.drift import Drift, differences  # noqa: E402
from workloads.records.result import Epoch, TrialResult  # noqa: E402
from workloads.spec import OptimizerName, OptimizerSpec  # noqa: E402

TRAINING_IMAGES = 1437  # of the digits
QUANTITIES = ("training loss", "test loss", "test accuracy")
EDGES = (6, 12, 24, 48, 96, 192)  # updates


def measured(path: Path) -> Iterator[tuple[tuple[str, OptimizerName, int, object], list[Epoch]]]:
    """(what must be alike, epochs) of each run."""
    for line in path.read_text().splitlines():
        run = json.loads(line)
        steps = -(-TRAINING_IMAGES // run["batch_size"])
        epochs = [
            Epoch(0.0, steps, TRAINING_IMAGES, train, 0.0, test, accuracy) for train, test, accuracy in run["epochs"]
        ]
        yield (run["workload"], run["optimizer"], run["batch_size"], run["seed"]), epochs


def stored(folder: Path) -> Iterator[tuple[tuple[str, OptimizerName, int, object], list[Epoch]]]:
    for path in folder.rglob("trials/*/result.json"):
        result = TrialResult.from_json(json.loads(path.read_text()))
        spec = result.spec
        workload = f"{spec.task.workload} on {spec.task.dataset}"
        yield (workload, spec.task.optimizer.name, spec.cell.batch_size, spec.inputs["order"].sha256), result.epochs


def main(paths: list[Path]) -> None:
    runs = defaultdict(list)
    for path in paths:
        for key, epochs in stored(path) if path.is_dir() else measured(path):
            runs[key].append(epochs)
    rows: dict[tuple[str, OptimizerName, int], dict[str, list[Drift]]] = defaultdict(lambda: defaultdict(list))
    pairs = 0
    for (workload, optimizer, _, _), same in runs.items():
        normalised = workload.partition(" ")[0].endswith("batchnorm")
        for one, other in combinations(same, 2):
            pairs += 1
            for difference in differences(one, other, OptimizerSpec.named(optimizer), normalised):
                edge = next(edge for edge in EDGES if difference.updates <= edge)
                rows[workload, optimizer, edge][difference.quantity].append(difference)
    print(
        f"| workload | optimizer | updates up to | epochs | {' | '.join(f'{name} | of bound' for name in QUANTITIES)} |"
    )
    print("|" + "---|" * (4 + 2 * len(QUANTITIES)))
    for (workload, optimizer, edge), row in sorted(rows.items()):
        cells = [workload, optimizer, str(edge), str(len(row[QUANTITIES[0]]))]
        for name in QUANTITIES:
            largest = max((each.apart for each in row[name]), default=None)
            nearest = max((each.apart / each.allowed for each in row[name]), default=None)
            cells += ["", ""] if largest is None or nearest is None else [f"{largest:.1e}", f"{nearest:.2f}"]
        print(f"| {' | '.join(cells)} |")
    apart = [each for row in rows.values() for found in row.values() for each in found if each.apart > each.allowed]
    print(f"\n{pairs} pairs of right frameworks; values beyond what is allowed: {len(apart)}")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
