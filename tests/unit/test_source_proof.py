"""The proof that an imported network is its source: the numpy referee plays both, with errors planted in the import."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import planted_imports as planted
import probed
import pytest
from conftest import PROJECT, make_spec
from planted_imports import NETWORK, OPTIMIZER, PLANTED, SOURCE, Imported
from rich.console import Console

from adapters.base import Floats, SourceVerbs
from adapters.numpy import layers as numpy_layers
from adapters.numpy.adapter import Adapter
from adapters.worker.first_probe import ProbeUpdates, gather
from adapters.worker.source_voter import SourceVoter
from reports.checking.evidence_check import find_differences
from reports.checking.stored_probes import Probes
from runner.gate import judge, source_proof
from runner.gate.judge import Gate
from runner.gate.rounding import disturb_weights
from runner.gate.source_facts import SourceAnswer, find_mismatch, find_other_mask, find_other_names
from runner.gate.source_proof import Proof, SourceProofs, compare_with_source, summarise
from runner.input_files import INPUTS, write
from runner.launch import LaunchFailed, Local
from runner.proof import prove_imports
from workloads import weights as initial_weights
from workloads.datasets import Images, Labels
from workloads.layers import Add, Dropout, Gelu, StochasticDepth
from workloads.records import network
from workloads.records.check_name import CheckName
from workloads.records.evidence import Evidence, fingerprint
from workloads.records.files import EVENTS_FILE, JOB_FILE, without_nan, write_json
from workloads.records.job import Installation, Job, Kind, TrialSpec
from workloads.records.network import OwnCode
from workloads.records.result import Check, TrialResult
from workloads.records.source_map import DRAWN, Mask, SourceFacts, SourceMap, SourceParameter
from workloads.records.source_map import SOURCE as SOURCE_INPUT
from workloads.records.status import Status
from workloads.spec import OptimizerSpec
from workloads.weights import Weights

IMAGES, LABELS, ORDER = planted.draw_images()
WEIGHTS = planted.draw_weights()
SEED = 3


def in_source(weights: Weights) -> dict[str, Any]:
    """The weights by PyTorch's names, in its layouts."""
    return {each.source_name: planted.put(each, weights[each.key]).copy() for each in SOURCE.parameters}


class Module(Adapter):
    """The referee as the source's framework: its model is NETWORK, whatever code is given."""

    tensors: Weights = WEIGHTS

    def build_model(self, make_model: Callable[[int], Any], own: OwnCode, optimizer: OptimizerSpec, seed: int) -> int:
        self.build(replace(NETWORK, scale=own.scale), optimizer, self.tensors, seed)
        return 0


class Verbs(SourceVerbs):
    """The verbs of that framework, which has PyTorch's names and layouts."""

    channels_first = True

    def __init__(self, adapter: Module) -> None:
        self.adapter = adapter

    def maker(self, path: Path, function: str) -> Callable[[int], Any]:
        return lambda classes: None

    def tensors(self) -> dict[str, Any]:
        return in_source(self.adapter.weights())

    def set_tensors(self, tensors: Mapping[str, Any]) -> None:
        weights = SOURCE.take(tensors, NETWORK.weight_shapes())
        self.adapter.state |= {key: array.astype(self.adapter.dtype) for key, array in weights.items()}

    def count_parameters(self) -> int:
        return NETWORK.parameter_count

    def list_masks(self, images: Images) -> list[Mask]:
        layers = [layer for layer, _ in NETWORK.walk() if hasattr(layer, "rate")]
        covers = {True: "image", False: "value"}
        return [Mask(layer.name, covers[isinstance(layer, StochasticDepth)], layer.rate) for layer in layers]

    def stop_masks(self) -> None:
        self.adapter.workload = self.adapter.workload.without_dropout()

    def keep_biased_variance(self, pixels: Mapping[str, int]) -> None:
        assert pixels["middle_norm.running_var"] == 3 * 2

    def differentiate(
        self, images: Images, labels: Labels, places: Sequence[str]
    ) -> tuple[float, dict[str, Any], dict[str, list[Floats]]]:
        probe = self.adapter.probe(images, labels)
        outputs: dict[str, list[Floats]] = {}
        for layer, output in probe.outputs.items():
            if (place := planted.PLACES.get(layer, "")) in places:
                native = output.transpose(0, 3, 1, 2) if output.ndim == 4 else output
                outputs.setdefault(place, []).append(native)
        gradients = {
            each.source_name: planted.put(each, probe.gradients[each.key])
            for each in SOURCE.parameters
            if each.key in probe.gradients
        }
        return probe.loss, gradients, outputs


def opened(adapter: Adapter) -> Any:
    adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
    adapter.load(IMAGES, LABELS)
    return adapter


def ask_source(imported: Imported, source: SourceMap | None = None) -> SourceAnswer:
    """The source's answer to the probe of this import."""
    adapter, source = opened(Module()), source or imported.source
    voter = SourceVoter(adapter, Verbs(adapter), source, Path("net.py"))
    task = imported.workload, OPTIMIZER, imported.weights, SEED
    facts = voter.facts(task, IMAGES[:4])
    evidence = gather(voter, task, IMAGES, LABELS, ORDER, ProbeUpdates(imported=True))
    return SourceAnswer(through_json(evidence), facts, source)


@cache
def usual_answer() -> SourceAnswer:
    """The answer to an import with the source's own weights."""
    return ask_source(CORRECT)


def through_json(evidence: Evidence) -> Evidence:
    return Evidence.from_json(evidence.to_json())


def prove(imported: Imported, answer: SourceAnswer | None = None) -> Proof:
    """The proof of this import by the referee."""
    same = imported.source == SOURCE and all(
        np.array_equal(imported.weights.get(key, ()), WEIGHTS[key]) for key in WEIGHTS
    )
    same = same and [layer.name for layer, _ in imported.workload.walk()] == [layer.name for layer, _ in NETWORK.walk()]
    answer = answer or (usual_answer() if same else ask_source(imported))
    initial = {key: fingerprint(each) for key, each in imported.weights.items()}
    if wrong := find_mismatch(answer, imported.workload, {} if answer.source.initial == DRAWN else initial):
        return Proof(math.inf, math.inf, math.inf, wrong)
    task = imported.workload, OPTIMIZER, imported.weights, SEED
    evidence = gather(opened(Adapter()), task, IMAGES, LABELS, ORDER, ProbeUpdates(imported=True))
    if wrong := find_other_names(evidence, answer.evidence):
        return Proof(math.inf, math.inf, math.inf, wrong)
    return summarise(evidence, answer, compare_with_source(evidence, answer.evidence))


CORRECT = Imported(NETWORK, WEIGHTS)


def test_a_correct_import_is_its_source_to_rounding() -> None:
    proof = prove(CORRECT)
    assert proof.difference is None
    assert max(proof.forward, proof.gradients, proof.updates) < 1e-6
    assert str(replace(proof, forward=3.2e-7, gradients=2e-6, updates=5e-6)) == (
        "forward 3e-07, gradients 2e-06, three updates 5e-06 of their change"
    )


def test_a_correct_import_with_drawn_weights_is_its_source_with_these_weights() -> None:
    source = replace(SOURCE, initial=DRAWN)
    imported = Imported(NETWORK, {key: 0.5 * array for key, array in WEIGHTS.items()}, source)
    assert prove(imported).difference is None
    assert prove(Imported(NETWORK, imported.weights)).difference is not None  # not the source's own


@pytest.mark.parametrize("error", PLANTED)
def test_an_error_that_is_planted_in_an_import_is_caught_and_named(error: str) -> None:
    change, named = PLANTED[error]
    difference = prove(change(CORRECT)).difference
    assert difference is not None and named in difference, difference


def test_the_other_gelu_is_caught_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_tanh(x: Any) -> tuple[Any, Any]:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
        half = (1 + np.tanh(inner)) / 2
        return x * half, half + x * (1 - np.tanh(inner) ** 2) / 2 * slope

    with monkeypatch.context() as patched:
        patched.setitem(numpy_layers.ELEMENTWISE, Gelu, by_tanh)
        answer = ask_source(CORRECT)
    difference = prove(CORRECT, answer).difference
    assert difference is not None and planted.OTHER_GELU in difference
    assert difference.endswith("in the source it is block1.gelu")


def test_twenty_and_more_errors_are_planted() -> None:
    assert len(PLANTED) + 1 >= 20


def test_a_weight_may_be_a_part_of_a_tensor_reshaped_and_transposed() -> None:
    tensor = np.arange(24, dtype=np.float32).reshape(6, 4)
    part = SourceParameter("attention/key_kernel", "in_proj_weight", (1, 0), part=(1, 3))
    assert np.array_equal(part.take(tensor, (4, 2)), tensor[2:4].T)
    flattened = SourceParameter("head/kernel", "head.weight", (2, 3, 1, 0), shape=(6, 2, 2, 1))
    assert np.array_equal(flattened.take(tensor, (4, 6)), tensor.T[[0, 2, 1, 3]])  # two pixels of two channels
    for each, shape in ((part, (4, 2)), (flattened, (4, 6))):
        changed = tensor.copy()
        each.put(each.take(tensor, shape) + 1, changed)
        assert np.array_equal(each.take(changed, shape), each.take(tensor, shape) + 1)


def test_a_map_survives_its_file(tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text(SOURCE.to_text())
    assert SourceMap.read(tmp_path / "map.json") == SOURCE


def test_facts_survive_json() -> None:
    facts = SourceFacts(7, [Mask("drop", "value", 0.5)], {"head/bias": [1.0, 2.0]})
    assert SourceFacts.from_json(facts.to_json()) == facts


@pytest.fixture
def spec(tmp_path: Path) -> TrialSpec:
    """A trial of the import in PyTorch, with its inputs below `tmp_path`."""
    (tmp_path / INPUTS).mkdir()
    archive = io.BytesIO()
    initial_weights.save(archive, WEIGHTS)
    inputs = {
        "weights": write(tmp_path, "weights", ".npz", archive.getbuffer()),
        "network": write(tmp_path, "network", ".json", memoryview(network.to_text(NETWORK).encode())),
        SOURCE_INPUT: write(tmp_path, "source", ".json", memoryview(SOURCE.to_text().encode())),
    }
    named = {"framework": "pytorch", "workload": NETWORK.name, "optimizer": OPTIMIZER}
    return make_spec(**named, network=network.digest(NETWORK), inputs=inputs)


def trial_of(spec: TrialSpec, evidence: Evidence, *checks: Check) -> TrialResult:
    """The trial, measured, with this evidence as a worker writes it."""
    written = without_nan(evidence.to_json())
    return TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, evidence=written, checks=list(checks))


def changed(change: Callable[[Evidence], Evidence]) -> Evidence:
    """The source's evidence, changed in every draw of images."""
    return probed.through_json(probed.everywhere(usual_answer().evidence, change))


def without_numbers(probe: Evidence) -> Evidence:
    nothing = [math.nan] * len(probe.untrained_evaluation)
    return replace(probe, loss=math.nan, losses=[math.nan] * len(probe.losses), untrained_evaluation=nothing)


def test_a_trial_whose_source_does_not_answer_fails_its_check_unless_it_was_checked_before(
    spec: TrialSpec, tmp_path: Path
) -> None:
    trial = trial_of(spec, usual_answer().evidence)
    (check,) = SourceProofs(tmp_path, {}).check(trial)
    assert check.name == CheckName.SOURCE and not check.passed
    assert check.detail.startswith("it was not compared with its source: its own framework, pytorch, cannot be started")
    before = [Check(CheckName.SOURCE, True, "forward 3e-07"), Check(CheckName.GATE, True, "-")]
    assert SourceProofs(tmp_path, {}).check(replace(trial, checks=before)) == before[:1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_numbers, "the source's own loss or logits are not numbers"),
        (lambda probe: replace(probe, losses=[]), "the source's answer lacks losses, logits or updates"),
        (lambda probe: replace(probe, untrained_evaluation=[]), "the source's answer lacks losses, logits or updates"),
        (lambda probe: replace(probe, updates={}), "the source's answer lacks losses, logits or updates"),
    ],
)
def test_an_answer_that_says_nothing_proves_nothing_though_the_import_answers_the_same(
    change: Callable[[Evidence], Evidence], said: str, spec: TrialSpec, tmp_path: Path
) -> None:
    answer = replace(usual_answer(), evidence=changed(change))
    assert SourceProofs(tmp_path, {}).prove(spec, answer.evidence, answer, NETWORK).difference == said


def test_an_import_that_made_fewer_updates_than_its_source_or_answered_no_probe_is_not_proven() -> None:
    fewer = changed(lambda probe: replace(probe, updates={"1": probe.updates["1"]}))
    answer = usual_answer()
    assert find_other_names(fewer, answer.evidence) == "the network did not answer with 2 updates, the source did"
    assert summarise(answer.evidence, answer, []).difference == "the source answered no probe"


def test_the_initial_weights_are_read_once_for_all_judgements(
    spec: TrialSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Path] = []

    def load(path: Path) -> Weights:
        loaded.append(path)
        return WEIGHTS

    monkeypatch.setattr(initial_weights, "load", load)
    proofs, answer = SourceProofs(tmp_path, {}), usual_answer()
    for _ in range(3):
        assert proofs.prove(spec, answer.evidence, answer, NETWORK).difference is None
    assert loaded == [tmp_path / spec.inputs["weights"].path]


def test_masks_of_parallel_branches_are_compared_by_their_modules_in_whatever_order_these_are_called() -> None:
    branches = ((Dropout("left", 0.1),), (Dropout("right", 0.2),), (Dropout("left_again", 0.1),))
    workload = replace(NETWORK, layers=(Add("both", branches),))
    called = [Mask("net.right", "value", 0.2), Mask("net.left", "value", 0.1), Mask("net.left", "value", 0.1)]
    places = {"left": "net.left", "right": "net.right", "left_again": "net.left"}
    assert find_other_mask(workload, called, places) is None
    assert find_other_mask(workload, called, places | {"right": ""}) is not None  # by their order
    called[0] = Mask("net.right", "value", 0.3)
    wrong = "right drops each value with probability 0.2, the source's net.right each value with probability 0.3"
    assert find_other_mask(workload, called, places) == wrong
    lost = find_other_mask(workload, called[1:], places)
    assert lost is not None and lost.startswith("right drops each value with probability 0.2, ")


def test_a_framework_whose_probe_fails_is_said_not_to_be_compared_with_the_source(
    spec: TrialSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LaunchFailed("failed: no memory left")

    monkeypatch.setattr(judge, "ask_probe", fail)
    spec = replace(spec, installation=Installation("venv", "tests"))
    gate = Gate(tmp_path, PROJECT, {("pytorch", spec.installation): Local("python", {}, PROJECT)})
    text = io.StringIO()
    prove_imports([spec], gate, Console(file=text, width=300))
    said = "imported: not compared with its source in pytorch: its probe failed: failed: no memory left\n"
    assert text.getvalue() == said


def test_the_source_finds_the_callers_weights_and_proxy_and_a_frameworks_own_probe_does_not(
    spec: TrialSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[bool, dict[str, str]] = {}

    def ask(asked: TrialSpec, _: Path, launcher: Local) -> None:
        seen[asked.task.own_code is not None] = launcher.environment(asked.placement)
        raise LaunchFailed("enough")

    monkeypatch.setenv("TORCH_HOME", "/weights")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setattr(judge, "ask_probe", ask)
    monkeypatch.setattr(source_proof, "ask_probe", ask)
    launchers = {("pytorch", spec.installation): Local("python", {}, PROJECT)}
    assert SourceProofs(tmp_path, launchers).ask(spec) == "enough"
    prove_imports([spec], Gate(tmp_path, PROJECT, launchers), Console(file=io.StringIO()))
    assert seen[True].items() >= {"TORCH_HOME": "/weights", "https_proxy": "http://proxy:3128"}.items()
    assert not {"TORCH_HOME", "https_proxy"} & seen[False].keys()


def store_probe(results: Path, spec: TrialSpec, evidence: Evidence) -> None:
    """Store an answer to the probe of this trial, as a worker does."""
    job = Job(Kind.PROBE, spec)
    folder = job.folder(results)
    folder.mkdir(parents=True)
    write_json(folder / JOB_FILE, job.to_json())
    event = {"event": "probed", "t_ns": 1, "evidence": without_nan(evidence.to_json())}
    (folder / EVENTS_FILE).write_text(json.dumps(event) + "\n")


def judged_again(results: Path, spec: TrialSpec, evidence: Evidence, source: Evidence) -> list[str]:
    """Findings of the check of stored evidence on a trial that has passed."""
    store_probe(results, replace(spec, task=replace(spec.task, own_code=SOURCE.code)), source)
    trial = trial_of(spec, evidence, Check(CheckName.SOURCE, True, "-"))
    return list(find_differences(trial, Probes(results)))


def test_a_network_that_passed_by_what_disturbed_weights_do_is_not_accused_later(
    spec: TrialSpec, tmp_path: Path
) -> None:
    apart = probed.moved(usual_answer().evidence, "outputs", "head", 2e-3)
    (line,) = judged_again(tmp_path, spec, apart, usual_answer().evidence)
    assert "judged again, outputs of head differs from the source's by" in line
    moved = probed.moved(usual_answer().evidence, "outputs", "head", 3e-3)
    store_probe(tmp_path, disturb_weights(spec, tmp_path, 0), moved)
    trial = trial_of(spec, apart, Check(CheckName.SOURCE, True, "-"))
    assert list(find_differences(trial, Probes(tmp_path))) == []


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda probe: replace(probe, loss=math.nan), "the loss"),
        (lambda probe: replace(probe, outputs=probe.outputs | {"head": [math.nan] * 5}), "outputs of head"),
        (lambda probe: replace(probe, untrained_evaluation=[math.nan] * 5), "the evaluation before any step"),
    ],
)
def test_a_stored_answer_that_is_no_number_allows_no_verdict_though_the_source_answers_the_same(
    change: Callable[[Evidence], Evidence], name: str, spec: TrialSpec, tmp_path: Path
) -> None:
    nothing = changed(change)
    (line,) = judged_again(tmp_path, spec, nothing, nothing)
    assert f"judged again, {name} differs from the source's by inf times" in line
