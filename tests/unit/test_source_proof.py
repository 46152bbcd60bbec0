"""The proof that an imported network is its source: the numpy referee plays both, with errors planted in the import."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import planted_imports as planted
import pytest
from planted_imports import NETWORK, OPTIMIZER, PLANTED, SOURCE, Imported

from adapters.base import Floats, SourceVerbs
from adapters.numpy import layers as numpy_layers
from adapters.numpy.adapter import Adapter
from adapters.worker.first_probe import ProbeUpdates, gather
from adapters.worker.source_voter import SourceVoter
from runner.gate.source_proof import (
    Proof,
    SourceAnswer,
    compare_with_source,
    find_mismatch,
    find_other_names,
    summarise,
)
from workloads.datasets import Images, Labels
from workloads.layers import Gelu, StochasticDepth
from workloads.records.evidence import Evidence, fingerprint
from workloads.records.network import OwnCode
from workloads.records.source_map import DRAWN, Mask, SourceFacts, SourceMap, SourceParameter
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
    evidence = gather(voter, task, IMAGES, LABELS, ORDER, ProbeUpdates(imported=True))
    return SourceAnswer(through_json(evidence), voter.facts(IMAGES[:4]), source)


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
        "forward 3e-07, gradients 2e-06, three updates 5e-06"
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
