"""Reports of a worker about itself: a lie about bytes, cores or processor time is caught, a true report is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from conftest import make_spec
from each import for_each

from workloads.activations import activation_bytes
from workloads.networks import WORKLOADS
from workloads.records.check_name import COUNTS, CheckName
from workloads.records.checks import check_figures
from workloads.records.columns import COLUMNS
from workloads.records.figures import Figure, Method
from workloads.records.network import OwnCode
from workloads.records.reported import LEAST_ACTIVATIONS, LONE_CORE, PROCESSES_BYTES, check_processes, check_threads
from workloads.records.samples import Samples
from workloads.spec import OPTIMIZER_NAMES, SLOTS, OptimizerName, OptimizerSpec

CATALOGUE = sorted(WORKLOADS)
SECOND = 10**9


def verdicts(figures: Mapping[str, float | None], workload: str = "osu-cnn", **changes: Any) -> dict[str, bool]:
    made = {
        name: Figure(value, "-", reason="nobody knows" if value is None else None) for name, value in figures.items()
    }
    spec = make_spec(workload=workload, **changes)
    return {check.name: check.passed for check in check_figures(spec, WORKLOADS[workload], made, [])}


@for_each("rule", OPTIMIZER_NAMES)
@for_each("workload", CATALOGUE)
def test_a_slot_too_few_is_caught_of_every_rule_and_network(workload: str, rule: OptimizerName) -> None:
    trainable = 4 * WORKLOADS[workload].parameter_count
    name = CheckName.ADAM if rule in ("adam", "adamw") else CheckName.SLOTS

    def passes(state_bytes: float) -> bool | None:
        return verdicts({"optimizer_bytes": state_bytes}, workload, optimizer=OptimizerSpec.named(rule)).get(name)

    assert passes(SLOTS[rule] * trainable) and passes(SLOTS[rule] * trainable + 16)
    assert passes((SLOTS[rule] + 1) * trainable) is (name is CheckName.SLOTS), "of Adam alone too much fails"
    assert not SLOTS[rule] or passes((SLOTS[rule] - 1) * trainable) is False


@pytest.mark.parametrize("workload", CATALOGUE)
def test_parameters_and_activations_are_those_of_the_network(workload: str) -> None:
    network = WORKLOADS[workload]
    bytes_of, kept = 4 * network.parameter_count, activation_bytes(network, 32)

    def verdict(parameters: float, activations: float) -> tuple[bool, bool]:
        told = {"parameters_bytes": parameters, "activations_bytes": activations, "activations_exact_bytes": kept}
        made = verdicts(told, workload)
        return made[CheckName.PARAMETERS], made[CheckName.ACTIVATIONS]

    assert verdict(bytes_of, 0.94 * kept) == (True, True), "PyTorch's attention computes its softmax again"
    assert verdict(bytes_of - 4, kept) == (False, True)
    assert verdict(bytes_of, 0.9 * LEAST_ACTIVATIONS * kept) == (True, False)


def test_more_cores_than_allotted_and_less_processor_time_than_the_speed_needs_leave_no_number() -> None:
    flop = WORKLOADS["osu-cnn"].step_flop
    whole = {"window_s": 5.0, "images_per_s": 0.8 * 60e9 / flop, "product_flop_per_s": 60e9}

    def verdict(percent: float, **changes: Any) -> tuple[bool | None, bool | None]:
        made = verdicts(whole | {"cpu_percent": percent}, **changes)
        return made.get(CheckName.CORES), made.get(CheckName.NEEDED)

    assert verdict(99.0) == verdict(30.0) == (True, True)
    assert verdict(105.0) == (True, True), "ticks of processor time at the edges of the window"
    assert verdict(140.0) == (False, True)
    assert verdict(100 * 0.9 * 0.2 / LONE_CORE) == verdict(0.0) == (True, False)
    assert verdict(1.0, precision="bfloat16") == verdict(1.0, device="GPU-0") == (True, None)
    assert {CheckName.CORES, CheckName.NEEDED, CheckName.PROCESSES} <= {*COUNTS}


def test_what_nobody_knows_is_not_checked() -> None:
    unknown = dict.fromkeys(
        ("optimizer_bytes", "parameters_bytes", "activations_bytes", "cpu_percent", "product_flop_per_s")
    )
    assert not verdicts(unknown)


OWN_CODE = OwnCode("pytorch", "model.py", "make", "0" * 64, 10, (32, 32, 3))


@pytest.mark.parametrize(("changes", "verdict"), [({}, [False]), ({"devices": 2}, []), ({"own_code": OWN_CODE}, [])])
def test_memory_of_a_process_beside_the_worker_is_seen_and_own_code_may_have_helpers(
    changes: dict[str, Any], verdict: list[bool]
) -> None:
    samples: Samples = {name: np.full(3, np.nan) for name in COLUMNS} | {"t_ns": np.arange(3.0) * SECOND}
    own = 300.0 * 2**20
    figures = {"host_memory_bytes": Figure(own, "kernel", method=Method.COUNTER)}
    spec = make_spec(**changes)

    def made(most_bytes: float) -> list[bool]:
        samples["host_memory_bytes"] = np.array([own, most_bytes, own])
        return [check.passed for check in check_processes(spec, figures, (0.5 * SECOND, 1.5 * SECOND), samples)]

    assert made(own + 0.9 * PROCESSES_BYTES) == [True] * len(verdict)
    assert made(2 * own) == verdict


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [({"intra_op_threads": 2}, [True]), ({"intra_op_threads": 4}, [False]), ({}, []), ({"intra_op_threads": "2"}, [])],
)
def test_a_framework_that_names_other_threads_than_allotted_is_named(
    facts: dict[str, Any], verdict: list[bool]
) -> None:
    assert [check.passed for check in check_threads(make_spec(threads=2), facts)] == verdict
    assert not check_threads(make_spec(threads=2, devices=2), facts)
