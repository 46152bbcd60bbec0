"""Figures of a trial on two cards: from both traces together, with each card's readings kept; none if one card is
mute."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import varied
from stand_in import (
    BATCH,
    ENERGY_J,
    MIB,
    SECOND,
    STEPS,
    UUID,
    UUID_B,
    WINDOW,
    ZERO_NS,
    Replay,
    Trace,
    load,
    write_trace,
)

from reports.checking import recheck, recompute
from reports.publishing import published_files
from runner.results.gpu import NAMES
from workloads.records.check_name import CheckName
from workloads.records.files import write_json
from workloads.records.job import TrialSpec
from workloads.records.samples import read_samples
from workloads.records.status import Status

# Like STEPS, but 30 % and 10 % in place of 90 % and 30 %, half of the power above 60 W, and other memory.
STEPS_B: Trace = [
    (0, {}),
    (950, {"used": 700, "process": 200}),
    (2950, {"gpu": 30, "used": 1500, "process": 1000, "power": 160, "sm": 1980, "degrees": 55, "throttle": 0}),
    (5950, {"gpu": 10, "power": 110, "degrees": 80}),
    (6950, {"gpu": 0, "power": 60, "sm": 345, "degrees": 50, "throttle": 1}),
]
IMAGES = 640  # ten steps of 32 on each
ENERGY_B_J = 60 * 1.0 + 160 * 3.0 + 110 * 1.0 + 60 * 1.1


@pytest.fixture(scope="module", autouse=True)
def loaded(library: Path) -> None:
    load(library)


def replayed(monkeypatch: pytest.MonkeyPatch, folder: Path, *uuids: str, **variables: str) -> Replay:
    trace_b = write_trace(folder / "trace-b.csv", STEPS_B)
    replay = Replay(monkeypatch, folder, STEPS, NVML_DEVICES="2", NVML_TRACE_B=str(trace_b), **variables)
    replay.run(9, *uuids)
    return replay


@pytest.fixture
def on_two(gpu_spec: TrialSpec) -> TrialSpec:
    return varied(gpu_spec, devices=2, others=(UUID_B,))


def test_energy_power_and_memory_are_sums_usage_and_clocks_means_and_each_card_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_two: TrialSpec
) -> None:
    folder = tmp_path / "trials" / on_two.id
    folder.mkdir(parents=True)
    replay = replayed(monkeypatch, folder, UUID, UUID_B)
    result = replay.result(on_two, *WINDOW, images=IMAGES)
    assert result.status == Status.OK, result.reason
    found = {name: figure.value for name, figure in result.figures.items()}
    assert found["gpu_percent"] == pytest.approx(((90 * 3 + 30) / 6 + (30 * 3 + 10) / 6) / 2)
    assert found["energy_j"] == pytest.approx(ENERGY_J + ENERGY_B_J)
    assert found["energy_integrated_j"] == pytest.approx(ENERGY_J + ENERGY_B_J)
    assert found["energy_per_image_j"] == pytest.approx((ENERGY_J + ENERGY_B_J) / IMAGES)
    first_w, second_w = ((10 * 60 + 30 * busy + 10 * less + 11 * 60) / 61 for busy, less in ((260, 160), (160, 110)))
    assert found["power_w"] == pytest.approx(first_w + second_w)
    assert found["power_limit_w"] == 600 and found["temperature_c"] == 80
    assert found["process_gpu_memory_bytes"] == (4000 + 1000) * MIB
    assert found["device_memory_bytes"] == (4500 + 1500) * MIB
    assert result.figures["energy_j"].source.startswith(f"sum of 2 GPUs ({ENERGY_J:.6g}, {ENERGY_B_J:.6g}): NVML")
    (alone,) = [check for check in result.checks if check.name == CheckName.ALONE]
    assert alone.passed and "GPU 2: " in alone.detail
    each = [read_samples(folder / name) for name in ("samples.csv", "samples-gpu1.csv")]
    assert [samples["gpu_percent"].max() for samples in each] == [90, 30]
    start_s, end_s = WINDOW
    window = [(ZERO_NS + start_s * SECOND, ZERO_NS + end_s * SECOND)]
    polled = [recompute.recompute_gpu_usage([samples], window)["gpu_percent"] for samples in each]
    assert recompute.recompute_gpu_usage(each, window)["gpu_percent"] == pytest.approx(sum(polled) / 2)
    again = f"recomputed: {sum(polled) / 2:.9g}"  # the driver's own samples differ from the polled ones
    assert [line for line in recheck.check_trial(result, folder) if "gpu_percent" in line] == [
        f"gpu_percent: stored: {found['gpu_percent']:.9g}; {again}"
    ]
    write_json(folder / "result.json", result.to_json())
    published_files.copy(tmp_path, tmp_path / "copy")
    kept = {path.name for path in (tmp_path / "copy" / "trials" / on_two.id).iterdir()}
    assert {"samples.csv", "samples-gpu1.csv", "driver_samples-gpu1.csv"} <= kept


def test_a_card_that_says_nothing_leaves_no_half_a_sum(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    gone = "GPU-77777777-0000-0000-0000-000000000000"
    replay = replayed(monkeypatch, tmp_path, UUID, gone)
    result = replay.result(varied(gpu_spec, devices=2, others=(gone,)), *WINDOW, **BATCH)
    for name in (*NAMES, "process_gpu_memory_bytes", "device_memory_bytes"):
        figure = result.figures[name]
        assert figure.value is None and (figure.reason or "").startswith("GPU 2 of 2: "), name
    assert "nvmlDeviceGetHandleByUUID" in (result.figures["energy_j"].reason or "")
    (alone,) = [check for check in result.checks if check.name == CheckName.ALONE]
    assert not alone.passed and alone.detail.startswith("GPU 2: unknown")


def test_somebody_else_on_either_card_makes_the_trial_contended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_two: TrialSpec
) -> None:
    replay = replayed(monkeypatch, tmp_path, UUID, UUID_B)
    samples = (tmp_path / "samples-gpu1.csv").read_text().splitlines()
    place = samples[0].split(",").index("foreign_processes")
    row = samples[20].split(",")
    row[place] = "1"
    (tmp_path / "samples-gpu1.csv").write_text("\n".join([*samples[:20], ",".join(row), *samples[21:]]) + "\n")
    result = replay.result(on_two, *WINDOW, images=IMAGES)
    assert result.status == Status.CONTENDED and result.figures["foreign_processes"].value == 1
    assert (result.reason or "").startswith("GPU 2: 1 other process(es) on the device (during")


def test_a_trial_on_several_cards_without_the_other_ones_files_has_no_sum(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_two: TrialSpec
) -> None:
    """A sampler that knew of one card only leaves such files."""
    replay = replayed(monkeypatch, tmp_path, UUID)
    result = replay.result(on_two, *WINDOW, **BATCH)
    assert result.figures["energy_j"].value is None
    assert "no report on this GPU" in (result.figures["energy_j"].reason or "")
