"""Every adapter, in its own environment, against the referee in float64. Tolerances: settings.py."""

from __future__ import annotations

import pytest
from settings import CASES, TRUTH
from suite import CHECKS, FRAMEWORKS, Seen, checks_of, imports_of_others, known_deviations

COMBINATIONS = [
    pytest.param(framework, case, check, id=f"{framework}-{case.name}-{check}")
    for framework in FRAMEWORKS
    for case in CASES.values()
    for check in checks_of(case)
]


@pytest.mark.parametrize(("framework", "case", "check"), COMBINATIONS)
def test_adapter_differs_from_the_referee_in(framework, case, check, found):
    seen = Seen(case, found.of(framework, case), found.of(TRUTH, case), found.initial(case))
    told = checks_of(case)[check](seen)
    reason = known_deviations().get((framework, case.name, check))
    if reason is None:
        assert not told, told
    else:
        assert told, f"the check passes: take the entry out of known_deviations.toml ({reason})"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_more_than_one_framework_is_loaded_beside(framework, found):
    found.of(framework, CASES["plain-sgd"])
    assert not found.modules(framework) & imports_of_others(framework)


def test_the_probes_cannot_tell_one_rule_from_another(found):
    """Each rule's losses, taken for another's, must fail."""
    for network in ("plain", "batchnorm"):
        rules = {rule: CASES[f"{network}-{rule}"] for rule in ("sgd", "momentum", "nesterov", "adam")}
        for rule, case in rules.items():
            for other, wrong in rules.items():
                seen = Seen(case, found.of(TRUTH, wrong), found.of(TRUTH, case), found.initial(case))
                told = CHECKS["losses"](seen), CHECKS["weights"](seen)
                assert all(told) == (rule != other), (rule, other, told)
