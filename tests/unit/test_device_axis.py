"""Several devices as an axis: the trial of several, where it runs, and what it is compared with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import make_spec, varied

from adapters.base import Unsupported
from adapters.worker.__main__ import adapter_for
from runner.gate.rivals import describe_batches
from runner.launch import build_worker_environment
from runner.machine.description import Gpu
from runner.request import inputs
from runner.request.parser import BadInput
from runner.request.placement import place_study
from workloads.records.job import Placement, TrialSpec
from workloads.study import MOST_DEVICES, Study, StudyError, list_studies
from workloads.study_file import read


def test_trials_on_several_devices_have_ids_and_files_of_their_own() -> None:
    spec = make_spec()
    several = [varied(spec, devices=count) for count in (1, 2, 4)]
    assert len({each.id for each in several}) == len({each.memory_id for each in several}) == 3
    assert len({each.probe_id for each in several}) == 1, "probes use one device"
    assert [(each.part, each.global_batch) for each in several] == [(None, 32), (None, 64), (None, 128)]
    assert len({describe_batches(each) for each in several}) == 3, (
        "losses are compared with those of the same batches alone"
    )
    spec = varied(make_spec(), device="GPU-0", devices=2, others=("GPU-1",))
    assert TrialSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(("threads", "devices", "each"), [(8, 1, 8), (8, 2, 4), (8, 3, 2), (2, 4, 1)])
def test_devices_of_a_cpu_are_parts_of_its_threads_one_at_least(threads: int, devices: int, each: int) -> None:
    placement = Placement("cpu", threads, {}, devices=devices)
    assert placement.device_threads == each
    variables = build_worker_environment(placement, {})
    assert variables["OMP_NUM_THREADS"] == str(each) and variables["CUDA_VISIBLE_DEVICES"] == ""
    assert placement.first == Placement("cpu", threads, {})


def test_further_gpus_are_the_machines_others_and_too_few_are_one_line(tmp_path: Path) -> None:
    gpus = [Gpu(f"GPU-{number}", "H100", "570.1", "12.8", None) for number in range(3)]
    placement = place_study(Study("s", device="cuda:1", devices=2), gpus, None, "venv", tmp_path)
    assert (placement.device, placement.others) == ("GPU-1", ("GPU-0",))
    assert build_worker_environment(placement, {})["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-0"
    with pytest.raises(BadInput, match="--devices 4: this machine has 3 GPU"):
        place_study(Study("s", device="cuda:1", devices=4), gpus, None, "venv", tmp_path)


@pytest.mark.parametrize("devices", [0, MOST_DEVICES + 1])
def test_a_study_of_no_device_or_too_many_is_refused(devices: int) -> None:
    with pytest.raises(StudyError, match="devices"):
        Study("s", devices=devices)


def test_a_rate_is_scaled_by_the_images_of_all_devices() -> None:
    study = Study("s", batch_sizes=(16,), devices=4, scale_learning_rate="linear", learning_rate=0.1)
    whole = study.changed(batch_sizes=(64,), devices=1)
    (divided,), (one,) = (inputs.compute_rates(each, 640).values() for each in (study, whole))
    assert divided.tolist() == one.tolist()
    assert varied(make_spec(optimizer=study.optimizer_spec), batch_size=16, devices=4).rule.learning_rate == 0.1


def test_a_framework_without_an_adapter_for_several_says_so() -> None:
    with pytest.raises(Unsupported, match="numpy has no adapter for several devices"):
        adapter_for("numpy", 2)


@pytest.mark.parametrize(("study", "devices"), [("scaling-cpu", [1, 2]), ("scaling", [1, 2, 4, 8])])
def test_a_study_of_scaling_differs_in_its_devices_alone(study: str, devices: list[int]) -> None:
    parts = read(list_studies()[study]).parts
    assert [part.devices for part in parts.values()] == devices
    assert len({part.changed(devices=1) for part in parts.values()}) == 1
