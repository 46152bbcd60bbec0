"""The proof with the source in its real framework: a correct import passes, and every planted error is caught."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from planted_imports import OTHER_GELU, PLANTED
from suite import run_in

from runner.gate.source_facts import SourceAnswer, find_mismatch, find_other_names
from runner.gate.source_proof import Proof, compare_with_source, summarise
from runner.gate.tolerances import DeviationKind
from workloads.records import network
from workloads.records.evidence import Evidence
from workloads.records.source_map import SourceFacts, SourceMap

HERE = Path(__file__).parent / "imported"
sys.path.insert(0, str(HERE))
from planted_keras import KERAS_PLANTED  # noqa: E402

pytestmark = pytest.mark.real
ERRORS = {"pytorch": PLANTED, "tensorflow": KERAS_PLANTED}
FILES = {"pytorch": "torch_net.py", "tensorflow": "keras_net.py"}
Ask = Callable[..., dict[str, Any]]
CASES = [(framework, error) for framework, errors in ERRORS.items() for error in errors]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Return a function (framework, function) -> {error: what was answered}, each asked once."""

    @cache
    def ask(framework: str, function: str = "make_model") -> dict[str, Any]:
        out = tmp_path_factory.mktemp(f"{framework}-{function}")
        run_in(framework, HERE / "ask.py", framework, str(HERE / FILES[framework]), function, str(out))
        answers = [json.loads(path.read_text()) for path in out.glob("*.json")]
        return {answer["name"]: answer for answer in answers}

    return ask


def prove(answered: dict[str, Any]) -> Proof:
    source, workload = SourceMap.from_json(answered["map"]), network.from_json(answered["network"])
    evidence, theirs = (Evidence.from_json(answered[name]) for name in ("evidence", "source"))
    answer = SourceAnswer(theirs, SourceFacts.from_json(answered["facts"]), source)
    wrong = find_mismatch(answer, workload, answered["initial"]) or find_other_names(evidence, theirs)
    if wrong:
        return Proof(math.inf, math.inf, math.inf, wrong)
    return summarise(evidence, answer, compare_with_source(evidence, theirs))


@pytest.mark.parametrize("framework", ERRORS)
def test_a_correct_import_is_its_source(framework: str, asked: Ask) -> None:
    answered = asked(framework)["correct"]
    proof = prove(answered)
    assert proof.difference is None
    assert proof.forward < 1e-6 and proof.gradients < 1e-5 and proof.updates < 1e-5, proof
    assert len(answered["source"]["outputs"]) >= 8  # layers of the source's that are compared one by one


@pytest.mark.parametrize(("framework", "error"), CASES)
def test_an_error_that_is_planted_in_an_import_is_caught_and_named(framework: str, error: str, asked: Ask) -> None:
    difference = prove(asked(framework)[error]).difference
    assert difference is not None and ERRORS[framework][error][1] in difference, difference


def test_the_other_gelu_is_caught_and_named(asked: Ask) -> None:
    difference = prove(asked("pytorch", "make_approximate")["correct"]).difference
    assert difference is not None and OTHER_GELU in difference
    assert difference.endswith("in the source it is block1.gelu")


@pytest.fixture(scope="module")
def inner() -> dict[str, Any]:
    """Answers of TensorFlow's source about models in models."""
    found: dict[str, Any] = json.loads(run_in("tensorflow", HERE / "keras_ends.py").splitlines()[-1])
    return found


def test_a_keras_model_whose_end_is_in_a_model_inside_gives_logits(inner: dict[str, Any]) -> None:
    assert len(inner["apart"]) == 16 and max(inner["apart"].values()) < 1e-5, inner["apart"]
    assert min(inner["probabilities"].values()) > 0.1  # a test of the test: before, they are none


def test_masks_inside_a_keras_model_are_listed_in_the_order_of_the_computation(inner: dict[str, Any]) -> None:
    assert inner["masks"] == ["first", "second", "third", "fourth"]


def test_a_mask_that_a_keras_model_uses_twice_is_listed_twice(inner: dict[str, Any]) -> None:
    assert inner["again"] == ["twice", "between", "twice"]


@pytest.fixture(scope="module")
def again() -> dict[str, Any]:
    """Answers of models that were built once for three draws of images, which here are the same images."""
    found = json.loads(run_in("tensorflow", HERE / "again.py", str(HERE / FILES["tensorflow"])).splitlines()[-1])
    restored = {key: found.pop(key) for key in list(found) if key.endswith("restored")}
    assert len(restored) == len(found) - 1 == 8 and all(restored.values()), restored
    return dict(found)


def test_a_restored_model_of_tensorflow_computes_what_a_new_one_does(again: dict[str, Any]) -> None:
    answers = {key: three for key, three in again.items() if key.endswith((", own", ", source"))}
    assert len(answers) == 6
    for key, (first, *others) in answers.items():
        assert len(others) == 2 and all(other == first for other in others), key


def test_a_parameter_that_the_loss_does_not_depend_on_has_a_gradient_of_zeros(again: dict[str, Any]) -> None:
    first, *others = again["lost"]
    assert first == 0 and max(others) > 0


@pytest.mark.parametrize("error", ["half the rate", "a step too many"])
def test_a_mistake_of_build_is_caught_in_a_model_that_is_built_once(error: str, again: dict[str, Any]) -> None:
    """The nearest draw counts: a draw in which the mistake was repaired would let it pass."""
    first, *others = (Evidence.from_json(each) for each in again["adam, own"])
    source = replace(first, again=others)
    wrong = next(each for each in compare_with_source(Evidence.from_json(again[error]), source) if each.ratio > 1)
    assert (wrong.kind, wrong.steps) == (DeviationKind.UPDATES, 1), wrong
