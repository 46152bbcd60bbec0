"""Correct adapters as another processor would run them, on draws that no tolerance was fitted on: none is flagged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from measure_differences import INSTRUCTION_SETS, Run, judged, truths
from settings import CASES, TRUTH
from suite import REFEREE, Found, run_probe

from runner.gate.tolerances import Truth, compute_deviations, find_difference
from workloads.records.build import Mode
from workloads.records.evidence import Evidence

UNFITTED = 10_000  # the draws of measure_differences.py have smaller numbers
NETWORKS, DRAWS = ("osu-cnn", "statistics"), 4  # one per rule
ELSEWHERE = [
    ("pytorch", "avx2"),
    ("pytorch", "sse41"),
    ("mxnet", "avx2"),
    ("mxnet", "sse41"),
    ("tensorflow", "plain"),
    ("tensorflow", "sse41"),
]


def run(folder: Path, framework: str, precision: str, instructions: str) -> None:
    module = f"adapters.{framework}.adapter"
    Run(framework, framework, module, precision, instructions, NETWORKS, DRAWS, UNFITTED).start(folder)


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tolerances")
    for precision in ("float32", TRUTH):
        run(folder, REFEREE, precision, "native")
    return folder


@pytest.mark.parametrize(("framework", "instructions"), ELSEWHERE, ids=str)
def test_a_right_adapter_is_not_suspected_with_the_instructions_of_another_processor(
    framework: str, instructions: str, gathered: Path
) -> None:
    run(gathered, framework, "float32", instructions)
    trials = judged(gathered, framework, instructions, truths(gathered))
    assert len(trials) == DRAWS * len(NETWORKS)
    largest = [max(trial.together, key=lambda deviation: deviation.ratio) for trial in trials]
    assert [str(one) for one in largest if one.ratio > 1] == []


def test_the_case_that_avx2_was_suspected_in_is_allowed(found: Found, tmp_path: Path) -> None:
    """MXNet's gradient of a bias in front of BatchNorm is nothing but rounding, here of another sum."""
    case = CASES["statistics-32"]
    for who in (TRUTH, REFEREE):
        found.of(who, case)
    variables = INSTRUCTION_SETS["avx2"]
    run_probe("mxnet", "adapters.mxnet.adapter", Mode(case.profile), found.inputs, tmp_path, [case], **variables)
    evidence = Evidence.from_json(json.loads((tmp_path / f"{case.name}.json").read_text()))
    exact, rounded = (Evidence.from_json(found.evidence(who, case)) for who in (TRUTH, REFEREE))
    truth = Truth(exact, rounded)
    assert find_difference(evidence, truth) is None
    assert max(deviation.ratio for deviation in compute_deviations(evidence, truth)) < 0.5
