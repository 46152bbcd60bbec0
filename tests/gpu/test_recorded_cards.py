"""Answers of a real card's driver, replayed through the sampler: figures compared with the rows by plain Python."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import pytest
from stand_in import BATCH, MIB, STEPS, Replay, load

from workloads.records.check_name import CheckName
from workloads.records.figures import Method
from workloads.records.job import TrialSpec
from workloads.records.result import Check, TrialResult

TRACE = Path(__file__).parent / "traces" / "h200-matrix-products.csv"
CARD = {"NVML_MEMORY_MIB": "143771", "NVML_LIMIT_MW": "700000"}
GPU, USED, PROCESS, ENERGY, POWER = 1, 3, 4, 5, 6
# Windows in s of the trace, within one phase and over several; `traces/README.md` has the phases.
FULL, PART, BOTH = (9.5, 15.9), (22.0, 27.0), (6.0, 30.0)


def read_rows() -> list[list[float]]:
    """Return the rows of the trace."""
    with TRACE.open(newline="") as file:
        return [[float(cell) for cell in row] for row in csv.reader(file)]


def held_mean(rows: list[list[float]], column: int, window: tuple[float, float]) -> float:
    """Mean over the window of a reading that holds until the next row."""
    total = 0.0
    for row, following in itertools.pairwise(rows):
        start, end = max(row[0] / 1e3, window[0]), min(following[0] / 1e3, window[1])
        total += row[column] * max(0.0, end - start)
    return total / (window[1] - window[0])


def energy_at(rows: list[list[float]], at_s: float) -> float:
    """Joules on the counter at a time, linear between rows as in the stand-in."""
    for row, following in itertools.pairwise(rows):
        if row[0] <= at_s * 1e3 < following[0]:
            share = (at_s * 1e3 - row[0]) / (following[0] - row[0])
            return (row[ENERGY] + share * (following[ENERGY] - row[ENERGY])) / 1e3
    raise ValueError(at_s)


@pytest.fixture(scope="module")
def rows() -> list[list[float]]:
    return read_rows()


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: Path) -> Replay:
    load(library)
    replay = Replay(monkeypatch, tmp_path, STEPS, **CARD)
    monkeypatch.setenv("NVML_TRACE", str(TRACE))
    replay.set(0)
    replay.run(34)
    return replay


def check_of(result: TrialResult, name: CheckName) -> Check:
    return next(check for check in result.checks if check.name == name)


def test_figures_of_a_recorded_h200_are_those_of_its_rows(
    replayed: Replay, rows: list[list[float]], gpu_spec: TrialSpec
) -> None:
    for window in (FULL, PART, BOTH):
        result = replayed.result(gpu_spec, *window, **BATCH)
        found = {name: figure.value for name, figure in result.figures.items()}
        seconds = window[1] - window[0]
        joules = energy_at(rows, window[1]) - energy_at(rows, window[0])
        assert found["gpu_percent"] == pytest.approx(held_mean(rows, GPU, window), abs=1.0)
        assert result.figures["gpu_percent"].method is Method.DRIVER_SAMPLES
        assert found["energy_j"] == pytest.approx(joules, rel=0.02)
        assert found["power_w"] == pytest.approx(joules / seconds, rel=0.02)
        assert found["energy_integrated_j"] == pytest.approx(held_mean(rows, POWER, window) * seconds / 1e3, rel=0.03)
        assert found["process_gpu_memory_bytes"] == pytest.approx(max(row[PROCESS] for row in rows) * MIB)
        assert found["power_limit_w"] == 700


def test_a_recorded_h200_passes_every_check_of_its_readings(replayed: Replay, gpu_spec: TrialSpec) -> None:
    result = replayed.result(gpu_spec, *FULL, **BATCH)
    names = (CheckName.BUSY_ABOVE_ALL, CheckName.PROCESS_IN_DEVICE, CheckName.ENERGY, CheckName.POWER_LIMITED)
    assert [check for name in names if not (check := check_of(result, name)).passed] == []


def test_mean_power_above_the_enforced_limit_fails_its_check(
    replayed: Replay, gpu_spec: TrialSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = replayed.folder / "samples.csv"
    samples.write_text(samples.read_text().replace(",700000", ",300000"))
    limited = check_of(replayed.result(gpu_spec, *FULL, **BATCH), CheckName.POWER_LIMITED)
    assert not limited.passed and "the limit is 300.0 W" in limited.detail
