"""Logs of real cards that others published, replayed through the sampler; and readings as late as theirs.

The logs are not ours to hand on. $BATCHWISE_TRACES names the folder that holds them; `.ci/run` sets it where it exists.
The truths are plain Python's over the original cells (README.md there). A trace starts 3 s before its log.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import varied
from stand_in import BATCH, UUID, Replay, Trace, load

from runner.machine.description import list_gpus
from workloads.records.job import TrialSpec

FOLDER = os.environ.get("BATCHWISE_TRACES", "")
PAD_S = 3.0
LARGE = {"NVML_MEMORY_MIB": "81920", "NVML_LIMIT_MW": "700000"}
LETTERS = ("", "_B", "_C", "_D", "_E", "_F", "_G", "_H")
needs_logs = pytest.mark.skipif(not FOLDER, reason="BATCHWISE_TRACES is not set: it names the folder of others' logs")
# Idle, 10 s of load, idle. Memory comes and goes with the load.
PULSE: Trace = [
    (0, {}),
    (5000, {"gpu": 100, "power": 660, "sm": 1980, "used": 4500, "process": 4000}),
    (15_000, {"gpu": 0, "power": 60, "sm": 345, "used": 500, "process": 0}),
]


@pytest.fixture(autouse=True)
def loaded(library: Path) -> None:
    load(library)


def convert(log: str, card: int, folder: Path) -> str:
    """Return the path of one card's samples as a trace."""
    script = Path(FOLDER) / "to_stand_in.py"
    done = subprocess.run(
        [sys.executable, str(script), str(Path(FOLDER) / log), str(card)], capture_output=True, text=True, check=True
    )
    trace = folder / f"trace-{card}.csv"
    trace.write_text(done.stdout)
    return str(trace)


@needs_logs
@pytest.mark.parametrize(
    ("log", "window", "truth"),  # in s of the log; %, J
    [
        ("laptop6gb_conv2d.csv", (5, 20), (100.0, 1047.3)),
        ("laptop6gb_conv2d.csv", (0.5, 23), (89.81, 1414.4)),
        ("laptop6gb_conv2d_1005mhz.csv", (0.2, 45), (91.55, 1196.4)),
        ("card48gb_dcconv.csv", (1, 33), (18.86, 2405.9)),
        ("card700w_8gpu_gpt2.csv", (60, 240), (99.66, 124_118)),
        ("v100s_miris.csv", (1, 105), (3.78, None)),  # it holds no power
    ],
)
def test_usage_and_energy_of_a_published_log_come_out_as_in_its_cells(
    log: str, window: tuple[float, float], truth: tuple[float, float | None],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec,
) -> None:  # fmt: skip
    replay = Replay(monkeypatch, tmp_path, PULSE, **LARGE)
    monkeypatch.setenv("NVML_TRACE", convert(log, 0, tmp_path))
    replay.set(0)
    replay.run(window[1] + PAD_S + 2)
    figures = replay.result(gpu_spec, PAD_S + window[0], PAD_S + window[1], **BATCH).figures
    assert figures["gpu_percent"].value == pytest.approx(truth[0], abs=0.5)
    if truth[1] is not None:
        assert figures["energy_j"].value == pytest.approx(truth[1], rel=0.002)


@needs_logs
def test_two_of_eight_cards_that_train_gpt_2_come_out_as_in_their_cells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, PULSE, NVML_DEVICES="8", **LARGE)
    for number, letter in enumerate(LETTERS):
        monkeypatch.setenv(f"NVML_TRACE{letter}", convert("card700w_8gpu_gpt2.csv", number, tmp_path))
    replay.set(0)
    cards = list_gpus()
    assert [card.name for card in cards].count("Stand-in 80 GiB") == 7 and cards[0].uuid == UUID
    replay.run(100, UUID, cards[1].uuid)
    result = replay.result(varied(gpu_spec, devices=2, others=(cards[1].uuid,)), PAD_S + 20, PAD_S + 95, images=640)
    assert result.figures["gpu_percent"].value == pytest.approx(78.30, abs=0.5)
    assert result.figures["energy_j"].value == pytest.approx(85_410, rel=0.002)
    assert result.figures["power_limit_w"].value == 1400


def test_power_and_clocks_are_as_late_as_real_ones_and_memory_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replay = Replay(monkeypatch, tmp_path, PULSE, NVML_STALE="1", **LARGE)
    replay.run(25)
    with (tmp_path / "samples.csv").open(newline="") as file:
        rows = [{name: float(cell or "nan") for name, cell in row.items()} for row in csv.DictReader(file)]

    def first(column: str, after: int, reaches: float) -> float:
        """Seconds from row `after` until the column is on the other side of a value."""
        above = rows[after - 1][column] > reaches
        return (
            next(number - after for number in range(after, len(rows)) if (rows[number][column] > reaches) != above) / 10
        )

    assert 0.4 <= first("power_mw", 50, 594_000) <= 1.0
    assert 2.0 <= first("power_mw", 150, 594_000) <= 5.0
    assert first("device_memory_bytes", 50, 2**30) == 0 and first("device_memory_bytes", 150, 2**30) == 0
    assert len({row["power_mw"] for row in rows}) == 2


def test_a_polled_figure_of_a_short_window_says_that_readings_lag_and_the_counter_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, PULSE, NVML_STALE="1", NVML_FAIL="nvmlDeviceGetSamples=3", **LARGE)
    replay.run(25)
    short = replay.result(gpu_spec, 5.0, 10.0, **BATCH).figures
    assert short["energy_j"].value == pytest.approx(3300) and "lag" not in short["energy_j"].source
    integrated = short["energy_integrated_j"]
    assert integrated.value is not None and integrated.value < 0.95 * 3300
    long = replay.result(gpu_spec, 2.0, 22.0, **BATCH).figures
    for name in ("energy_integrated_j", "gpu_percent", "sm_clock_mhz"):
        assert "may lag a change of load by seconds, which matters in a window below 10 s" in short[name].source, name
        assert "lag" not in long[name].source, name


def test_a_trace_that_is_longer_than_the_stand_in_holds_ends_the_program(library: Path, tmp_path: Path) -> None:
    row = ",".join(["0"] * 11)
    (tmp_path / "trace.csv").write_text(f"{row}\n" * 262_145)
    ask = (
        f"import ctypes, pynvml; ctypes.CDLL({str(library / 'libnvidia-ml.so.1')!r}); pynvml.nvmlInit();"
        "pynvml.nvmlDeviceGetPowerUsage(pynvml.nvmlDeviceGetHandleByIndex(0))"
    )
    variables = os.environ | {"NVML_TRACE": str(tmp_path / "trace.csv")}
    done = subprocess.run([sys.executable, "-c", ask], env=variables, capture_output=True, text=True)
    assert done.returncode < 0 and "one too many" in done.stderr
