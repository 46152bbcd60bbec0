"""Every adapter in precisions with fewer digits than float32, by the gate's own evidence, compared with the referee
that rounds as they do. This tests what is computed, not how fast: a processor without such instructions converts there
and back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from conftest import REAL_FRAMEWORKS
from planted import errors_of
from settings import CASES, TRUTH, Case
from suite import REFEREE, Found

from runner.gate.tolerances import TOO_EXACT, Truth, compute_deviations, compute_rounding_share, find_difference
from runner.machine.description import read_cpu_flags
from workloads.records import processor
from workloads.records.build import DEFAULT, TUNED, Column, Mode
from workloads.records.evidence import Evidence

# Every rule, and every kind of layer.
NAMES = (
    "plain-sgd",
    "plain-momentum",
    "plain-nesterov",
    "plain-adam",
    "plain-adamw",
    "plain-rmsprop",
    "plain-adam-changing",
    "batchnorm-momentum",
    "padding",
    "mobile",
    "binary",
    "branches",
    "pooling",
    "resize",
    "grouped",
    "transformer",
    "smooth",
    "osu-cnn",
)
OF_PRECISIONS = [CASES[name] for name in NAMES]
MODES = [(framework, Mode(profile, "bfloat16")) for framework in REAL_FRAMEWORKS for profile in (DEFAULT, TUNED)] + [
    (framework, Mode(TUNED, "float16")) for framework in ("pytorch", "tensorflow")
]
IN_MODES = pytest.mark.parametrize(
    ("framework", "mode"), MODES, ids=[str(Column(name, mode=mode)) for name, mode in MODES]
)
# Planted errors of each framework, except those below the rounding of bfloat16: docs/evidence/tolerances.md.
SEEN = ("adam_epsilon_inside", "batchnorm_unbiased", "attention_unscaled", "sum_of_losses", "nesterov_ignored",
        "softmax_twice")  # fmt: skip
UNSEEN = ("weight_decay", "gelu_by_tanh")


def given(
    mode: Mode, framework: str, cases: Sequence[Case], found: Found, module: str = "", who: str = ""
) -> list[Evidence]:
    """Return the evidence; skip where the framework refuses what the processor has no instructions for."""
    if framework == "mxnet" and (reason := processor.explain_lack(mode.precision, read_cpu_flags(processor.COMPUTES))):
        pytest.skip(f"MXNet computes {mode.precision} only by the processor's own instructions: {reason}")
    return found.evidence_in(mode, framework, cases, module, who)


def truths(precision: str, found: Found, cases: Sequence[Case] = OF_PRECISIONS) -> list[Truth]:
    for case in cases:
        found.of(TRUTH, case)
    exact = [Evidence.from_json(found.evidence(TRUTH, case)) for case in cases]
    who = REFEREE if cases is OF_PRECISIONS else f"{REFEREE}-{'-'.join(case.name for case in cases)}"
    rounded = found.evidence_in(Mode(precision=precision), REFEREE, cases, who=who)
    return [Truth(*pair, precision=precision) for pair in zip(exact, rounded, strict=True)]


def largest_ratio(evidence: Evidence, truth: Truth) -> float:
    return max(deviation.ratio for deviation in compute_deviations(evidence, truth))


@IN_MODES
def test_no_adapter_is_suspected_in_a_precision_of_fewer_digits(
    framework: str, mode: Mode, found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence, exact = given(mode, framework, OF_PRECISIONS, found), truths(mode.precision, found)
    ratios = {case.name: largest_ratio(e, t) for case, e, t in zip(OF_PRECISIONS, evidence, exact, strict=True)}
    with capsys.disabled():
        print(
            f"\n{Column(framework, mode=mode)}: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        )
    told = [find_difference(*pair) for pair in zip(evidence, exact, strict=True)]
    assert [(case.name, each) for case, each in zip(OF_PRECISIONS, told, strict=True) if each] == []


@IN_MODES
def test_what_is_called_a_precision_of_fewer_digits_is_computed_in_it(framework: str, mode: Mode, found: Found) -> None:
    """Its outputs differ by rounding to that precision, not by float32's rounding, which is at least a thousand times
    smaller."""
    evidence, exact = given(mode, framework, OF_PRECISIONS, found), truths(mode.precision, found)
    for case, mine, truth in zip(OF_PRECISIONS, evidence, exact, strict=True):
        share = compute_rounding_share(compute_deviations(mine, truth), compute_deviations(truth.rounded, truth))
        assert share > 3 * TOO_EXACT, case.name


@pytest.mark.parametrize("framework", REAL_FRAMEWORKS)
def test_float32_that_is_called_bfloat16_is_caught(framework: str, found: Found) -> None:
    for case, truth in zip(OF_PRECISIONS, truths("bfloat16", found), strict=True):
        found.of(framework, case)
        evidence = Evidence.from_json(found.evidence(framework, case))
        assert "they were computed in more digits" in str(find_difference(evidence, truth)), case.name


@pytest.mark.parametrize("name", [*SEEN, *UNSEEN])
def test_a_wrong_adapter_is_caught_in_bfloat16_where_its_error_is_more_than_rounding_to_it(
    name: str, found: Found
) -> None:
    framework, names, _ = errors_of(name)
    cases = [CASES[each] for each in names]
    wrong = given(Mode(precision="bfloat16"), framework, cases, found, f"broken.{name}", name)
    ratio = max(largest_ratio(*pair) for pair in zip(wrong, truths("bfloat16", found, cases), strict=True))
    assert (ratio > 1) == (name in SEEN), f"{ratio:.3g} times what is allowed"
