"""Other processes on the card: counted, not taken for the worker, and never denied where nobody could know."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
from stand_in import BATCH, MIB, STEPS, WINDOW, ZERO_NS, Moments, Replay, Trace, load, switched

from workloads.records.check_name import CheckName
from workloads.records.columns import RISE_BYTES
from workloads.records.figures import Method
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.samples import read_samples
from workloads.records.status import Status


@pytest.fixture(scope="module", autouse=True)
def loaded(library: Path) -> None:
    load(library)


def alone(result: TrialResult) -> tuple[bool, str]:
    (check,) = [check for check in result.checks if check.name == "alone on the device"]
    return check.passed, check.detail


def test_company_is_seen_and_at_the_right_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    for when in ("before", "during", "after"):
        replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FOREIGN=when)
        replay.run(9)
        result = replay.result(gpu_spec, *WINDOW, **BATCH)
        assert result.status == Status.CONTENDED
        assert result.reason == f"1 other process(es) on the device ({when} the worker's life)"
        assert [check.name for check in result.checks if not check.passed] == ["alone on the device"]


def test_memory_that_ran_out_on_a_card_that_others_used_says_nothing_about_the_batch_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    for foreign, status in (("", Status.OUT_OF_MEMORY), ("before during", Status.FAILED)):
        replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FOREIGN=foreign)
        replay.run(9)
        replay.out_of_memory = "1,024.0 MiB requested"
        result = replay.result(gpu_spec, *WINDOW, **BATCH)
        assert result.status == status
        assert (result.reason or "").endswith("1,024.0 MiB requested")


def test_company_of_a_container_is_told_from_the_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_CONTAINER="1")
    replay.run(9)
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    assert result.status == Status.OK
    figure = result.figures["process_gpu_memory_bytes"]
    assert figure.value == 4000 * MIB and figure.source.startswith("NVML nvmlDeviceGetMemoryInfo_v2: ")
    assert "less its baseline" in figure.source and "none of the ids listed is the worker's" in figure.source
    assert CheckName.PROCESS_IN_DEVICE not in [check.name for check in result.checks]  # it could not fail
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_CONTAINER="1", NVML_FOREIGN="during")
    replay.run(9)
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    assert result.status == Status.CONTENDED and "(during" in (result.reason or "")


def test_a_driver_slow_to_forget_the_worker_makes_no_company(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """The driver lists the worker, by a container's id, for a moment after its end."""
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FOREIGN="after")
    forget = replay.set
    monkeypatch.setattr(
        replay, "set", lambda now_ms: (forget(now_ms), now_ms > 9300 and os.environ.pop("NVML_FOREIGN", None))
    )
    replay.run(9)
    assert replay.result(gpu_spec, *WINDOW, **BATCH).status == Status.OK


@pytest.mark.parametrize(
    ("told", "word"),
    [("unknown", "without its memory"), ("garbage", "bytes of 8589934592"), ("nothing", "with 0 bytes")],
)
def test_memory_that_cannot_be_true_is_unknown_and_says_why(
    told: str, word: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_PROCESS_MEMORY=told)
    meter = replay.run(9)
    samples = read_samples(tmp_path / "samples.csv")
    assert np.isnan(samples["process_memory_bytes"]).all() and np.nanmax(samples["foreign_processes"]) == 0
    assert word in meter["gpu"]["metrics"]["processes"]["missing"]["process_memory_bytes"]
    memory = replay.result(gpu_spec, *WINDOW, **BATCH).figures["process_gpu_memory_bytes"]
    assert (memory.value, memory.method) == (4000 * MIB, Method.DEVICE_RISE) and word in memory.source


def test_a_process_listed_with_0_bytes_at_first_leaves_the_list_its_word(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_PROCESS_MEMORY="nothing")
    replay.run(9, at={2500: [lambda: os.environ.pop("NVML_PROCESS_MEMORY")]})
    samples = read_samples(tmp_path / "samples.csv")
    assert np.isnan(samples["process_memory_bytes"][:25]).all()
    memory = replay.result(gpu_spec, *WINDOW, **BATCH).figures["process_gpu_memory_bytes"]
    assert (memory.value, memory.method) == (4000 * MIB, Method.PROCESS_LIST) and "0 bytes" not in memory.source


@pytest.mark.parametrize(
    ("used", "variables", "passed"),
    [(1024, {}, True), (20_000, {}, False), (20_000, {"NVML_GRAPHICS": "1"}, True)],
)
def test_memory_in_use_before_the_worker_that_no_list_explains_leaves_open_who_was_there(
    used: int,
    variables: dict[str, str],
    passed: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    gpu_spec: TrialSpec,
) -> None:
    """In a container the driver leaves out the processes of others; a desktop's memory may be its own."""
    steps: Trace = [(0, {"used": used}), (950, {"gpu": 90, "used": used + 2000, "process": 1500, "power": 260})]
    replay = Replay(monkeypatch, tmp_path, steps, NVML_MEMORY_MIB="143771", **variables)
    replay.run(9)
    found, detail = alone(replay.result(gpu_spec, *WINDOW, **BATCH))
    assert found is passed
    if not passed:
        assert detail == "unknown before: 20,000 MiB in use that no list explains"


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "when"),
    [(500, None, "during, after"), (2900, 6900, "during"), (8800, None, "after"), (2900, 4900, None)],
)
def test_lists_that_leave_a_time_out_leave_open_who_was_there(
    from_ms: int,
    to_ms: int | None,
    when: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    gpu_spec: TrialSpec,
) -> None:
    """In the last case no more than 3 s are left out."""
    replay = Replay(
        monkeypatch, tmp_path, STEPS, NVML_FAIL_FROM=str(tmp_path / "lost"),
        NVML_FAIL="nvmlDeviceGetComputeRunningProcesses_v3=999",
    )  # fmt: skip
    replay.run(9, at=switched(tmp_path, from_ms, to_ms))
    passed, detail = alone(replay.result(gpu_spec, *WINDOW, **BATCH))
    assert passed is (when is None)
    if when:
        assert detail.startswith(f"unknown {when}: nvmlDeviceGetComputeRunningProcesses_v3: ")


def test_a_sampler_that_ended_early_leaves_open_who_came_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS)
    meter = replay.run(9)
    assert alone(replay.result(gpu_spec, *WINDOW, **BATCH))[0]
    rows = (tmp_path / "samples.csv").read_text().splitlines()
    (tmp_path / "samples.csv").write_text("\n".join(rows[:70]) + "\n")
    (tmp_path / "meter.json").write_text(json.dumps(meter | {"clocks": meter["clocks"][:1], "sampler": None}))
    passed, detail = alone(replay.result(gpu_spec, *WINDOW, **BATCH))
    assert not passed and detail.startswith("unknown after: no list after")
    (tmp_path / "samples.csv").write_text("\n".join(rows[:40]) + "\n")
    passed, detail = alone(replay.result(gpu_spec, *WINDOW, **BATCH))
    assert not passed and detail.startswith("unknown during, after: no list for ")


def test_company_whose_memory_cannot_be_true_is_not_overlooked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_FOREIGN="during", NVML_PROCESS_MEMORY="garbage")
    replay.run(9)
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    assert result.status == Status.CONTENDED and "(during" in (result.reason or "")
    memory = result.figures["process_gpu_memory_bytes"]
    assert memory.value == 4000 * MIB and "bytes of 8589934592" in memory.source


def test_a_desktop_on_the_card_is_said_and_marks_no_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, STEPS, NVML_GRAPHICS="2")
    assert replay.run(9)["gpu"]["graphics_processes"] == 2
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    passed, detail = alone(result)
    assert result.status == Status.OK and passed and detail.endswith("; 2 with graphics, which are not counted")


FROM_MS, TO_MS = 4250, 4550  # between two lists, of 4 s and of 5 s: seen by three rows


def visited(more_mib: int, own_too: bool = False) -> Trace:
    """Memory that comes and goes again, the worker's or not, in a trial that is busy from 1 s to 7 s."""
    process = 1500 + (more_mib if own_too else 0)
    return [
        (0, {}),
        (950, {"gpu": 90, "used": 2000, "process": 1500, "power": 260, "throttle": 0}),
        (FROM_MS, {"used": 2000 + more_mib, "process": process}),
        (TO_MS, {"used": 2000, "process": 1500}),
        (6950, {"gpu": 0, "power": 60}),
    ]


def there_between(from_ms: int, to_ms: int) -> Moments:
    """The `at` of a run in which another process is on the card between these times."""
    return {
        from_ms: [lambda: os.environ.update(NVML_FOREIGN="during")],
        to_ms: [lambda: os.environ.pop("NVML_FOREIGN")],
    }


def test_a_process_that_lives_a_quarter_of_a_second_between_two_lists_is_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, visited(400), NVML_FOREIGN="")
    replay.run(9, at=there_between(4300, 4600))
    samples = read_samples(tmp_path / "samples.csv")
    assert np.sum(samples["foreign_processes"] > 0) == 1, "one list out of turn, when the memory rose"
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    assert result.status == Status.CONTENDED and "(during" in (result.reason or "")


def test_memory_that_comes_and_goes_without_anybody_listed_leaves_open_who_was_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, visited(400))
    replay.run(9)
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    passed, detail = alone(result)
    assert result.status == Status.OK and not passed
    assert detail == "unknown during: 400 MiB came and went that no list shows, in 1 row(s)"


def test_memory_that_comes_and_goes_while_no_list_is_to_be_had_leaves_open_who_was_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """Trials sampled before lists were asked for out of turn are such a case."""
    replay = Replay(
        monkeypatch, tmp_path, visited(400), NVML_FAIL_FROM=str(tmp_path / "lost"),
        NVML_FAIL="nvmlDeviceGetComputeRunningProcesses_v3=999",
    )  # fmt: skip
    replay.run(9, at=switched(tmp_path, 4100, 4900))
    passed, detail = alone(replay.result(gpu_spec, *WINDOW, **BATCH))
    assert not passed and "unknown during: " in detail
    assert "400 MiB came and went that no list shows, in 3 row(s)" in detail


@pytest.mark.parametrize("variables", [{}, {"NVML_CONTAINER": "1"}])
def test_memory_that_the_worker_takes_and_keeps_is_nobody_elses(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """This also holds where no listed id is the worker's."""
    replay = Replay(monkeypatch, tmp_path, STEPS, **variables)
    replay.run(9)
    assert alone(replay.result(gpu_spec, *WINDOW, **BATCH))[0]


def test_memory_that_the_worker_takes_and_gives_back_is_nobody_elses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    replay = Replay(monkeypatch, tmp_path, visited(400, own_too=True))
    replay.run(9)
    result = replay.result(gpu_spec, *WINDOW, **BATCH)
    assert alone(result)[0] and result.status == Status.OK
    assert result.figures["process_gpu_memory_bytes"].value == 1900 * MIB  # the list out of turn saw it


@pytest.mark.parametrize(("more_mib", "passed"), [(64, True), (65, False)])
def test_memory_that_comes_and_goes_counts_from_the_stated_rise_on(
    more_mib: int, passed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    assert RISE_BYTES == 64 * MIB
    replay = Replay(monkeypatch, tmp_path, visited(more_mib))
    replay.run(9)
    assert alone(replay.result(gpu_spec, *WINDOW, **BATCH))[0] is passed


def test_a_list_out_of_turn_puts_no_other_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replay = Replay(monkeypatch, tmp_path, visited(400))
    replay.run(9)
    samples = read_samples(tmp_path / "samples.csv")
    listed_ms = (samples["t_ns"][~np.isnan(samples["foreign_processes"])] - ZERO_NS) / 1e6
    assert listed_ms[1:-1].tolist() == [1000, 2000, 3000, 4000, 4300, 5000, 6000, 7000, 8000, 9000]


def test_a_worker_that_grows_while_a_row_is_read_is_not_taken_for_company(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    """The list is read milliseconds after the device's memory: at 2 s and at 4 s it shows 300 MiB more."""
    replay = Replay(monkeypatch, tmp_path, visited(0))
    replay.run(9)
    path = tmp_path / "samples.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if (int(row["t_ns"]) - ZERO_NS) / 1e6 in (2000, 4000):
            row["process_memory_bytes"] = str(int(row["process_memory_bytes"]) + 300 * MIB)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert alone(replay.result(gpu_spec, *WINDOW, **BATCH))[0]
