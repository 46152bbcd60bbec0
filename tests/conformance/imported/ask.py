"""Run inside a framework's environment: python ask.py FRAMEWORK SOURCE_FILE FUNCTION OUT.

Asks the source's own module, and the framework's version of its correct import and of each planted error, the gate's
probe. Writes OUT/NUMBER.json, for each of them: both answers, and what each was asked about.
"""

import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

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
from workloads.records.source_map import SourceMap  # noqa: E402

SEED = 3
NETWORKS = {
    "pytorch": (planted.NETWORK, planted.SOURCE, planted.PLANTED),
    "tensorflow": (KERAS_NETWORK, KERAS_SOURCE, KERAS_PLANTED),
}


def opened(framework: str):
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

    def ask(imported: Imported, source: SourceMap) -> dict:
        task = imported.workload, planted.OPTIMIZER, imported.weights, SEED
        voter = SourceVoter(adapter, verbs, source, file, own)
        asked = ProbeUpdates(imported=True)
        answer = gather(voter, task, images, labels, order, asked).to_json()
        evidence = gather(adapter, task, images, labels, order, asked).to_json()
        initial = {key: fingerprint(array) for key, array in imported.weights.items()}
        facts = voter.facts(images[:4]).to_json()
        return {
            "source": answer,
            "facts": facts,
            "evidence": evidence,
            "initial": initial,
            "map": source.to_json(),
            "network": network.to_json(imported.workload),
        }

    correct = Imported(workload, weights, source)
    for number, (name, change) in enumerate({"correct": lambda given: given, **errors}.items()):
        made = (change[0] if isinstance(change, tuple) else change)(correct)
        (out / f"{number}.json").write_text(json.dumps({"name": name, **ask(made, made.source)}))
        if function != "make_model":
            break


if __name__ == "__main__":
    np.seterr(all="ignore")
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
