"""Deliberately wrong copies of the real adapters: the suite must catch each, and the gate those that it can see."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from settings import CASES, TRUTH
from suite import FRAMEWORKS, REFEREE, Seen, checks_of

from runner.evidence import Truth, difference
from workloads.gate import Evidence

BROKEN = {path.stem: path for path in sorted((Path(__file__).parent / "broken").glob("*.py"))}
# What five steps of four images cannot show at the gate's tolerance.
UNSEEN_BY_THE_GATE = {"weight_decay"}


def told_by(path):
    """(framework, cases, checks that must fail): read, not imported, for its framework is not here."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            return ast.literal_eval(node.value)
    raise AssertionError(f"{path} does not say what it breaks")


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_adapter_is_not_caught(name, found, capsys):
    framework, names, expected = told_by(BROKEN[name])
    caught, gate = set(), {}
    for case in (CASES[case] for case in names):
        arrays = found.of(name, case, framework, f"broken.{name}", names)
        seen = Seen(case, arrays, found.of(TRUTH, case), found.initial(case))
        caught |= {check for check, wrong in checks_of(case).items() if wrong(seen)}
        found.of(REFEREE, case)
        who = (name, TRUTH, REFEREE)
        evidence, exact, rounded = (Evidence.from_json(found.evidence(one, case)) for one in who)
        if told := difference(evidence, Truth(exact, rounded)):
            gate[case.name] = told
    with capsys.disabled():
        print(f"\n{name} ({framework}): suite: {', '.join(sorted(caught)) or 'nothing'}; gate: {gate or 'nothing'}")
    assert expected <= caught
    assert bool(gate) == (name not in UNSEEN_BY_THE_GATE)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_the_gate_suspects_an_adapter_that_is_right(framework, case, found):
    for who in (framework, TRUTH, REFEREE):
        found.of(who, case)
    evidence, exact, rounded = (Evidence.from_json(found.evidence(who, case)) for who in (framework, TRUTH, REFEREE))
    assert difference(evidence, Truth(exact, rounded)) is None
