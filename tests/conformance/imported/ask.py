"""Run inside a framework's environment: python ask.py FRAMEWORK SOURCE_FILE FUNCTION OUT.

Asks the source's own module, and the framework's version of its correct import and of each planted error, the gate's
probe. Writes OUT/NUMBER.json, for each of them: both answers, and what each was asked about.
"""

import json
import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE.parents[1]), str(HERE)]

import planted_imports as planted  # noqa: E402
from planted_imports import Imported  # noqa: E402
from planted_keras import KERAS_NETWORK, KERAS_PLANTED, KERAS_SOURCE  # noqa: E402

from adapters.worker.first_probe import ProbeUpdates, gather  # noqa: E402
from adapters.worker.source_voter import SourceVoter  # noqa: E402
from workloads.records import network  # noqa: E402
from workloads.records.evidence import fingerprint  # noqa: E402

SEED = 3
NETWORKS = {
    "pytorch": (planted.NETWORK, planted.SOURCE, planted.PLANTED),
    "tensorflow": (KERAS_NETWORK, KERAS_SOURCE, KERAS_PLANTED),
}


def opened(framework: str) -> Any:
    adapter = import_module(f"adapters.{framework}.adapter").Adapter()
    adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
    images, labels, _ = planted.draw_images()
    adapter.load(images, labels)
    return adapter


def main(framework: str, file: Path, function: str, out: Path) -> None:
    workload, source, errors = NETWORKS[framework]
    source = replace(source, code=replace(source.code, function=function))
    images, labels, order = planted.draw_images()
    adapter = opened(framework)  # of one after the other: a framework is opened once per process
    verbs = import_module(f"adapters.{framework}.source").make_source(adapter)
    adapter.build_model(verbs.maker(file, function), source.code, planted.OPTIMIZER, SEED)
    own = planted.trained(verbs.tensors())
    weights = source.take(own, workload.weight_shapes())
    assert weights.keys() == workload.weight_shapes().keys(), workload.weight_shapes().keys() - weights.keys()

    @cache
    def ask_source(name: str) -> tuple[Any, Any]:
        """The source's answers; most errors ask it the same as the correct import does."""
        imported = made[name]
        voter = SourceVoter(adapter, verbs, imported.source, file, own)
        task = imported.workload, planted.OPTIMIZER, imported.weights, SEED
        facts = voter.facts(task, images[:4]).to_json()
        return gather(voter, task, images, labels, order, asked).to_json(), facts

    def ask(name: str) -> Any:
        imported = made[name]
        answer, facts = ask_source("correct" if asks_the_same(imported, correct) else name)
        task = imported.workload, planted.OPTIMIZER, imported.weights, SEED
        return {
            "source": answer,
            "facts": facts,
            "evidence": gather(adapter, task, images, labels, order, asked).to_json(),
            "initial": {key: fingerprint(array) for key, array in imported.weights.items()},
            "map": imported.source.to_json(),
            "network": network.to_json(imported.workload),
        }

    asked, correct = ProbeUpdates(imported=True), Imported(workload, weights, source)
    made = {"correct": correct}
    if function == "make_model":
        made |= {name: change(correct) for name, (change, _) in errors.items()}
    for number, name in enumerate(made):
        (out / f"{number}.json").write_text(json.dumps({"name": name, **ask(name)}))


def asks_the_same(imported: Imported, correct: Imported) -> bool:
    """True if the source's answers do not depend on what is wrong with this import."""
    weights = all(np.array_equal(imported.weights.get(key, ()), array) for key, array in correct.weights.items())
    layers, expected = ([layer.name for layer, _ in each.workload.walk()] for each in (imported, correct))
    return weights and imported.source == correct.source and layers == expected


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
