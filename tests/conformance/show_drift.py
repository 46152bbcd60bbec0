"""What measure_drift.py measured, over all frameworks: python show_drift.py FILE.jsonl... [RESULTS_FOLDER...]

By workload, optimizer and how many updates had been made: the largest difference between two right frameworks of an
epoch's training loss and test loss (relative) and test accuracy, how many pairs there were, and the nearest that any
came to what the gate allows.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent)]

from runner.drift import differences  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402
from workloads.trial import Epoch, TrialResult  # noqa: E402

TRAINING_IMAGES = 1437  # of the digits
EDGES = (6, 12, 24, 48, 96, 192)  # updates


def measured(path):
    """(what must be alike, epochs) of each run."""
    for line in path.read_text().splitlines():
        run = json.loads(line)
        steps = -(-TRAINING_IMAGES // run["batch_size"])
        epochs = [
            Epoch(0.0, steps, TRAINING_IMAGES, train, 0.0, test, accuracy) for train, test, accuracy in run["epochs"]
        ]
        yield (run["workload"], run["optimizer"], run["batch_size"], run["seed"]), epochs


def stored(folder):
    for path in folder.rglob("trials/*/result.json"):
        result = TrialResult.from_json(json.loads(path.read_text()))
        spec = result.spec
        workload = f"{spec.workload} on {spec.dataset}"
        yield (workload, spec.optimizer.name, spec.batch_size, spec.inputs["order"].sha256), result.epochs


def main(paths):
    runs = defaultdict(list)
    for path in paths:
        for key, epochs in stored(path) if path.is_dir() else measured(path):
            runs[key].append(epochs)
    rows, pairs = defaultdict(list), 0
    for (workload, optimizer, batch_size, _), same in runs.items():
        for one, other in combinations(same, 2):
            pairs += 1
            normalised = workload.partition(" ")[0].endswith("batchnorm")
            for difference in differences(one, other, OptimizerSpec.named(optimizer), normalised):
                edge = next(edge for edge in EDGES if difference.updates <= edge)
                rows[workload, optimizer, edge, difference.quantity].append((difference, batch_size))
    print("| workload | optimizer | updates up to | quantity | values | largest | largest / allowed | at batch |")
    print("|---|---|---|---|---|---|---|---|")
    for (workload, optimizer, edge, quantity), found in sorted(rows.items()):
        largest = max(difference.apart for difference, _ in found)
        nearest, batch_size = max(((difference.apart / difference.allowed), size) for difference, size in found)
        cells = (workload, optimizer, edge, quantity, len(found), f"{largest:.1e}", f"{nearest:.2f}", batch_size)
        print(f"| {' | '.join(map(str, cells))} |")
    print(f"\n{pairs} pairs of right frameworks; beyond what is allowed: ", end="")
    print(sum(difference.apart > difference.allowed for found in rows.values() for difference, _ in found))


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
