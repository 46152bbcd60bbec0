"""The ratio, its interval and the verdicts of `python -m runner overhead`, from made-up segments of a known ratio."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

from runner.command.overhead import Verdict, row, table
from runner.command.overhead_file import OverheadFile
from workloads.records.segments import Segment

IMAGES = 4000


def segment(
    instruments: bool, images_per_s: float = 4000.0, sampler_core: float = 0.01, foreign_percent: float = 0.0
) -> Segment:
    wall_s = IMAGES / images_per_s
    return Segment(instruments, IMAGES, wall_s, sampler_core * wall_s if instruments else 0.0, foreign_percent)


def measured(ratio: float, noise: float, pairs: int = 30, seed: int = 0, **settings: float) -> list[Segment]:
    """On, off, off, on, ...: speeds spread by `noise`, a standard deviation as a share."""
    draw = random.Random(seed)
    kinds = [kind for pair in range(pairs) for kind in ((True, False) if pair % 2 == 0 else (False, True))]
    return [segment(kind, 4000 * (ratio if kind else 1) * math.exp(draw.gauss(0, noise)), **settings) for kind in kinds]


@pytest.mark.parametrize("batch_size", [32, 64, 1024])
def test_a_planted_slowdown_of_5_percent_is_found(batch_size: int) -> None:
    found = row(batch_size, measured(0.95, 0.02), 30)
    assert found["verdict"] == Verdict.OVER
    assert found["low"] < 0.95 < found["high"] < found["bar"]
    assert found["ratio"] == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("batch_size", [32, 64, 1024])
def test_instruments_that_cost_nothing_are_within_the_bar(batch_size: int) -> None:
    found = row(batch_size, measured(1.0, 0.002), 30)
    assert found["verdict"] == Verdict.WITHIN and found["bar"] < found["low"] < 1 < found["high"]


@pytest.mark.parametrize("ratio", [0.95, 1.0])
def test_in_noise_the_verdict_is_that_nothing_can_be_told(ratio: float) -> None:
    found = row(128, measured(ratio, 0.2), 30)
    assert found["verdict"] == Verdict.CANNOT_BE_TOLD and found["low"] < 0.99 < found["high"]


def test_the_bar_is_another_below_batch_64() -> None:
    """A slowdown of 1.5 % is too much at 64 and allowed at 63."""
    segments = measured(0.985, 0.002)
    assert [row(size, segments, 30)["verdict"] for size in (63, 64)] == [Verdict.WITHIN, Verdict.OVER]
    assert [row(size, segments, 30)["bar"] for size in (63, 64)] == [0.98, 0.99]


def test_the_mean_is_geometric() -> None:
    """Twice as fast and half as fast is no difference; the arithmetic mean of the ratios would be 1.25."""
    pairs = [(2.0, 1.0), (1.0, 2.0), (1.0, 1.0)]
    segments = [segment(kind, speed) for pair in pairs for kind, speed in zip((True, False), pair, strict=True)]
    assert row(128, segments, 3)["ratio"] == pytest.approx(1)


def test_a_machine_that_slows_down_does_not_become_a_cost() -> None:
    segments = measured(1.0, 0.0, pairs=20)
    slower = [segment(s.instruments, 4000 * 0.98**number) for number, s in enumerate(segments)]
    assert row(128, slower, 20)["ratio"] == pytest.approx(1, abs=1e-9)


def test_pairs_that_others_disturbed_are_not_counted() -> None:
    """Five times slower in the segments with the instruments, because another process took the cores."""
    disturbed = [segment(True), segment(False, 800, foreign_percent=60)] * 5
    found = row(128, disturbed + measured(1.0, 0.002, foreign_percent=1.0), 30)
    assert found["verdict"] == Verdict.WITHIN and found["ratio"] == pytest.approx(1, abs=0.002)
    assert (found["pairs"], found["pairs_measured"], found["foreign_cpu_percent"]) == (30, 35, pytest.approx(1.0))
    assert len(found["segments"]) == 70, "what was measured is not all stored"


def test_segments_of_one_kind_are_no_pair() -> None:
    with pytest.raises(ValueError, match="one with the instruments and one without"):
        row(128, [segment(True), segment(True)] * 3, 3)


@pytest.mark.parametrize(("core", "verdict"), [(0.049, Verdict.WITHIN), (0.051, Verdict.OVER)])
def test_the_sampler_takes_no_more_than_its_bar_unnoticed(core: float, verdict: Verdict) -> None:
    """Its time while it stood still is none, so only the segments in which it ran are the base."""
    found = row(128, measured(1.0, 0.0, sampler_core=core), 30)
    assert found["sampler_core_percent"] == pytest.approx(100 * core)
    assert found["sampler_verdict"] == verdict


def test_the_table_has_every_figure_and_its_bar() -> None:
    found = {"framework": "pytorch", "batch_size": 32} | row(32, measured(0.95, 0.0, sampler_core=0.06), 30)
    line = table([found]).splitlines()[-1]
    assert re.split(r"\s{2,}", line) == [
        "pytorch", "32", "30 of 30", "0.0", "95.00 [95.00, 95.00]", "98", Verdict.OVER, "6.00 of 5", Verdict.OVER,
    ]  # fmt: skip


def test_what_the_instruments_cause_beyond_their_own_time_does_not_clear_them() -> None:
    """Kernel work for the sampler counts as foreign while it runs."""
    costly = [segment(True, 3600, foreign_percent=60), segment(False)] * 20
    found = row(128, costly + measured(1.0, 0.002, pairs=30), 30)
    assert found["ratio"] == pytest.approx(1, abs=0.002) and found["high_all"] < 0.99
    assert found["verdict"] == Verdict.OVER


def test_the_choice_of_pairs_is_not_hidden() -> None:
    disturbed = [segment(True), segment(False, 800, foreign_percent=60)] * 15
    found = row(128, disturbed + measured(1.0, 0.002), 30)
    assert found["pairs_measured"] == 45 and found["pairs"] == 30
    assert found["ratio"] == pytest.approx(1, abs=0.01)
    assert found["ratio_all"] == pytest.approx(5 ** (15 / 45), rel=0.01)
    assert found["low_all"] < found["ratio_all"] < found["high_all"]


CONDITIONS = {"cpu_model": "A", "commit": "abc"}
MXNET = {"framework": "mxnet", "batch_size": 64}


def measurements(path: Path) -> list[Any]:
    content = json.loads(path.read_text())
    assert content["schema_version"] == 2
    return list(content["measurements"])


def test_rows_of_other_conditions_and_earlier_rows_of_the_same_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "overhead.json"
    OverheadFile(path, CONDITIONS).store_row(MXNET, {"ratio": 1}, {"version": "1"})
    OverheadFile(path, CONDITIONS | {"commit": "def"}).store_row(MXNET, {"ratio": 2}, {"version": "1"})
    OverheadFile(path, CONDITIONS).store_row(MXNET, {"ratio": 3}, {"version": "1"})
    OverheadFile(path, CONDITIONS).store_failure(MXNET, "killed")
    other, same = measurements(path)
    assert (other["conditions"]["commit"], same["conditions"]["commit"]) == ("def", "abc")
    assert [row["ratio"] for row in same["rows"]] == [1, 3] and [row["ratio"] for row in other["rows"]] == [2]
    assert [failed["reason"] for failed in same["failed"]] == ["killed"]
    times = [entry["measured_at"] for entry in (*same["rows"], *same["failed"])]
    assert times == sorted(times)


def test_rows_of_another_version_of_a_framework_are_another_measurement(tmp_path: Path) -> None:
    path = tmp_path / "overhead.json"
    for version in ("1", "2", "2"):
        OverheadFile(path, CONDITIONS).store_row(MXNET, {}, {"version": version})
    assert [each["conditions"]["frameworks"]["mxnet"]["version"] for each in measurements(path)] == ["1", "2"]
    assert [len(each["rows"]) for each in measurements(path)] == [1, 2]


@pytest.mark.parametrize(
    "text", ['{"schema_version": 3}', '{"schema_version": 1, "rows": []}', "[]", "{", "[" * 100_000, "\xff"]
)
def test_a_file_that_cannot_be_read_is_kept_under_another_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "overhead.json"
    for number in (1, 2):
        path.write_bytes(text.encode("latin-1"))
        file = OverheadFile(path, CONDITIONS)
        assert file.set_aside == tmp_path / f"overhead.json.unreadable-{number}"
        assert file.set_aside.read_bytes() == text.encode("latin-1")
    file.store_failure(MXNET, "killed")
    assert len(measurements(path)) == 1
