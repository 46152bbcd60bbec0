"""The proof before the first trial, with real workers: of the source's own module, and of each framework's version."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import planted_imports as planted
import pytest
from conftest import PROJECT, make_spec
from planted_imports import PLANTED, Imported
from rich.console import Console
from suite import run_in

from reports.checking.evidence_check import find_differences
from reports.checking.stored_probes import Probes
from runner.environments.definition import read
from runner.gate.judge import Gate
from runner.input_files import INPUTS, write, write_array
from runner.launch import Launcher
from runner.proof import prove_imports
from runner.setup import build_local_launcher
from runner.storage import CannotGoOn
from workloads import weights
from workloads.records import network
from workloads.records.check_name import CheckName
from workloads.records.evidence import Evidence
from workloads.records.job import Installation, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.source_map import SOURCE, SOURCE_CODE, SOURCE_WEIGHTS, SourceMap
from workloads.records.status import Status

FILE = Path(__file__).parent / "imported" / "torch_net.py"
FRAMEWORK = "pytorch"
Prepare = Callable[[Imported], TrialSpec]
OWN_TENSORS = """
import sys
from pathlib import Path
folder, file, out = sys.argv[1:]
sys.path[:0] = [folder, folder + "/tests"]
import numpy as np
import torch
from adapters.shared import function_of
from planted_imports import CLASSES, trained
torch.manual_seed(0)
model = function_of(Path(file), "make_model")(CLASSES)
np.savez(out, **trained({name: tensor.numpy() for name, tensor in model.state_dict().items()}))
"""


@pytest.fixture(scope="module")
def launcher() -> Launcher:
    return build_local_launcher(read(PROJECT, FRAMEWORK, "cpu"), "venv")


@pytest.fixture(scope="module")
def correct(tmp_path_factory: pytest.TempPathFactory) -> tuple[Imported, Path]:
    """The correct import of torch_net.py, and the file of its tensors."""
    folder = tmp_path_factory.mktemp("tensors")
    script, tensors = folder / "own.py", folder / "tensors.npz"
    script.write_text(OWN_TENSORS)
    run_in(FRAMEWORK, script, str(PROJECT.root), str(FILE), str(tensors))
    own = planted.SOURCE.take(dict(np.load(tensors)), planted.NETWORK.weight_shapes())
    return Imported(planted.NETWORK, own), tensors


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    (folder / INPUTS).mkdir()
    return folder


@pytest.fixture(scope="module")
def prepare(correct: tuple[Imported, Path], results: Path) -> Prepare:
    """Return a function that writes the inputs of an import, and gives its trial."""
    images, labels, order = planted.draw_images()
    arrays = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    data = {name: write_array(results, name, array) for name, array in arrays.items()}
    data["order"] = write_array(results, "order", np.stack([order, order]))

    def prepared(imported: Imported) -> TrialSpec:
        archive = io.BytesIO()
        weights.save(archive, imported.weights)
        text = network.to_text(imported.workload).encode()
        inputs = data | {
            "weights": write(results, "weights", ".npz", archive.getbuffer()),
            "network": write(results, "network", ".json", memoryview(text)),
            SOURCE: write(results, "source", ".json", memoryview(imported.source.to_text().encode())),
            SOURCE_CODE: write(results, "code", ".py", memoryview(FILE.read_bytes())),
            SOURCE_WEIGHTS: write(results, "tensors", ".npz", memoryview(correct[1].read_bytes())),
        }
        named = {"framework": FRAMEWORK, "workload": imported.workload.name, "optimizer": planted.OPTIMIZER}
        trial = make_spec(**named, network=network.digest(imported.workload), inputs=inputs, threads=1)
        return replace(trial, installation=Installation("venv", "tests"))

    return prepared


@pytest.fixture(scope="module")
def gate(results: Path, launcher: Launcher) -> Gate:
    return Gate(results, PROJECT, {(FRAMEWORK, Installation("venv", "tests")): launcher})


def printed(spec: TrialSpec, gate: Gate) -> str:
    text = io.StringIO()
    prove_imports([spec, replace(spec, cell=replace(spec.cell, batch_size=64))], gate, Console(file=text, width=300))
    return text.getvalue()


def test_a_correct_import_is_proven_before_the_first_trial_and_the_check_of_each_trial_and_of_reports_says_so(
    correct: tuple[Imported, Path], prepare: Prepare, gate: Gate, results: Path
) -> None:
    spec = prepare(correct[0])
    line = printed(spec, gate)
    assert line.startswith("imported: the imported network is your model: forward ") and "(largest of pytorch)" in line
    assert len(list((results / "probes").iterdir())) == 2  # the source's answer, and PyTorch's version's
    trial = TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, evidence=gate.gather(spec, None))
    (check,) = gate.proofs.check(trial)
    assert check.name == CheckName.SOURCE and check.passed and check.detail.startswith("forward ")
    judged = replace(trial, checks=[check])
    assert list(find_differences(judged, Probes(results))) == []
    evidence = Evidence.from_json(trial.evidence)
    first, *others = (replace(each, loss=1.01 * each.loss, again=[]) for each in evidence.probes)
    changed = replace(judged, evidence=replace(first, again=others).to_json())
    found = list(find_differences(changed, Probes(results)))
    assert any("the loss differs from the source's by 100 times" in line for line in found), found


@pytest.mark.parametrize("error", ["padding on the other side", "dropout lost"])
def test_a_wrong_import_stops_the_run_before_any_trial_and_names_what_differs(
    error: str, correct: tuple[Imported, Path], prepare: Prepare, gate: Gate
) -> None:
    change, named = PLANTED[error]
    with pytest.raises(CannotGoOn) as stopped:
        printed(prepare(change(correct[0])), gate)
    message = str(stopped.value)
    assert message.startswith("nothing was measured: the imported network imported is not your model in pytorch: ")
    assert named in message and "\n" not in message


def test_a_source_whose_file_raises_stops_the_run_with_its_words(
    correct: tuple[Imported, Path], prepare: Prepare, gate: Gate
) -> None:
    code = replace(planted.CODE, function="make_nothing")
    source: SourceMap = replace(planted.SOURCE, code=code)
    with pytest.raises(CannotGoOn, match=r"could not be compared with its source: .*make_nothing"):
        printed(prepare(replace(correct[0], source=source)), gate)
