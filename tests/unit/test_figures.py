"""The registry of figures, and results that were stored before it: refused, or read as what they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, make_spec
from each import for_each

from reports import load
from reports.quantities import MEMORY_KINDS, QUANTITIES, Quantity
from workloads.records import checks, figures
from workloads.records.check_name import CheckName
from workloads.records.disturbance import is_withheld
from workloads.records.figures import FIGURES, Figure, Method
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.result import Check, TrialResult
from workloads.records.status import Status

CPU, GPU = make_spec(device="cpu"), make_spec(device="GPU-0")


def result(spec: Any = CPU, **more: Any) -> TrialResult:
    return TrialResult(spec, Status.OK, None, "2026-11-22T00:00:00+00:00", 1.0, **more)


def test_a_result_with_a_figure_that_nobody_knows_cannot_be_made_or_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such figure: 'imges_per_s'"):
        result(figures={"imges_per_s": Figure(1.0, "worker")})
    known = result()
    for name, data in (
        ("a", known.to_json()),
        ("b", known.to_json() | {"figures": {"luck": {"value": 1.0, "source": "worker"}}}),
    ):
        (tmp_path / "trials" / name).mkdir(parents=True)
        write_json(tmp_path / "trials" / name / RESULT_FILE, data)
    stored = load.read(tmp_path)
    assert len(stored.results) == 1
    assert [item.reason for item in stored.unreadable] == ["not a trial result: no such figure: 'luck'"]
    assert not stored.unreadable[0].other_schema


@for_each("spec", FIGURES.values())
def test_a_figure_has_a_label_and_the_unit_of_its_name(spec: figures.FigureSpec) -> None:
    units = {"bytes": "MiB", "percent": "%", "w": "W", "j": "J", "c": "°C", "mhz": "MHz", "accuracy": "%"}
    assert spec.label and FIGURES[spec.name] is spec
    ending = spec.name.rpartition("_")[2]
    if ending in units:
        assert spec.unit == units[ending]


def test_what_other_processes_can_change_is_marked_in_the_registry() -> None:
    steady = {
        *("test_accuracy", "diverged_step", "foreign_cpu_percent", "foreign_cpu_epochs_percent", "foreign_processes"),
        *("cpu_quota_cores", "cpu_throttled_percent", "page_faults_per_step"),
        *("power_limit_w", "host_memory_bytes", "host_memory_peak_bytes", "host_context_bytes"),
        *("process_gpu_memory_bytes", "allocator_peak_bytes", "allocator_reserved_bytes", "steps_peak_bytes"),
        *("waited_step_peak_bytes", "queued_steps_bytes", "pool_indices_bytes", "activations_exact_bytes"),
        *(spec.name for spec in figures.MEMORY_PARTS.values()),
    }
    assert {spec.name for spec in FIGURES.values() if not spec.disturbable} == steady


def test_a_process_memory_that_is_a_rise_of_the_whole_device_is_withheld_beside_others() -> None:
    listed, risen = (
        replace(result(GPU, figures={"process_gpu_memory_bytes": Figure(9, "NVML", method=method)}),
                status=Status.CONTENDED, reason="others")
        for method in (Method.PROCESS_LIST, Method.DEVICE_RISE)
    )  # fmt: skip
    assert not is_withheld(listed, figures.PROCESS_GPU_MEMORY) and is_withheld(risen, figures.PROCESS_GPU_MEMORY)
    assert not is_withheld(replace(risen, status=Status.OK), figures.PROCESS_GPU_MEMORY)


def test_every_figure_is_in_the_description_of_the_files() -> None:
    page = (ROOT / "docs" / "reference" / "records.md").read_text(encoding="utf-8")
    assert [name for name in FIGURES if f"`{name}`" not in page] == []


@for_each("quantity", [*QUANTITIES, *MEMORY_KINDS])
def test_figures_of_one_table_are_printed_and_judged_alike_and_the_gpus_stands_first(quantity: Quantity) -> None:
    alike = {(s.unit, s.factor, s.decimals, s.better, s.timed, s.learnt, s.full_scale) for s in quantity.figures}
    assert len(alike) == 1
    devices = [spec.device for spec in quantity.figures]
    assert devices in ([None], ["cuda"], ["cuda", None])


METHODS = {
    "gpu_percent": Method.DRIVER_SAMPLES,
    "energy_j": Method.INTEGRATED,
    "process_gpu_memory_bytes": Method.DEVICE_RISE,
}


def test_a_figure_that_is_made_of_another_is_not_checked_against_it() -> None:
    beside = ("energy_integrated_j", "device_memory_bytes", "gpu_busy_percent")
    derived = {name: Figure(8.0, "NVML", method=METHODS.get(name)) for name in (*METHODS, *beside)}
    made = {check.name for check in checks.check_figures(GPU, None, derived, [])}
    assert made.isdisjoint({CheckName.ENERGY, CheckName.PROCESS_IN_DEVICE}), "each is made of the other"
    assert [check.name for check in checks.check_clocks(derived, [])] == [CheckName.KEPT_PACE]
    counted = {name: replace(figure, method=None) for name, figure in derived.items()}
    made = {check.name for check in checks.check_figures(GPU, None, counted, [])}
    assert made >= {CheckName.ENERGY, CheckName.PROCESS_IN_DEVICE}
    assert checks.check_clocks(counted, []) == []


def test_what_a_new_result_says_is_taken_as_it_stands() -> None:
    figure = Figure(1.0, "integrated", method=Method.COUNTER)
    new = result(figures={"energy_j": figure}, checks=[Check(CheckName.GATE, True, "compared with x", ("y",))])
    assert TrialResult.from_json(json.loads(json.dumps(new.to_json()))) == new
