"""Figures of a GPU compared with what the trace says: mean, busy mean, peak, energy, to the last digit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from stand_in import BATCH, ENERGY_J, MIB, STEPS, UUID_B, WINDOW, WINDOW_S, Replay, load, switched

from reports.checking import recheck
from runner.results.gpu import NAMES
from workloads.records.check_name import CheckName
from workloads.records.columns import DRIVER_COLUMNS
from workloads.records.figures import Method
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.samples import read_samples
from workloads.records.status import Status

NO_COUNTER = "nvmlDeviceGetTotalEnergyConsumption=3"


@pytest.fixture(scope="module", autouse=True)
def loaded(library: Path) -> None:
    load(library)


def without_counter(samples: str) -> str:
    """Remove the energy counter from the samples, as for a device that has none."""
    return with_counter(samples, "")


def with_counter(samples: str, reading: str, rises_until: int = 0) -> str:
    """Put this reading of the energy counter into every row from that number on."""
    head, *rows = [line.split(",") for line in samples.splitlines()]
    column = head.index("energy_mj")
    emptied = [[*row[:column], reading, *row[column + 1 :]] for row in rows[rises_until:]]
    return "".join(",".join(row) + "\n" for row in [head, *rows[:rises_until], *emptied])


def values(result: TrialResult) -> dict[str, float | None]:
    return {name: figure.value for name, figure in result.figures.items()}


def test_every_figure_is_what_the_trace_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS)
    replay.run(9)
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    found = values(result)
    assert result.status == Status.OK, result.reason
    # The driver's samples at 2.1, 2.2, ... 8.0 s, each the mean of the 100 ms before it.
    assert found["gpu_percent"] == pytest.approx((90 * 3 + 30 * 1) / 6, abs=1e-9)
    assert (
        result.figures["gpu_percent"].samples == 60 and "nvmlDeviceGetSamples" in result.figures["gpu_percent"].source
    )
    assert found["gpu_busy_percent"] == pytest.approx(3000 / 41)  # those at 3.0, 3.1, ... 7.0 s
    assert found["sm_active_percent"] == pytest.approx(50)  # pairs from 2 s to 8 s
    assert found["sm_occupancy_percent"] == pytest.approx(25)
    assert found["tensor_active_percent"] == pytest.approx(12.5)
    assert found["dram_active_percent"] == pytest.approx((40 * 3 + 10 * 1) / 6, abs=1e-3)
    assert found["power_w"] == pytest.approx(ENERGY_J / WINDOW_S)
    assert result.figures["power_w"].method is Method.COUNTER
    assert found["power_error_w"] == pytest.approx(60 * 0.1 / WINDOW_S)  # idle at both edges, and read every 0.1 s
    assert found["energy_resolution_percent"] == pytest.approx(100 * 60 * 0.1 / ENERGY_J)
    assert found["power_busy_w"] == pytest.approx((30 * 260 + 10 * 160) / 40)
    assert found["energy_j"] == pytest.approx(ENERGY_J)
    assert found["energy_integrated_j"] == pytest.approx(ENERGY_J)
    assert found["energy_per_image_j"] == pytest.approx(ENERGY_J / 320)
    assert found["sm_clock_mhz"] == pytest.approx((3 * 345 + 2 * 1980 + 2 * 1380) / 7)
    assert found["memory_clock_mhz"] == 2619
    assert found["temperature_c"] == 71
    assert found["throttled_percent"] == pytest.approx(100 / 7)  # at 5 s, one of the readings at 2, 3, ... 8 s
    assert "software power cap, software thermal slowdown" in result.figures["throttled_percent"].source
    assert found["power_limit_w"] == 300
    assert found["process_gpu_memory_bytes"] == 4000 * MIB
    assert found["device_memory_bytes"] == 4500 * MIB
    assert found["device_memory_baseline_bytes"] == 500 * MIB
    assert all(figure.source and (figure.samples or figure.value is None) for name, figure in result.figures.items()
               if name in NAMES)  # fmt: skip
    assert not [figure.source for figure in result.figures.values() if "registry." in figure.source], "a name of ours"


def test_idle_gpu_time_before_the_window_stays_out_of_the_polled_mean(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FAIL="nvmlDeviceGetSamples=3")
    replay.run(9)
    figures = replay.result(gpu_spec, *WINDOW, **BATCH).figures
    # A rate read at t may describe the second before. Only 3.0, 3.1, ... 8.0 s describe nothing but the window.
    assert figures["gpu_percent"].value == pytest.approx((30 * 90 + 10 * 30) / 51)
    assert figures["gpu_busy_percent"].value == pytest.approx((30 * 90 + 10 * 30) / 40)
    assert figures["gpu_percent"].samples == 51
    assert "polled at 10 Hz" in figures["gpu_percent"].source and "Not Supported" in figures["gpu_percent"].source


def test_a_long_pair_weighs_more_than_a_short_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS)
    replay.run(9, stalled=range(3100, 5000, 100))
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    figure = result.figures["sm_active_percent"]
    assert figure.samples == 5 and figure.value == pytest.approx(50)  # 2-3, 3-5, 5-6, 6-7 and 7-8 s
    assert result.figures["gpu_percent"].value == pytest.approx(50)  # the driver's buffer bridges the gap
    assert result.figures["energy_j"].value == pytest.approx(ENERGY_J)
    assert "samples cover the window" in [check.name for check in result.checks if not check.passed]


def test_a_handful_of_driver_samples_does_not_pass_for_a_mean(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS)
    replay.run(9)
    figure = replay.result(gpu_spec, 3.05, 3.95, **BATCH).figures["gpu_percent"]
    assert "8 in the window" in figure.source and figure.value is None  # polled readings reach outside the window


def test_energy_without_a_counter_is_marked_as_integrated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FAIL="nvmlDeviceGetTotalEnergyConsumption=3")
    replay.run(9)
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    figure = result.figures["energy_j"]
    assert figure.value == pytest.approx(ENERGY_J)
    assert "integrated" in figure.source and "no counter: nvmlDeviceGetTotalEnergyConsumption" in figure.source
    assert "energy by counter = integrated power" not in [check.name for check in result.checks]  # the same figure


def test_average_power_of_the_second_before_the_window_stays_out_of_its_mean(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FAIL=f"FIELD_186=3,{NO_COUNTER}")
    replay.run(9)
    figure = replay.result(gpu_spec, *WINDOW, **BATCH).figures["power_w"]
    assert "nvmlDeviceGetPowerUsage" in figure.source and figure.samples == 51  # 3.0, 3.1, ... 8.0 s


@pytest.mark.parametrize("ahead_ms", [-3_600_000, -5_000, 5_000, 3_600_000])
def test_samples_of_a_driver_with_another_clock_are_not_taken(
    ahead_ms: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_CLOCK_MS=str(ahead_ms))
    meter = replay.run(9)
    figure = replay.result(gpu_spec, *WINDOW, **BATCH).figures["gpu_percent"]
    assert "polled" in figure.source and "another clock" in figure.source and figure.samples == 51
    assert "another clock" in meter["gpu"]["metrics"]["driver_samples"]["reason"]
    assert not len(read_samples(tmp_path / "driver_samples.csv", DRIVER_COLUMNS)["t_ns"])


def test_driver_samples_do_not_shift_against_the_monotonic_clock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS)
    replay.run(4)
    driver = read_samples(tmp_path / "driver_samples.csv", DRIVER_COLUMNS)
    at_ms = (driver["t_ns"] - (replay.now_ns() - replay.now_ms * 1e6)) / 1e6
    assert at_ms == pytest.approx(np.arange(1, 41) * 100, abs=0.01)
    assert driver["gpu_percent"][at_ms > 3050].tolist() == [90] * 10


@pytest.mark.parametrize("swapped", ["0", "1"])
def test_order_of_the_cards_does_not_decide_which_one_is_read(
    swapped: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    variables = {"NVML_DEVICES": "2", "NVML_SWAPPED": swapped}
    replay = Replay(monkeypatch, tmp_path, STEPS, **variables)
    replay.run(9)
    assert values(replay.result(gpu_spec, *WINDOW, **BATCH))["gpu_percent"] == 50
    replay = Replay(monkeypatch, tmp_path, STEPS, **variables)
    replay.run(9, UUID_B)
    figures = replay.result(gpu_spec, *WINDOW, **BATCH).figures
    assert figures["gpu_percent"].value == 0
    assert figures["gpu_busy_percent"].value is None and "in use in none" in (figures["gpu_busy_percent"].reason or "")


def test_every_metric_has_an_account_of_its_cost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    meter = Replay(monkeypatch, tmp_path, STEPS).run(4)
    metrics = meter["gpu"]["metrics"]
    assert set(metrics) >= {"gpu_percent", "device_memory_bytes", "energy_mj", "power_mw", "processes", "gpm"}
    for name, metric in metrics.items():
        assert metric["source"] and metric["reason"] is None and metric["failures"] == 0, name
        assert metric["probe_us"] >= 0 and metric["calls"] >= 4, name
    assert metrics["gpu_percent"]["calls"] == 42 and metrics["processes"]["calls"] == 6
    assert len(meter["clocks"]) == 2 and meter["sampler"]["samples"] == 41


def test_a_hole_in_the_middle_of_the_window_enters_no_mean(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """Power, usage and GPM are missing from 2.9 to 6.0 s only, where the trace is highest. The counter bridges the
    gap."""
    refused = (
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetUtilizationRates",
        "nvmlGpmSampleGet",
        "nvmlDeviceGetClockInfo",
    )
    replay = Replay(
        monkeypatch, tmp_path, STEPS, NVML_FAIL_FROM=str(tmp_path / "lost"),
        NVML_FAIL=",".join(f"{call}=999" for call in (*refused, "nvmlDeviceGetSamples")),
    )  # fmt: skip
    replay.run(9, at=switched(tmp_path, 2900, 6400))
    figures = replay.result(gpu_spec, *WINDOW, **BATCH).figures
    for name in ("power_busy_w", "energy_integrated_j", "energy_integrated_error_j"):
        assert figures[name].value is None and (figures[name].reason or "").startswith("no reading for 3.6 s; "), name
        assert "(NVML error 999); 35 of" in (figures[name].reason or ""), name
    assert figures["sm_clock_mhz"].value is None and "no reading for 5.0 s" in (figures["sm_clock_mhz"].reason or "")
    assert figures["energy_j"].value == pytest.approx(ENERGY_J) and "Energy" in figures["energy_j"].source
    # The driver keeps its samples until it answers again, and GPM keeps the counters of the pair's first half.
    assert figures["gpu_percent"].value == pytest.approx(50) and "GetSamples" in figures["gpu_percent"].source
    assert figures["sm_active_percent"].value == pytest.approx(50)


def test_polled_usage_with_a_hole_does_not_pass_for_the_windows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FAIL_FROM=str(tmp_path / "lost"), NVML_FAIL="*=999")
    replay.run(9, at=switched(tmp_path, 3900, 6400))
    cut_driver_samples(replay, tmp_path, 0, 9000)
    figures = replay.result(gpu_spec, *WINDOW, **BATCH).figures
    for name in ("gpu_percent", "gpu_busy_percent"):
        assert figures[name].value is None and "no reading for 2.6 s" in (figures[name].reason or "")


def cut_driver_samples(replay: Replay, folder: Path, from_ms: float, to_ms: float) -> None:
    """Drop the driver's samples between two times, as a driver that did not keep them."""
    path = folder / "driver_samples.csv"
    head, *rows = path.read_text().splitlines()
    zero_ns = replay.now_ns() - replay.now_ms * 1e6
    kept = [row for row in rows if not from_ms < (float(row.split(",")[0]) - zero_ns) / 1e6 < to_ms]
    path.write_text("\n".join([head, *kept]) + "\n")


def test_driver_samples_with_a_hole_do_not_pass_for_the_windows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS)
    replay.run(9)
    cut_driver_samples(replay, tmp_path, 2950, 6850)
    figure = replay.result(gpu_spec, *WINDOW, **BATCH).figures["gpu_percent"]
    assert "polled at 10 Hz (driver's own samples: none for 4.0 s)" in figure.source
    assert figure.samples == 51 and figure.value == pytest.approx((30 * 90 + 10 * 30) / 51)


@pytest.mark.parametrize("how", ["doubled", "repeated", "disputed"])
def test_a_sample_that_the_driver_tells_more_than_once_counts_once(
    how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """Cases: twice in one answer, in every later answer, or twice with two values, whose mean is taken."""
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_SAMPLES=how)
    replay.run(9)
    figures = replay.result(gpu_spec, *WINDOW, **BATCH).figures
    assert "nvmlDeviceGetSamples" in figures["gpu_percent"].source and figures["gpu_percent"].samples == 60
    assert figures["gpu_percent"].value == pytest.approx((90 * 3 + 30 * 1) / 6, abs=1e-9)
    assert figures["gpu_busy_percent"].value == pytest.approx(3000 / 41)
    rows = (tmp_path / "driver_samples.csv").read_text().splitlines()[1:]
    assert len(rows) == len({tuple(row.split(",")[1:]) for row in rows}) == (131 if how == "disputed" else 90)


def test_stored_samples_that_a_driver_told_twice_count_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """Earlier code stored them so: the second time from another answer, microseconds apart on the monotonic clock."""
    replay = Replay(monkeypatch, tmp_path, STEPS)
    replay.run(9)
    path = tmp_path / "driver_samples.csv"
    head, *rows = path.read_text().splitlines()
    busy = [row.split(",") for row in rows if int(row.split(",")[2]) > 50]
    again = [",".join([str(int(t_ns) + 3000), epoch_us, percent]) for t_ns, epoch_us, percent in busy]
    path.write_text("\n".join([head, *sorted([*rows, *again])]) + "\n")
    figure = replay.result(gpu_spec, *WINDOW, **BATCH).figures["gpu_percent"]
    assert figure.samples == 60 and figure.value == pytest.approx((90 * 3 + 30 * 1) / 6, abs=1e-9)


def test_power_read_without_the_utilisation_does_not_count_as_idle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(
        monkeypatch, tmp_path, STEPS, NVML_FAIL_FROM=str(tmp_path / "lost"),
        NVML_FAIL="nvmlDeviceGetUtilizationRates=999",
    )  # fmt: skip
    replay.run(9, at=switched(tmp_path, 4000, 4200))
    (tmp_path / "samples.csv").write_text(without_counter((tmp_path / "samples.csv").read_text()))
    figures = replay.result(gpu_spec, *WINDOW, **BATCH).figures
    assert figures["power_w"].value == pytest.approx((10 * 60 + 28 * 260 + 10 * 160 + 11 * 60) / 59)
    assert figures["power_w"].samples == 59 and "2 readings without the utilisation" in figures["power_w"].source
    assert figures["power_busy_w"].value == pytest.approx((28 * 260 + 10 * 160) / 38)


def test_a_clock_set_in_mid_run_does_not_shift_the_drivers_samples_unseen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    for ahead_ms, passed in ((20, True), (80, False)):
        replay = Replay(monkeypatch, tmp_path, STEPS)
        replay.run(9, at={5000: [partial(replay.set_clock, ahead_ms)]})
        result = replay.result(gpu_spec, *WINDOW, **BATCH)
        assert "GetSamples" in result.figures["gpu_percent"].source
        (check,) = [check for check in result.checks if check.name == CheckName.KEPT_PACE]
        assert check.passed is passed and f"+0.0{ahead_ms} s" in check.detail
        again = [line for line in recheck.check_trial(result, tmp_path) if CheckName.KEPT_PACE in line]
        assert again == ([] if passed else [f"{CheckName.KEPT_PACE}: failed: {check.detail}"])  # as it was stored
    (tmp_path / "meter.json").write_text("{}")
    assert "meter.json: Object missing required field `clocks`" in recheck.check_trial(result, tmp_path)


def test_a_counter_that_stands_still_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """The replayed energy is the integral of the power; as on some virtual cards, the power is told, the energy not."""
    replay = Replay(monkeypatch, tmp_path, STEPS)
    replay.run(9)
    samples = tmp_path / "samples.csv"
    samples.write_text(with_counter(samples.read_text(), "5000000"))
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    energy, power = result.figures["energy_j"], result.figures["power_w"]
    assert energy.value == pytest.approx(ENERGY_J) and energy.method == Method.INTEGRATED
    assert "no counter: the counter stood still in the window" in energy.source
    assert power.value and power.method == Method.POLLED
    details = [check.detail for check in result.checks if check.name == "not all zero"]
    assert any(detail.startswith("energy_mj: all") for detail in details)
    recomputed = [line for line in recheck.check_trial(result, tmp_path) if "recomputed" in line]
    assert not [line for line in recomputed if "energy" in line or "power" in line]
    moved = {**result.figures, "power_w": replace(power, value=0.9 * power.value)}
    again = recheck.check_trial(replace(result, figures=moved), tmp_path)
    assert any(line.startswith("power_w: stored") for line in again)


def test_a_counter_that_stands_still_only_in_the_window_leaves_the_trial_its_other_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS)
    replay.run(9)
    samples = tmp_path / "samples.csv"
    samples.write_text(with_counter(samples.read_text(), "5000000", rises_until=10))  # 1 s: the window starts later
    assert len(set(read_samples(samples)["energy_mj"])) > 5
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    assert result.status is Status.OK, result.reason
    figures = result.figures
    assert figures["images_per_s"].value == pytest.approx(320 / WINDOW_S)
    assert figures["energy_j"].value == pytest.approx(ENERGY_J) and figures["energy_j"].method is Method.INTEGRATED
    assert figures["power_w"].value and figures["power_w"].method is Method.POLLED
    resolution = figures["energy_resolution_percent"]
    assert (resolution.value, resolution.reason) == (None, "the counter stood still in the window")


def test_without_any_reading_of_power_a_counter_that_stands_still_gives_no_energy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FAIL="nvmlDeviceGetPowerUsage=3,FIELD_186=3")
    replay.run(9)
    samples = tmp_path / "samples.csv"
    samples.write_text(with_counter(samples.read_text(), "0"))
    figures = replay.result(gpu_spec, *WINDOW, **BATCH).figures
    assert (figures["energy_j"].value, figures["energy_j"].reason) == (None, "the counter stood still in the window")
    assert figures["energy_per_image_j"].value is None
