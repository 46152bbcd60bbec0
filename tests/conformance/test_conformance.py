"""Every adapter, in its own environment, compared with the referee in float64. Tolerances: settings.py."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import suite
from conftest import PROJECT
from settings import ALIKE, CASES, OPTIMIZERS, TRUTH, Case, shallow, unnamed
from suite import (
    CHECKS,
    DEVIATIONS_FILE,
    FRAMEWORKS,
    Found,
    Seen,
    apart,
    cases_of,
    checks_of,
    deviations_in,
    imports_of_others,
    known_deviations,
    run_probe,
    under,
    verdict,
)

from adapters.base import MEMORY_KINDS
from runner.environments.definition import build_worker_variables, read
from workloads.layers import Add
from workloads.networks import WORKLOADS
from workloads.records.build import Mode

COMBINATIONS = [pytest.param(name, case, id=f"{name}-{case.name}") for name in FRAMEWORKS for case in cases_of(name)]


@pytest.mark.parametrize(("framework", "case"), COMBINATIONS)
def test_adapter_agrees_with_the_referee_in_every_check_of(framework: str, case: Case, found: Found) -> None:
    seen = Seen(case, found.of(framework, case), found.of(TRUTH, case), found.initial(case))
    known = known_deviations(framework)
    checks = checks_of(case)
    wrong = {name: verdict(check(seen), known.get((case.twin, name))) for name, check in checks.items()}
    assert checks and not any(wrong.values()), {name: said for name, said in wrong.items() if said}


def test_a_shallow_network_has_every_form_of_layer_and_block_of_the_whole_one_in_its_order() -> None:
    for network in WORKLOADS.values():
        kept = shallow(network.layers)
        assert {unnamed(layer) for layer in kept} == {unnamed(layer) for layer in network.layers}
        assert [layer for layer in network.layers if layer in kept] == list(kept)
    blocks = [layer.name for layer in CASES["convnext-tiny"].workload.layers if isinstance(layer, Add)]
    assert len(blocks) == 4 * ALIKE


def test_a_known_deviation_excuses_its_own_check_alone_and_only_while_it_is_there() -> None:
    assert verdict("differs", None) == "differs"
    assert verdict("differs", "keeps the unbiased variance") == ""
    assert "take the entry out" in verdict("", "keeps the unbiased variance")


DEVIATION = """
[[deviation]]
case = "statistics-2"
check = "evaluation"
reason = "keeps the unbiased variance"
link = "where its maintainers say so"
"""


def test_a_frameworks_own_folder_says_what_it_is_known_to_compute_otherwise(tmp_path: Path) -> None:
    path = tmp_path / DEVIATIONS_FILE
    assert deviations_in(path) == {}
    path.write_text(DEVIATION)
    assert deviations_in(path) == {("statistics-2", "evaluation"): "keeps the unbiased variance"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('case = "statistics-2"', 'case = "statistics-3"', "no such case"),
        ('check = "evaluation"', 'check = "evaluations"', "no such check"),
        ('link = "where its maintainers say so"', "", "needs all of"),
        ('case = "statistics-2"', "case = [1]", "needs all of"),
        ("[[deviation]]", "[deviation]", "may hold"),
        ("[[deviation]]", "[[deviations]]", "may hold"),
        ("[[deviation]]", "[[deviation", "known_deviations.toml: "),
    ],
)
def test_a_deviation_that_says_too_little_or_of_nothing_is_an_error(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / DEVIATIONS_FILE
    path.write_text(DEVIATION.replace(old, new))
    with pytest.raises(AssertionError, match=said):
        deviations_in(path)


def test_outputs_in_another_order_or_by_other_names_are_told_as_that(found: Found) -> None:
    """Order and names survive the file in which a probe's arrays come."""
    case = CASES["plain-sgd"]
    arrays = found.of(TRUTH, case)
    right = Seen(case, arrays, arrays, found.initial(case))
    assert CHECKS["layers"](right) == ""
    turned = replace(right, found=dict(reversed(arrays.items())))
    assert "in a different order: dense2 is where conv1 belongs" in CHECKS["layers"](turned)
    less = replace(right, found={key: array for key, array in arrays.items() if key != "outputs/relu2"})
    assert "named differently: relu2 is missing" in CHECKS["layers"](less)


def test_the_first_loss_that_differs_is_named_by_its_verb_and_a_wrong_number_of_them_is_told(found: Found) -> None:
    case = CASES["plain-sgd"]
    arrays = found.of(TRUTH, case)

    def told(losses: np.ndarray = arrays["losses"], loss: np.ndarray = arrays["loss"]) -> str:
        wrong = {**arrays, "losses": losses, "loss": loss}
        return CHECKS["losses"](Seen(case, wrong, arrays, found.initial(case)))

    late, lost = arrays["losses"].copy(), arrays["losses"].copy()
    late[1], late[5], lost[2] = 1.01 * late[1], 2 * late[5], np.nan
    assert told() == ""
    assert told(late).startswith("the loss of step 2 differs by 1.0e-02 ")
    assert told(lost).startswith("the loss of step 3 differs by nan ")
    assert told(late, 2 * arrays["loss"]).startswith("the loss of probe() differs by 1.0e+00 ")
    assert told(late[:-1]) == f"read() gives {len(late) - 1} losses, {len(late)} expected"


def test_a_value_that_is_not_a_number_differs_in_whichever_array_it_is() -> None:
    expected = {"first": np.ones(2), "last": np.ones(2)}
    for key in expected:
        wrong = expected | {key: np.array([1.0, np.nan])}
        assert suite.excess(wrong, expected, 1e-3).startswith(f"{key} differs by nan ")
        assert np.isnan(suite.norms_apart(wrong, expected, 0.0)[0])


def test_memory_that_is_not_counted_or_not_mentioned_is_no_traceback(found: Found) -> None:
    case = CASES["plain-momentum"]
    arrays, nbytes = found.of(TRUTH, case), 4 * case.workload.parameter_count

    def told(check: str, memory: dict[str, object]) -> str:
        wrong = {**arrays, "memory": np.array(json.dumps(memory))}
        return CHECKS[check](Seen(case, wrong, arrays, found.initial(case)))

    unknown: dict[str, object] = dict.fromkeys(MEMORY_KINDS, "not counted")
    assert told("structure", unknown) == told("optimizer_state", unknown) == ""
    assert told("optimizer_state", unknown | {"optimizer": nbytes}) == ""
    assert told("optimizer_state", unknown | {"optimizer": 0}) == f"0 bytes, 1 x {nbytes} expected"
    less = {kind: why for kind, why in unknown.items() if kind != "optimizer"} | {"gradients": None}
    assert told("structure", less) == "memory() says neither bytes nor a reason for gradients, optimizer"


def test_a_missing_environment_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(suite, "PROJECT", replace(PROJECT, environments=tmp_path))
    with pytest.raises(AssertionError, match="numpy-cpu is not made"):
        run_probe("numpy", "adapters.numpy.adapter", Mode(), tmp_path, tmp_path, list(CASES.values()))


DILATED_STRIDE = """
from adapters.base import Unsupported
from adapters.keras_shared.layers import convolution
from workloads.layers import Conv2D
try:
    convolution(Conv2D("both", 4, (3, 3), stride=2, dilation=2), iter(()))
except Unsupported as error:
    print(error)
"""


def test_keras_refuses_a_convolution_with_a_stride_and_a_dilation() -> None:
    environment = read(PROJECT, "tensorflow", "cpu")
    variables = {"PATH": os.environ["PATH"], **PROJECT.import_variables, **build_worker_variables(environment)}
    command = [str(environment.interpreter), "-c", DILATED_STRIDE]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "layer both: Keras has no convolution with both a stride and a dilation\n"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_other_framework_is_loaded_beside(framework: str, found: Found) -> None:
    found.of(framework, CASES["plain-sgd"])
    assert not found.modules(framework) & imports_of_others(framework)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_rounding_stays_within_what_the_readme_tells(
    framework: str, found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prints the largest differences of losses (relative) and weights (absolute) up to steps 1, 10 and 100.

    The last has no limit: a value close to a kink of ReLU or of a pool may fall on its other side.
    """
    with capsys.disabled():
        for case in (case for case in CASES.values() if case.marks[-1] == 100):
            arrays, expected = found.of(framework, case), found.of(TRUTH, case)
            losses = np.abs(arrays["losses"] / expected["losses"] - 1)
            pairs = [(under(arrays, f"after/{mark}/"), under(expected, f"after/{mark}/")) for mark in case.marks]
            weights = [apart(*pair, scale=1.0)[0] for pair in pairs]
            told = [f"{losses[:mark].max():.0e}" for mark in case.marks], [f"{weight:.0e}" for weight in weights]
            print(f"\n{framework} {case.name}: losses {', '.join(told[0])}; weights {', '.join(told[1])}", end="")
            assert losses[:10].max() <= 2e-6 and weights[1] <= 1e-6


def test_the_probes_tell_one_rule_from_another(found: Found) -> None:
    """Each rule's losses, taken for another's, must fail."""
    for network in ("plain", "batchnorm"):
        rules = {rule: CASES[f"{network}-{rule}"] for rule in OPTIMIZERS}
        for rule, case in rules.items():
            for other, wrong in rules.items():
                seen = Seen(case, found.of(TRUTH, wrong), found.of(TRUTH, case), found.initial(case))
                told = CHECKS["losses"](seen), CHECKS["weights"](seen)
                assert all(told) == (rule != other), (rule, other, told)
