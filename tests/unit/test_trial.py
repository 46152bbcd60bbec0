from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import leaves, make_spec, varied
from each import for_each

from workloads.records.figures import Figure, Method
from workloads.records.files import write_json
from workloads.records.job import RATES, ImageFindings, ImageSource, InputFile, Job, Kind, Task, TrialSpec
from workloads.records.network import OwnCode
from workloads.records.result import Check, Epoch, TrialResult
from workloads.records.status import Status
from workloads.spec import OptimizerSpec

SPEC = make_spec(
    repeat=1,
    isolation="venv",
    inputs={"order": InputFile("inputs/order.npy", "00"), "weights": InputFile("inputs/weights.npz", "11")},
)
RESULT = TrialResult(
    spec=SPEC,
    status=Status.OK,
    reason=None,
    started_at="2020-04-15T00:00:00Z",
    wall_s=1.5,
    phases_s={"imported": 0.25},
    epochs=[Epoch(1.0, 45, 1437, 0.5, 0.1, None, 0.875)],
    first_losses=[2.3, None],
    evidence={"loss": 2.3, "outputs": {"conv1": [1.5, None]}, "losses": [2.3, None]},
    figures={"images_per_s": Figure(10.0, "worker", 3), "device_memory_bytes": Figure(None, "nvml", reason="no GPU")},
    checks=[Check("images", True, "1437 = 1437")],
    facts={"framework_version": "1", "tf32": False, "cuda_version": None},
    machine={"cores": 2},
)


def through_json(data: dict[str, Any]) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(json.dumps(data, allow_nan=False))
    return stored


def test_a_spec_and_a_figures_method_survive_json_and_one_that_there_is_not_is_refused() -> None:
    again = TrialSpec.from_json(through_json(SPEC.to_json()))
    assert again == SPEC
    assert again.id == SPEC.id
    counted = replace(RESULT, figures={"activations_bytes": Figure(1.0, "worker", method=Method.CHUNKS)})
    stored = through_json(counted.to_json())
    told = TrialResult.from_json(stored)
    assert told == counted and told.figures["activations_bytes"].method is Method.CHUNKS
    del stored["figures"]["activations_bytes"]["method"]  # as earlier code stored it
    assert TrialResult.from_json(stored).figures["activations_bytes"] == Figure(1.0, "worker")
    stored = through_json(RESULT.to_json())
    stored["figures"]["images_per_s"]["method"] = "by guess"
    with pytest.raises(ValueError, match="by guess"):
        TrialResult.from_json(stored)


@pytest.mark.parametrize("status", Status)
def test_a_result_survives_the_file_it_is_written_to(tmp_path: Path, status: Status) -> None:
    result = replace(RESULT, status=status, reason=None if status is Status.OK else "because")
    write_json(tmp_path / "result.json", result.to_json())
    assert TrialResult.from_json(json.loads((tmp_path / "result.json").read_text())) == result


CHANGED: dict[str, Any] = {
    "workload": "other",
    "dataset": "mnist",
    "framework": "pytorch",
    "batch_size": 64,
    "epochs": 3,
    "repeat": 2,
    "seed": 1,
    "optimizer": OptimizerSpec("sgd"),
    "last_batch": "drop",
    "profile": "tuned",
    "feed": "device",
    "network": "1a2b3c4d5e6f",
    "source": ImageSource("f00d", 8, 8, False, "crop", train=10, test=2, drawn_test=True, skipped=1),
    "own_code": OwnCode("pytorch", "net.py", "make_model", "1a2b3c4d5e6f", 10, (8, 8, 1)),
    "augment": "flip-crop",
    "initial": "source",
    "accumulate": 2,
    "precision": "bfloat16",
    "deterministic": True,
    "cool_down_s": 60.0,
    "allocator": "default",
    "device": "GPU-1",
    "threads": 1,
    "window_s": 4.0,
    "isolation": "here",
    "environment": "abd",
    "variables": {"MALLOC_TRIM_THRESHOLD_": "1"},
    "inputs": {**SPEC.inputs, "order": InputFile("inputs/order.npy", "01")},
    "memory_limit_bytes": 2**30,
    "control_group": True,
    "devices": 2,
    "others": ("GPU-2",),
}
HARMLESS: dict[str, Any] = {"study": "other", "timeout_s": 61.0, "unproven": "no framework"}


@for_each("name", [name for name in leaves(SPEC) if name not in HARMLESS])
def test_the_id_changes_with_every_field_that_can_change_a_figure(name: str) -> None:
    assert varied(SPEC, **{name: CHANGED[name]}).id != SPEC.id


def test_a_default_and_an_axis_that_is_added_later_are_in_no_id_of_before() -> None:
    assert SPEC.id == "numpy-cpu-b00032-r1-8de5d8a6", "a new field with a default changes no stored trial's id"
    changes: list[dict[str, Any]] = [
        {"rho": 0.5}, {"weight_decay": 0.1}, {"schedule": "cosine"}, {"warm_up": 5.0}, {"scale": "sqrt"},
        {"scale": "sqrt", "base_batch_size": 32},
    ]  # fmt: skip
    ids = {varied(SPEC, optimizer=replace(SPEC.task.optimizer, **change)).id for change in changes}
    assert len(ids | {SPEC.id}) == 1 + len(changes)
    axes = vars(SPEC.task)
    assert replace(SPEC, task=Widened(**axes)).id == SPEC.id
    assert replace(SPEC, task=Widened(**axes, layout="other")).id != SPEC.id
    assert varied(SPEC, precision="bfloat16").id != SPEC.id != replace(SPEC, cool_down_s=60.0).id
    assert varied(SPEC, precision="bfloat16").probe_id != SPEC.probe_id
    before = SPEC.to_json()
    del before["task"]["precision"], before["cool_down_s"]
    assert TrialSpec.from_json(before).id == SPEC.id


def test_what_was_found_in_ones_own_images_is_in_no_id_and_a_range_of_values_is() -> None:
    source = CHANGED["source"]
    spec, found = (
        varied(SPEC, source=each) for each in (source, replace(source, findings=ImageFindings(1, 2, 3, 4, 5)))
    )
    assert spec.id == found.id
    again = TrialSpec.from_json(through_json(found.to_json())).task.source
    assert again is not None and again.findings == ImageFindings(1, 2, 3, 4, 5)
    ranged = varied(SPEC, source=replace(source, pixel_range=(0.0, 4095.0)))
    assert ranged.id != spec.id and TrialSpec.from_json(through_json(ranged.to_json())).id == ranged.id
    assert varied(SPEC, source=replace(source, test_folder="val")).id != spec.id


def test_a_probe_is_shared_by_trials_whose_rates_differ() -> None:
    """Trials of another batch size have other rates."""
    others = [varied(SPEC, inputs={**SPEC.inputs, RATES: InputFile("r.npy", digest)}) for digest in ("01", "02")]
    assert len({other.probe_id for other in [SPEC, *others]}) == 1 and len({other.id for other in others}) == 2


@dataclass(frozen=True)
class Widened(Task):
    layout: str = "default"


@pytest.mark.parametrize("kind", Kind)
def test_a_job_survives_json(kind: Kind) -> None:
    job = Job(kind, SPEC, batch_sizes=(8, 16))
    assert Job.from_json(through_json(job.to_json())) == job


def test_one_memory_worker_is_asked_for_all_that_changes_no_memory_and_one_probe_for_a_repeat() -> None:
    alike = {"batch_size": 64, "allocator": "default", "epochs": 9, "last_batch": "drop", "window_s": 9.0, **HARMLESS}
    alike["cool_down_s"] = 9.0
    drawn = {"repeat": 2, "seed": 1, "inputs": CHANGED["inputs"]}
    of_one = ("devices", "others")  # a probe is of the first only
    for name in leaves(SPEC):
        other = varied(SPEC, **{name: (CHANGED | HARMLESS)[name]})
        assert (other.probe_id == SPEC.probe_id) == (name in (*alike, *of_one)), name
        assert (other.memory_id == SPEC.memory_id) == (name in {**alike, **drawn}), name


@for_each("name", [field.name for field in fields(OptimizerSpec)])
def test_the_id_changes_with_every_field_of_the_optimizer(name: str) -> None:
    changed: dict[str, Any] = {name: "sgd" if name == "name" else 0.5}
    optimizer = replace(SPEC.task.optimizer, **changed)
    assert varied(SPEC, optimizer=optimizer).id != SPEC.id


@pytest.mark.parametrize("name", HARMLESS)
def test_the_id_does_not_change_with_what_changes_no_figure(name: str) -> None:
    assert varied(SPEC, **{name: HARMLESS[name]}).id == SPEC.id


def test_an_id_reads_as_its_cell_hides_the_uuid_and_does_not_depend_on_where_inputs_lie() -> None:
    assert SPEC.id.startswith("numpy-cpu-b00032-r1-")
    assert varied(SPEC, device="GPU-1").id.startswith("numpy-cuda-b00032-r1-")
    moved = {name: InputFile(f"elsewhere/{name}", file.sha256) for name, file in SPEC.inputs.items()}
    assert varied(SPEC, inputs=moved).id == SPEC.id


@pytest.mark.parametrize(("value", "reason"), [(None, None), (1.0, "because"), (0.0, "because")])
def test_a_figure_has_either_a_value_or_a_reason(value: float | None, reason: str | None) -> None:
    with pytest.raises(ValueError, match="either a value or the reason"):
        Figure(value, "nvml", reason=reason)


def test_a_zero_is_a_value() -> None:
    assert Figure(0.0, "nvml").value == 0


def test_a_file_is_written_whole_or_not_at_all_and_what_json_cannot_say_is_null(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"old": 1})
    with pytest.raises(TypeError):
        write_json(path, {"new": 2, "broken": object()})
    assert json.loads(path.read_text()) == {"old": 1}
    path = tmp_path / "x.json"
    write_json(path, {"a": math.nan, "b": [math.inf, {"c": -math.inf}], "d": (1.5, math.nan), "e": 0.0})
    assert json.loads(path.read_text()) == {"a": None, "b": [None, {"c": None}], "d": [1.5, None], "e": 0.0}


def test_a_part_left_by_a_killed_writer_is_neither_read_nor_kept(tmp_path: Path) -> None:
    (tmp_path / "result.json.part").write_text("{" * 10_000)
    write_json(tmp_path / "result.json", {"new": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert json.loads((tmp_path / "result.json").read_text()) == {"new": 2}


@for_each(
    "change, told",
    [
        ({"schema_version": 6}, "schema version 6, this program reads 5"),
        (
            {"schema_version": 4, "machine": {"commit": "1be1865"}},
            "schema version 4, this program reads 5; commit 1be1865 made it and can read it",
        ),
        ({"schema_version": True}, "schema version True"),
        ({"schema_version": None}, "schema version None"),
        ({"invented": 1}, "invented"),
        ({"status": "fine"}, "fine"),
        ({"epochs": None}, "not a trial result"),
        ({"epochs": [{"train_s": 1.0}]}, "not a trial result"),
        ({"figures": {"rate": {"value": 1.0, "source": "x", "unit": "s"}}}, "not a trial result"),
        ({"figures": {"rate": {"value": 1.0, "source": "x", "reason": "y"}}}, "either a value or the reason"),
        ({"spec": {}}, "not a trial result"),
        ({"spec": SPEC.to_json() | {"invented": 1}}, "invented"),
        ({"spec": {key: value for key, value in SPEC.to_json().items() if key != "draw"}}, "draw"),
        ({"spec": SPEC.to_json() | {"draw": {"repeat": 0}}}, "seed"),
    ],
)
def test_a_result_of_another_make_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        TrialResult.from_json(through_json(RESULT.to_json() | change))


@for_each("name", [field.name for field in fields(TrialResult)])
def test_a_result_that_lacks_a_field_is_refused(name: str) -> None:
    data = through_json(RESULT.to_json())
    del data[name]
    with pytest.raises(ValueError, match="schema version" if name == "schema_version" else name):
        TrialResult.from_json(data)


@pytest.mark.parametrize("data", [None, [], "text", 1])
def test_a_file_that_holds_no_object_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="not a trial result"):
        TrialResult.from_json(data)
