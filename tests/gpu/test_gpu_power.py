"""The power of a card that swings with the worker's steps, at about the sampler's own rate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest
from conftest import varied
from stand_in import BATCH, UUID, UUID_B, Replay, Trace, load, write_trace

from reports.checking import recheck
from runner.sampler.meter import Schedule, derive_seed
from workloads.records.check_name import CheckName
from workloads.records.columns import PERIOD_S
from workloads.records.figures import ENERGY, POWER, Method
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult

HIGH_W, LOW_W = 400.0, 80.0
MEAN_W = (HIGH_W + LOW_W) / 2
NO_COUNTER = {"NVML_FAIL": "nvmlDeviceGetTotalEnergyConsumption=3"}
COUNTER = {"NVML_COUNTER_MS": "100"}
STEPS_MS = (100.0, 97.0, 103.0, 50.0, 200.0, 33.3)
WINDOW = 2.03, 7.06


@pytest.fixture(scope="module", autouse=True)
def loaded(library: Path) -> None:
    load(library)


def swing(step_ms: float, at_ms: float = 0.0) -> Trace:
    """A trace with half of each step at 400 W, half at 80 W."""
    steps: Trace = [(0, {"gpu": 90, "used": 2000, "process": 1500, "power": LOW_W, "throttle": 0})]
    for number in range(int(9000 / step_ms)):
        steps.append((at_ms + number * step_ms + 1, {"power": HIGH_W}))
        steps.append((at_ms + (number + 0.5) * step_ms + 1, {"power": LOW_W}))
    return steps


def measured(
    monkeypatch: pytest.MonkeyPatch, folder: Path, spec: TrialSpec, steps: Trace, seed: int | None, **variables: str
) -> TrialResult:
    folder.mkdir()
    replay = Replay(monkeypatch, folder, steps, **variables)
    replay.run(8.5, seed=seed)
    return replay.result(spec, *WINDOW, **BATCH)


def failed(result: TrialResult, *names: CheckName) -> list[str]:
    return [f"{check.name}: {check.detail}" for check in result.checks if check.name in names and not check.passed]


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_the_mean_of_a_power_that_swings_with_the_steps_is_right_and_no_check_blames_the_energy(
    step_ms: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    found = []
    for seed in range(5):
        result = measured(monkeypatch, tmp_path / str(seed), gpu_spec, swing(step_ms), seed, **COUNTER)
        power, error = (result.figures[name].value for name in ("power_w", "power_error_w"))
        assert power is not None and error is not None and result.figures["power_w"].method is Method.COUNTER
        assert power == pytest.approx(MEAN_W, rel=0.025) and error < 0.06 * MEAN_W
        assert abs(power - MEAN_W) <= 1.5 * error  # a step at one edge, and the phase of the power at both
        assert not failed(result, CheckName.ENERGY, CheckName.BUSY_ABOVE_ALL)
        found.append(power)
    assert fmean(found) == pytest.approx(MEAN_W, rel=0.02)


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_without_a_counter_the_mean_lies_within_the_error_that_is_given_with_it(
    step_ms: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """One of ten 95 % intervals may miss, by chance; readings at equal intervals missed by up to 160 W."""
    found, within = [], 0
    for seed in range(10):
        result = measured(monkeypatch, tmp_path / str(seed), gpu_spec, swing(step_ms), seed, **NO_COUNTER)
        power, error = result.figures["power_w"], result.figures["power_error_w"]
        assert power.method is error.method is Method.POLLED and power.value is not None and error.value is not None
        found.append(power.value)
        within += abs(power.value - MEAN_W) <= error.value
        assert error.value < 0.3 * MEAN_W
        assert result.figures["energy_resolution_percent"].value is None
    assert within >= 9 and fmean(found) == pytest.approx(MEAN_W, rel=0.06)


def test_readings_at_equal_intervals_would_all_see_the_same_point_of_a_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """The schedule prevents this; with a counter even equal intervals do not mislead the mean."""
    equal = measured(monkeypatch, tmp_path / "equal", gpu_spec, swing(100, at_ms=-20), None, **COUNTER)
    assert equal.figures["power_w"].value == pytest.approx(MEAN_W, rel=0.02)
    equal_readings = equal.figures["energy_integrated_j"].value
    assert equal_readings is not None and abs(equal_readings / (WINDOW[1] - WINDOW[0]) - MEAN_W) > 0.6 * MEAN_W


def test_a_counter_that_is_wrong_is_still_blamed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    steady: Trace = [(0, {"gpu": 90, "used": 2000, "process": 1500, "power": 300, "throttle": 0})]
    result = measured(monkeypatch, tmp_path / "right", gpu_spec, steady, 1, **COUNTER)
    assert not failed(result, CheckName.ENERGY)
    path = tmp_path / "wrong"
    path.mkdir()
    replay = Replay(monkeypatch, path, steady, **COUNTER)
    trace = path / "trace.csv"
    rows = [line.split(",") for line in trace.read_text().splitlines()]
    trace.write_text("".join(",".join([*row[:5], str(float(row[5]) * 1.15), *row[6:]]) + "\n" for row in rows))
    replay.run(8.5, seed=1)
    assert failed(replay.result(gpu_spec, *WINDOW, **BATCH), CheckName.ENERGY)


def test_the_counters_step_is_part_of_the_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """Steps of half a second hide up to a tenth of a window of five seconds."""
    steady: Trace = [(0, {"gpu": 90, "used": 2000, "process": 1500, "power": 300, "throttle": 0})]
    share = {}
    for step_ms in (20, 100, 500):
        variables = {"NVML_COUNTER_MS": str(step_ms)}
        figures = measured(monkeypatch, tmp_path / str(step_ms), gpu_spec, steady, 1, **variables).figures
        resolution, power, error = (
            figures[name].value for name in ("energy_resolution_percent", "power_w", "power_error_w")
        )
        assert resolution is not None and power is not None and error is not None
        assert error == pytest.approx(power * resolution / 100)
        assert abs(power - 300) <= error
        share[step_ms] = resolution
    assert share[20] < 4 and share[100] < 4 and share[500] == pytest.approx(10, abs=1)


def test_the_report_computes_power_and_energy_of_a_counter_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    result = measured(monkeypatch, tmp_path / "trial", gpu_spec, swing(97), 3, **COUNTER)
    told = recheck.check_trial(result, tmp_path / "trial")
    assert not [line for line in told if "power" in line or "energy" in line]
    for spec in (POWER, ENERGY):
        figure = result.figures[spec.name]
        assert figure.value is not None
        moved = {**result.figures, spec.name: type(figure)(figure.value * 1.01, "moved", method=Method.COUNTER)}
        altered = TrialResult(**{**vars(result), "figures": moved})
        assert any(line.startswith(f"{spec.name}: stored") for line in recheck.check_trial(altered, tmp_path / "trial"))


def test_two_cards_power_is_their_sum_and_so_is_what_it_may_be_off_by(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    steady: Trace = [(0, {"gpu": 90, "used": 2000, "process": 1500, "power": 300, "throttle": 0})]
    other = write_trace(tmp_path / "other.csv", [(0, {"gpu": 90, "used": 2000, "process": 1500, "power": 100})])
    replay = Replay(monkeypatch, tmp_path, steady, NVML_TRACE_B=str(other), NVML_DEVICES="2", **COUNTER)
    replay.run(8.5, UUID, UUID_B, seed=1)
    spec = varied(gpu_spec, devices=2, others=(UUID_B,))
    figures = replay.result(spec, *WINDOW, **BATCH).figures
    assert figures["power_w"].value == pytest.approx(400, rel=0.02)
    assert not [
        line for line in recheck.check_trial(replay.result(spec, *WINDOW, **BATCH), tmp_path) if "power" in line
    ]


def moments(seed: int, late_s: Sequence[float] = ()) -> list[float]:
    """Times of the rows of a sampler whose work takes that long each time."""
    schedule, now_s, found = Schedule(seed, 100.0), 100.0, []
    for took_s in [*late_s, *[0.001] * 200]:
        now_s = schedule.next_s(now_s)
        found.append(now_s - 100.0)
        now_s += took_s
    return found


def test_the_schedule_has_one_row_in_each_period_at_a_random_moment_of_it() -> None:
    rows = moments(derive_seed("pytorch-cpu-b00032-r0-1a2b3c4d"))
    assert [int(row / PERIOD_S) for row in rows] == list(range(200))
    assert max(after - before for before, after in pairwise(rows)) < 2 * PERIOD_S
    assert fmean(row % PERIOD_S for row in rows) == pytest.approx(PERIOD_S / 2, rel=0.15)
    assert (
        rows
        == moments(derive_seed("pytorch-cpu-b00032-r0-1a2b3c4d"))
        != moments(derive_seed("pytorch-cpu-b00032-r1-1a2b3c4d"))
    )


def test_a_sampler_that_was_held_up_does_not_make_up_for_missed_periods() -> None:
    rows = moments(7, late_s=[1.0])
    assert rows[1] - rows[0] >= 1.0 and rows[2] - rows[1] < 2 * PERIOD_S
    assert [int(row / PERIOD_S) for row in rows[2:5]] == [int(rows[1] / PERIOD_S) + number for number in (1, 2, 3)]
