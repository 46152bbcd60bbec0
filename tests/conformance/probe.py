"""Run inside a framework's environment: python probe.py ADAPTER_MODULE PROFILE PRECISION INPUT_DIR OUT_DIR CASE...

Takes each case through the adapter's verbs and writes the results: OUT_DIR/CASE.npz, and the gate's evidence. In a
precision with fewer digits than float32 it writes only the evidence.
"""

import json
import os
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]

import settings  # noqa: E402
import traced_once  # noqa: E402
from settings import Arrays, Case  # noqa: E402

from adapters.base import Adapter, Floats, Order  # noqa: E402
from adapters.worker import first_probe  # noqa: E402
from workloads.datasets import Images  # noqa: E402
from workloads.records.build import REDUCED  # noqa: E402
from workloads.weights import Weights  # noqa: E402

EVALUATED = {"one": (1, 1), "odd": (5, 5), "ragged": (13, 5)}  # images, in batches of
KEPT = 2**20  # values of a larger array
STILL = 1e-12  # a rate at which no float32 weight moves


def kept(tag: str, arrays: Arrays) -> Arrays:
    """Thin large arrays by a stride that is no multiple of any of their axes."""
    return {f"{tag}/{key}": array.ravel()[::127] if array.size > KEPT else array for key, array in arrays.items()}


def predict(adapter: Adapter, images: Images, count: int, batch_size: int) -> Floats:
    images = np.resize(images, (count, *images.shape[1:]))
    return np.concatenate([adapter.predict(images[i : i + batch_size]) for i in range(0, count, batch_size)])


def train(adapter: Adapter, case: Case, order: Order, done: int, mark: int) -> Floats:
    """Return the losses of the steps from `done` up to `mark`; a call's batches are of one size."""
    if case.rates is not None:
        return adapter.read(adapter.train(order[done:mark], case.rates[done:mark]))
    if not case.sizes:
        return adapter.read(adapter.train(order[done:mark]))
    calls = [order[step : step + 1, : case.sizes[step]] for step in range(done, mark)]
    return np.concatenate([adapter.read(adapter.train(call)) for call in calls])


def run(adapter: Adapter, case: Case, given: Arrays, initial: Weights) -> Arrays:
    images, labels, order = given["images"], given["labels"], given["order"]
    adapter.build(case.workload, case.optimizer, initial, seed=5)
    found = kept("before", adapter.weights())
    for name, (count, batch_size) in {"one": (1, 1)}.items() if case.large else EVALUATED.items():
        found[f"logits/{name}"] = predict(adapter, images, count, batch_size)
    probe = adapter.probe(images[order[0]], labels[order[0]])
    found |= {"loss": np.array(probe.loss), **kept("outputs", probe.outputs), **kept("gradients", probe.gradients)}
    found |= kept("after/0", adapter.weights())
    losses, done = [], 0
    for mark in case.marks:
        losses.append(train(adapter, case, order, done, mark))
        done = mark
        found |= kept(f"after/{mark}", adapter.weights())
        found[f"evaluation/{mark}"] = adapter.predict(images[:4])
    return found | {"losses": np.concatenate(losses), "memory": np.array(json.dumps(adapter.memory()))}


def run_dropout(adapter: Adapter, case: Case, given: Arrays, initial: Weights) -> Arrays:
    """Run a case that draws masks. Returns two evaluations, the outputs in two probes, the losses of two steps that
    change nothing, and the losses from one seed twice and from another."""
    images, labels = given["images"], given["labels"]
    adapter.build(case.workload, case.optimizer, initial, seed=5)
    found = {f"evaluation/{i}": adapter.predict(images) for i in (0, 1)}
    for i in (0, 1):
        found |= kept(f"outputs/{i}", adapter.probe(images, labels).outputs)
    same = np.repeat(given["order"][:1], 2, axis=0)
    found["losses/still"] = adapter.read(adapter.train(same, np.full(2, STILL, np.float32)))
    for name, seed in (("first", 5), ("again", 5), ("other", 6)):
        adapter.build(case.workload, case.optimizer, initial, seed)
        found[f"losses/{name}"] = adapter.read(adapter.train(given["order"]))
    return found


def side_by_side(cases: list[Case]) -> list[Case]:
    """Sort cases of the same network and rule next to each other, whatever their weights, rates and batches."""
    first: dict[object, int] = {}
    for number, case in enumerate(cases):
        first.setdefault((case.workload, replace(case.optimizer, schedule="constant")), number)
    return sorted(cases, key=lambda case: first[case.workload, replace(case.optimizer, schedule="constant")])


def main(adapter: Adapter, profile: str, precision: str, inputs: Path, out: Path, cases: list[Case]) -> None:
    device = os.environ.get(settings.DEVICE_VARIABLE, "cpu")
    adapter.open(device, int(os.environ["OMP_NUM_THREADS"]), profile, precision, "host", "on-demand")
    if type(adapter).__module__ == "adapters.tensorflow.adapter":  # the correct one only: mistakes must show unaided
        traced_once.trace_once(adapter)
        cases = side_by_side(cases)
    for case in cases:
        with np.load(inputs / f"{case.twin}.npz") as archive:
            given = {key: archive[key] for key in archive.files}
        initial = {key.removeprefix("initial/"): given[key] for key in given if key.startswith("initial/")}
        adapter.load(given["images"], given["labels"])
        adapter.synchronize()  # as a worker does, so that what was loaded is there
        if precision not in REDUCED:
            found = (run_dropout if case.workload.draws else run)(adapter, case, given, initial)
            np.savez(out / f"{case.name}.npz", **found)  # type: ignore[arg-type]  # numpy's allow_pickle is no key of these
        order = np.arange(len(given["images"]), dtype=np.int32)
        task = (case.workload, case.optimizer, initial, 5)
        evidence = first_probe.gather(adapter, task, given["images"], given["labels"], order)
        (out / f"{case.name}.json").write_text(json.dumps(evidence.to_json()))
    (out / "modules.json").write_text(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))


if __name__ == "__main__":
    adapter = import_module(sys.argv[1]).Adapter()
    cases = [settings.CASES[name] for name in sys.argv[6:]]
    main(adapter, sys.argv[2], sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]), cases)
