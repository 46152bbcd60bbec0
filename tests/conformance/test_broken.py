"""Deliberately wrong copies of the real adapters. Suite and gate must catch each, the gate by a margin; and the gate
must flag none that is correct."""

from __future__ import annotations

import numpy as np
import pytest
from planted import PLANTED, errors_of
from settings import CASES, TRUTH, Case
from suite import FRAMEWORKS, REFEREE, Found, Seen, cases_of, checks_of

from adapters.numpy.adapter import Adapter
from adapters.worker import first_probe
from runner.gate.tolerances import Truth, compute_deviations, find_difference
from workloads import weights as weights_module
from workloads.records.evidence import Evidence

MARGIN = 3  # times what is allowed: the smallest seen is in docs/evidence/tolerances.md


def disturbed(case: Case, found: Found) -> list[Evidence]:
    """Evidence of the referee from disturbed weights for the probe: a flagged trial may also differ by a multiple of
    that."""
    adapter, task = Adapter(), (case.workload, case.optimizer)
    adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
    with np.load(found.inputs / f"{case.name}.npz") as given:
        images, labels = given["images"], given["labels"]
    adapter.load(images, labels)
    order, initial = np.arange(len(images), dtype=np.int32), found.initial(case)
    weights = [weights_module.disturbed(initial, number) for number in range(weights_module.DISTURBANCES)]
    return [first_probe.gather(adapter, (*task, each, 5), images, labels, order) for each in weights]


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_adapter_is_caught_by_the_suite_and_by_the_gate_with_a_margin(
    name: str, found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    framework, names, expected = errors_of(name)
    caught, gate = set(), {}
    for case in (CASES[case] for case in names):
        arrays = found.of(name, case, framework, f"broken.{name}", names)
        seen = Seen(case, arrays, found.of(TRUTH, case), found.initial(case))
        caught |= {check for check, wrong in checks_of(case).items() if wrong(seen)}
        found.of(REFEREE, case)
        who = (name, TRUTH, REFEREE)
        evidence, exact, rounded = (Evidence.from_json(found.evidence(one, case)) for one in who)
        truth = Truth(exact, rounded, tuple((exact, answer) for answer in disturbed(case, found)))
        largest = max(compute_deviations(evidence, truth), key=lambda deviation: deviation.ratio)
        gate[case.name] = (
            largest.ratio,
            f"{largest.ratio:.3g} times what is allowed: {find_difference(evidence, truth)}",
        )
    with capsys.disabled():
        told = "; ".join(f"{case}: {sentence}" for case, (_, sentence) in gate.items())
        print(f"\n{name} ({framework}): suite: {', '.join(sorted(caught)) or 'nothing'}; gate: {told}")
    assert expected <= caught
    assert max(ratio for ratio, _ in gate.values()) >= MARGIN


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_gate_rejects_no_correct_adapter_in_any_case(framework: str, found: Found) -> None:
    rejected = {}
    for case in cases_of(framework):
        for who in (framework, TRUTH, REFEREE):
            found.of(who, case)
        evidence, exact, rounded = (
            Evidence.from_json(found.evidence(who, case)) for who in (framework, TRUTH, REFEREE)
        )
        # A flagged trial is judged again with the effect of rounding: which case needs it depends on the processor.
        if find_difference(evidence, Truth(exact, rounded)):
            widened = Truth(exact, rounded, tuple((exact, answer) for answer in disturbed(case, found)))
            if said := find_difference(evidence, widened):
                rejected[case.name] = said
    assert cases_of(framework) and not rejected
