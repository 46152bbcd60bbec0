"""Measure how far correct frameworks are from the referee at a trial's end.

`python measure_ends.py FRAMEWORK PRECISION OUT.jsonl SEED...` inside a framework's environment: osu-cnn on the digits,
every optimizer, several batch sizes, early weights and late ones; a line for each with the probe's answer. In the
runner's, `python measure_ends.py --show OUT.jsonl...` prints them together, with how many of these correct trials the
gate would flag.
"""

import contextlib
import io
import itertools
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent)]

from adapters.base import Adapter  # noqa: E402
from adapters.numpy import end_referee  # noqa: E402
from adapters.worker import end_probe  # noqa: E402
from adapters.worker.prepare import Prepared  # noqa: E402
from adapters.worker.trainer import Trainer, epoch_batches  # noqa: E402
from workloads import datasets, weights  # noqa: E402
from workloads.catalogue import OSU_CNN  # noqa: E402
from workloads.datasets import Split  # noqa: E402
from workloads.records import network  # noqa: E402
from workloads.records.check_name import CheckName  # noqa: E402
from workloads.records.end_evidence import TrialEnd  # noqa: E402
from workloads.records.files import JOB_FILE, write_json  # noqa: E402
from workloads.records.job import (  # noqa: E402
    Cell,
    Draw,
    InputFile,
    Installation,
    Job,
    Kind,
    Passes,
    Placement,
    Task,
    TrialSpec,
)
from workloads.records.status import Status  # noqa: E402
from workloads.spec import OPTIMIZER_NAMES, OptimizerName, OptimizerSpec  # noqa: E402

SIZES, EPOCHS = (16, 32, 128, 512), (2, 12)


def asked(
    size: int,
    rule: OptimizerName,
    precision: str,
    epochs: int = 0,
    seed: int = 0,
    inputs: dict[str, InputFile] | None = None,
) -> TrialSpec:
    """A trial without a window."""
    task = Task("osu-cnn", "digits", OptimizerSpec.named(rule), "default", "host", precision=precision)
    where, installed = Placement("cpu", 1, {}), Installation("here", "-")
    cell, passes, draw = Cell("", size, "on-demand"), Passes(epochs, "keep"), Draw(0, seed)
    return TrialSpec(cell, task, passes, where, installed, draw, inputs or {}, window_s=0.0, timeout_s=0.0, study="")


def end(adapter: Adapter, spec: TrialSpec, train: Split, test: Split, root: Path) -> dict[str, Any]:
    """Return the referee's answer about the end of a trial without a window."""
    folder = root / "trials" / "one"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / JOB_FILE, Job(Kind.TRIAL, spec).to_json())
    task = OSU_CNN, spec.task.optimizer, weights.draw(OSU_CNN, spec.draw.seed), spec.draw.seed
    adapter.build(*task)
    trainer = Trainer(adapter)
    for order in datasets.batch_order(len(train.images), spec.passes.epochs, spec.draw.seed)[: spec.passes.epochs]:
        for block in epoch_batches(order, spec.cell.batch_size, spec.passes.last_batch):
            trainer.run(trainer.calls(block))
    prepared = Prepared(train, test.images, np.empty(0, np.int32), task)
    idle = end_probe.gather(spec, OSU_CNN, prepared, trainer, folder)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        end_referee.main(folder)
    copies = end_probe.outstanding(adapter)
    told: dict[str, Any] = json.loads(printed.getvalue())
    return told | idle | {"outstanding": copies}


def measure(framework: str, precision: str, out: Path, seeds: Sequence[int]) -> None:
    adapter = import_module(f"adapters.{framework}.adapter").Adapter()
    adapter.open("cpu", 1, "default", precision, "host", "on-demand")
    train, test = datasets.load(datasets.DATASETS["digits"], Path(), OSU_CNN.input_shape)
    adapter.load(train.images, train.labels)
    with tempfile.TemporaryDirectory() as folder:
        root, inputs = Path(folder), {}
        arrays: dict[str, np.ndarray] = {
            "train_images": train.images,
            "train_labels": train.labels,
            "test_images": test.images,
        }
        for name, array in arrays.items():
            np.save(root / f"{name}.npy", array)
            inputs[name] = InputFile(f"{name}.npy", "-")
        (root / "network.json").write_text(network.to_text(OSU_CNN))
        inputs["network"] = InputFile("network.json", "-")
        for seed in seeds:
            for epochs, size, rule in itertools.product(EPOCHS, SIZES, OPTIMIZER_NAMES):
                axes = {"epochs": epochs, "batch_size": size, "seed": seed, "precision": precision}
                spec = asked(size, rule, precision, epochs, seed, inputs)
                line = {"framework": framework, "rule": rule, **axes, "end": end(adapter, spec, train, test, root)}
                with out.open("a") as file:
                    print(json.dumps(line), file=file)


def failed(run: dict[str, Any]) -> list[str]:
    """Names of the gate's checks of a trial's end that this correct trial fails."""
    # Imported here: a framework's environment has neither the runner nor the packages with which it reads results.
    from runner.gate import trial_end
    from workloads.records.result import TrialResult

    spec = asked(run["batch_size"], run["rule"], run["precision"])
    told = TrialEnd(None).to_json() | run["end"]
    return [
        check.name
        for check in trial_end.check_end(TrialResult(spec, Status.OK, None, "", 0.0, end=told), OSU_CNN)
        if not check.passed and check.name != CheckName.NOTHING_LEFT  # there was no window
    ]


def show(paths: list[Path]) -> None:
    """Print per optimizer the largest difference of each kind; updates minus the effect of keeping weights in
    float32."""
    rows: dict[Any, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
        for line in path.read_text().splitlines():
            run = json.loads(line)
            row, told = rows[run["precision"], run["rule"], run["epochs"]], run["end"]
            row["logits"].append(told["evaluation"]["apart"])
            row["loss"] += [step["loss"]["apart"] for step in told["steps"]]
            known = [step["update"] for step in told["steps"] if step["update"] and step["update"]["resolution"] < 0.5]
            row["update"] += [max(0.0, each["apart"] - each["resolution"]) for each in known]
            row["resolution"] += [each["resolution"] for each in known]
            row["idle steps"].append(told["idle_steps"])
            row["suspected"].append(bool(failed(run)))
            for name in failed(run):
                asked_of = " ".join(str(run[key]) for key in ("framework", "precision", "rule"))
                print(f"suspected: {asked_of} batch {run['batch_size']} seed {run['seed']}: {name}")
    print("| precision | optimizer | epochs | trials | suspected | logits | loss | update | resolution | idle steps |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (precision, rule, epochs), row in sorted(rows.items()):
        largest = [f"{max(row[name], default=0):.1e}" for name in ("logits", "loss", "update", "resolution")]
        counts = [str(len(row["logits"])), str(sum(row["suspected"]))]
        print(f"| {' | '.join([precision, rule, str(epochs), *counts, *largest, str(sum(row['idle steps']))])} |")


if __name__ == "__main__":
    if sys.argv[1] == "--show":
        show([Path(argument) for argument in sys.argv[2:]])
    else:
        measure(sys.argv[1], sys.argv[2], Path(sys.argv[3]), [int(seed) for seed in sys.argv[4:]])
