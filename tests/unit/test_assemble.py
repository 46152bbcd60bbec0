"""Figures cut from made-up samples and events, where the correct answer is known."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import make_spec

from runner.ask import Ended, find_ending
from runner.launch import WorkerOutcome
from runner.results.assemble import assemble
from workloads.records.check_name import CheckName
from workloads.records.columns import COLUMNS
from workloads.records.disturbance import is_withheld
from workloads.records.events import Event
from workloads.records.figures import (
    ACCURACY,
    CALL_TIMES,
    CPU_USAGE,
    DEVICE_MEMORY,
    EPOCH_TIME,
    EVALUATION_SPEED,
    IMPORT,
    MEMORY_PARTS,
    PROCESS_GPU_MEMORY,
    SPEED,
)
from workloads.records.files import EVENTS_FILE, LOG_FILE
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored_events import read_events

Timed = list[tuple[Event, float, dict[str, Any]]]  # event, s, its data

SECOND = 10**9
OK = WorkerOutcome(0, False, 12.0)
LARGE = {"parameters": 2**20, "optimizer": 2**20, "activations": 2**32}  # no fewer than the network has
TOLD = {"parts": dict.fromkeys(MEMORY_PARTS, 8) | LARGE, "step_peak": 64, "peak": 70, "steps": 6}


def write_trial(folder: Path, events: Timed, samples: list[dict[str, float]]) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / "events.jsonl").open("w") as file:
        for event, t_s, data in events:
            file.write(json.dumps({"event": event, "t_ns": int(t_s * SECOND), **data}) + "\n")
    with (folder / "samples.csv").open("w") as file:
        file.write(",".join(COLUMNS) + "\n")
        for sample in samples:
            file.write(",".join(str(sample.get(column, "")) for column in COLUMNS) + "\n")
    (folder / "log.txt").write_text("first line\nlast line\n")


def trained(steps: int = 125, images: int = 4000) -> Timed:
    """Events: built at 2 s, trained to 6 s, evaluated to 6.5 s; window from 7 s to 12 s."""
    epoch = {"epoch": 0, "steps": 45, "images": 1437, "train_loss": 1.0, "first_losses": [2.3]}
    return [
        (Event.STARTED, 0, {}),
        (Event.IMPORTED, 1, {}),
        (Event.OPENED, 1.5, {"facts": {"framework_version": "1"}}),
        (Event.BUILT, 2, {}),
        (Event.EPOCH_TRAINED, 6, epoch),
        (Event.EPOCH_EVALUATED, 6.5, {"epoch": 0, "test_loss": 0.5, "test_accuracy": 0.9}),
        (Event.WINDOW_STARTED, 7, {}),
        (Event.WINDOW_ENDED, 12, {"steps": steps, "images": images, "segments": [[7 * SECOND, 12 * SECOND]]}),
        (Event.FINISHED, 12.1, {}),
        (Event.HOST_COUNTED, 12.2, {"proportional_bytes": 300}),
        (Event.ALLOCATOR_COUNTED, 12.3, {"counts": {"parameters": 2**20, "gradients": "inside the step"}}),
    ]


def busy_window(extra: dict[str, float] | None = None) -> list[dict[str, float]]:
    """Samples at 10 Hz for 13 s. Idle outside the window; inside, the trial uses 1.5 cores and the machine 1.7. 300
    MiB, but 900 MiB for a moment before it."""
    samples = []
    for i in range(130):
        t = i / 10
        inside = min(max(t - 7, 0), 5)
        memory = 900 if i == 30 else 300
        samples.append(
            {
                "t_ns": int(t * SECOND),
                "cpu_s": 1.5 * inside,
                "cores_cpu_s": 50 + 1.7 * inside,
                "host_memory_bytes": memory * 2**20,
            }
            | (extra or {})
        )
    return samples


def result_of(folder: Path, events: Timed, samples: list[dict[str, float]], **given: Any) -> TrialResult:
    write_trial(folder, events, samples)
    return assembled(folder, **given)


def assembled(
    folder: Path,
    spec: TrialSpec | None = None,
    outcome: WorkerOutcome = OK,
    killed_for_memory: bool = False,
    told: dict[str, Any] = TOLD,
) -> TrialResult:
    spec = spec or make_spec(epochs=1)
    events = read_events(folder / EVENTS_FILE)
    worker = Ended(events, outcome, *find_ending(events, outcome, folder / LOG_FILE, killed_for_memory))
    return assemble(folder, spec, worker, {}, "2026-01-01T00:00:00+00:00", told)


def test_idle_time_stays_out_of_the_means(tmp_path: Path) -> None:
    result = result_of(tmp_path, trained(), busy_window())
    value = {name: figure.value for name, figure in result.figures.items()}
    assert result.status == Status.OK and result.reason is None
    assert value["window_s"] == 5
    assert value["images_per_s"] == 800
    assert value["step_time_s"] == pytest.approx(0.04)
    assert value["cpu_percent"] == pytest.approx(75)
    assert value["foreign_cpu_percent"] == pytest.approx(10)
    assert value["host_memory_bytes"] == 300 * 2**20
    assert value["host_memory_peak_bytes"] == 900 * 2**20
    assert value["test_accuracy"] == 0.9
    assert value["parameters_bytes"] == 2**20 and value["allocator_peak_bytes"] == 70

    assert all(check.passed for check in result.checks)


def test_times_of_the_phases_and_epochs_are_those_of_the_events(tmp_path: Path) -> None:
    result = result_of(tmp_path, trained(), busy_window())
    assert result.phases_s == pytest.approx(
        {
            "imported": 1,
            "opened": 0.5,
            "built": 0.5,
            "window_started": 0.5,
            "window_ended": 5,
            "finished": 0.1,
            "host_counted": 0.1,
            "allocator_counted": 0.1,
        }
    )
    (epoch,) = result.epochs
    assert (epoch.train_s, epoch.evaluate_s) == (4, 0.5)


@pytest.mark.parametrize(("steps", "images"), [(1, 4000), (125, 32), (129, 4000)])
def test_throughput_off_by_the_number_of_steps_fails_the_check(steps: int, images: int, tmp_path: Path) -> None:
    result = result_of(tmp_path, trained(steps, images), busy_window())
    assert result.status == Status.UNVERIFIED and "batch size 32" in (result.reason or "")
    assert [check.name for check in result.checks if not check.passed] == ["images/s x step time = batch size"]


def test_a_gap_or_an_unknown_figure_or_part_of_the_memory_is_null_with_a_reason(tmp_path: Path) -> None:
    samples = [sample for i, sample in enumerate(busy_window()) if not 80 <= i < 85]
    result = result_of(tmp_path, trained(), samples)
    assert [check.name for check in result.checks if not check.passed] == ["samples cover the window"]
    result = result_of(
        tmp_path / "2", trained(), [{"t_ns": int(i * SECOND / 10), "cores_cpu_s": 1} for i in range(130)]
    )
    for name in ("cpu_percent", "host_memory_bytes", "gpu_percent"):
        assert result.figures[name].value is None and result.figures[name].reason
    result = result_of(tmp_path / "3", trained(), busy_window(), told={"reason": "the memory worker: out_of_memory"})
    for part in ("statistics", "gradients", "inputs", "activations", "workspace"):
        figure = result.figures[f"{part}_bytes"]
        assert figure.value is None and "out_of_memory" in (figure.reason or "")


def test_the_trials_own_count_of_its_allocator_stands_before_the_memory_workers(tmp_path: Path) -> None:
    counts = {"allocator_peak": 75, "allocator_reserved": 90}
    events = [*trained()[:-1], (Event.ALLOCATOR_COUNTED, 12.3, {"counts": counts})]
    figures = result_of(tmp_path, events, busy_window()).figures
    assert figures["steps_peak_bytes"].value == 70
    assert figures["allocator_peak_bytes"].value == 75 and "whole trial" in figures["allocator_peak_bytes"].source
    assert figures["allocator_reserved_bytes"].value == 90
    assert figures["host_memory_pss_bytes"].value == 300


@pytest.mark.parametrize(
    "behind",
    [
        [(Event.ALLOCATOR_COUNTED, 12.3, {"reason": "ValueError: Allocator stats not available"})],
        [(Event.ENDED, 12.3, {"status": "failed", "reason": "ValueError: Allocator stats not available"})],
        [],
    ],
    ids=["it gave a reason", "it ended the worker", "it was killed"],
)
def test_a_trial_that_was_measured_stays_ok_whatever_happens_to_what_is_optional(tmp_path: Path, behind: Timed) -> None:
    events = [*trained()[:-2], *behind]
    result = result_of(
        tmp_path, events, busy_window(), outcome=WorkerOutcome(-signal.SIGSEGV if not behind else 0, False, 13)
    )
    assert (result.status, result.reason) == (Status.OK, None)
    figures = result.figures
    assert figures["images_per_s"].value == 800 and figures["steps_peak_bytes"].value == 70
    for name in ("allocator_reserved_bytes", "host_memory_pss_bytes"):
        assert figures[name].value is None and figures[name].reason, name
    if Event.ALLOCATOR_COUNTED in dict((event, data) for event, _, data in behind):
        assert figures["allocator_reserved_bytes"].reason == "ValueError: Allocator stats not available"


@pytest.mark.parametrize(("others", "status"), [(0.4, Status.OK), (0.6, Status.CONTENDED)])
def test_a_cpu_trial_beside_a_neighbour_with_more_than_a_quarter_of_its_cores_is_contended(
    tmp_path: Path, others: float, status: Status
) -> None:
    """The trial has 1.5 of its 2 cores."""
    samples = busy_window()
    for sample in samples:
        inside_s = min(max(sample["t_ns"] / SECOND - 7, 0), 5)
        sample["cores_cpu_s"] = 50 + (1.5 + others) * inside_s
    result = result_of(tmp_path, trained(), samples)
    assert result.status == status
    if status == Status.CONTENDED:
        assert "other processes took 30 % of the cores" in (result.reason or "")
    assert result.figures["images_per_s"].value == 800, "the figure is kept"


def beside(in_epochs: float, in_window: float) -> list[dict[str, float]]:
    """The samples of a trial that has 1.5 cores in its window, with so many cores taken by others in each span."""
    samples = busy_window()
    for sample in samples:
        t = sample["t_ns"] / SECOND
        others = in_epochs * min(max(t - 2, 0), 4.5) + in_window * min(max(t - 7, 0), 5)
        sample["cores_cpu_s"] = 50 + 1.5 * min(max(t - 7, 0), 5) + others
    return samples


def test_neighbours_of_the_epochs_alone_make_a_trial_contended_and_its_windows_figures_stay(tmp_path: Path) -> None:
    result = result_of(tmp_path, trained(), beside(in_epochs=0.8, in_window=0.1))
    assert result.status == Status.CONTENDED
    assert result.reason == "other processes took 40 % of the cores in the epochs (more than 25 %)"
    assert result.figures["foreign_cpu_epochs_percent"].value == pytest.approx(40)
    assert result.figures["foreign_cpu_percent"].value == pytest.approx(5)
    assert is_withheld(result, EPOCH_TIME) and is_withheld(result, EVALUATION_SPEED) and is_withheld(result, IMPORT)
    assert not is_withheld(result, SPEED) and not is_withheld(result, CPU_USAGE) and not is_withheld(result, ACCURACY)
    in_both = result_of(tmp_path / "both", trained(), beside(in_epochs=0.8, in_window=0.6))
    assert "took 30 % of the cores in the steady window, 40 % in the epochs (" in (in_both.reason or "")
    assert is_withheld(in_both, SPEED) and is_withheld(in_both, CPU_USAGE) and not is_withheld(in_both, ACCURACY)
    calm = result_of(tmp_path / "calm", trained(), beside(in_epochs=0.4, in_window=0.1))
    assert calm.status == Status.OK and not is_withheld(calm, EPOCH_TIME)


def test_epochs_too_short_for_ten_samples_tell_no_share_of_others(tmp_path: Path) -> None:
    short = [(event, 2.8 if event == Event.EPOCH_TRAINED else 2.9 if event == Event.EPOCH_EVALUATED else t, data)
             for event, t, data in trained()]  # fmt: skip
    result = result_of(tmp_path, short, beside(in_epochs=2.0, in_window=0.0))
    figure = result.figures["foreign_cpu_epochs_percent"]
    assert figure.value is None and figure.reason == "fewer than 10 samples in the epochs"
    assert result.status == Status.OK


def test_a_disturbed_trial_that_miscounts_is_unverified_for_its_accuracy_would_be_shown(tmp_path: Path) -> None:
    result = result_of(tmp_path, trained(1, 4000), beside(in_epochs=0.8, in_window=0.8))
    assert result.status == Status.UNVERIFIED and "batch size 32" in (result.reason or "")


def with_window(**data: Any) -> Timed:
    return [(event, t, more | data if event == Event.WINDOW_ENDED else more) for event, t, more in trained()]


def test_a_trial_with_a_loss_that_is_no_number_is_diverged_and_says_at_which_step(tmp_path: Path) -> None:
    result = result_of(tmp_path, with_window(diverged_step=3), busy_window())
    assert (result.status, result.reason) == (Status.DIVERGED, "the loss of step 3 is not a number")
    assert result.figures["diverged_step"].value == 3 and result.figures["images_per_s"].value == 800
    steady = result_of(tmp_path / "steady", with_window(diverged_step=None), busy_window())
    assert steady.status == Status.OK
    assert steady.figures["diverged_step"].value is None and steady.figures["diverged_step"].reason


def test_the_times_of_the_calls_in_the_window_are_told_by_their_quantiles(tmp_path: Path) -> None:
    calls_s = [0.05] * 90 + [0.06] * 9 + [0.1]
    figures = result_of(tmp_path, with_window(calls_s=calls_s), busy_window()).figures
    value = {spec.name: figures[spec.name].value for spec in CALL_TIMES}
    assert value["call_p50_s"] == 0.05 and value["call_p95_s"] == 0.06 and value["call_longest_s"] == 0.1
    assert figures["call_p99_s"].samples == 100
    unknown = result_of(tmp_path / "early", trained()[:4], busy_window()).figures
    assert all(unknown[spec.name].value is None and unknown[spec.name].reason for spec in CALL_TIMES)


@pytest.mark.parametrize(
    ("calls_s", "passed"),
    [
        ([0.1] * 30 + [2.0], False),  # stopped for 2 of 5 s
        ([0.1] * 45 + [0.5], True),  # five times the usual: still caused by a neighbour
        ([0.01] * 480 + [0.2], True),  # twenty times the usual, 4 % of the window
        ([2.5, 2.5], True),  # steps that take long
    ],
)
def test_a_worker_that_stood_still_for_a_part_of_the_window_fails_the_check_of_stalls(
    tmp_path: Path, calls_s: list[float], passed: bool
) -> None:
    result = result_of(tmp_path, with_window(calls_s=calls_s), busy_window())
    (check,) = [check for check in result.checks if check.name == CheckName.NO_STALL]
    assert check.passed == passed, check.detail
    assert result.status == Status.OK


def test_memory_behind_the_end_or_while_a_worker_opens_is_no_peak_and_none_between_samples_is_missed(
    tmp_path: Path,
) -> None:
    samples = [s | {"host_memory_bytes": 5000 * 2**20} if s["t_ns"] > 12.2 * SECOND else s for s in busy_window()]
    assert result_of(tmp_path, trained(), samples).figures["host_memory_peak_bytes"].value == 900 * 2**20
    # `adapters.kernels` makes one: for a moment the tree is twice as large as the worker ever is.
    samples = busy_window()
    samples[14]["host_memory_bytes"] = 1800 * 2**20
    assert result_of(tmp_path / "2", trained(), samples).figures["host_memory_peak_bytes"].value == 900 * 2**20
    killed = [event for event in trained() if event[0] in (Event.STARTED, Event.IMPORTED)]
    never_open = result_of(tmp_path / "2", killed, samples, outcome=WorkerOutcome(-9, False, 12.0))
    assert never_open.figures["host_memory_peak_bytes"].value == 1800 * 2**20
    # The kernel's peak, reset at the window's start, takes precedence over the 10 Hz poll.
    at_window = {
        Event.WINDOW_STARTED: {"peak_resident_bytes": 1200 * 2**20},
        Event.WINDOW_ENDED: {"peak_resident_bytes": 320 * 2**20},
    }
    events = [(event, t, data | at_window.get(event, {})) for event, t, data in trained()]
    figures = result_of(tmp_path / "3", events, busy_window()).figures
    assert figures["host_memory_bytes"].value == 320 * 2**20 and "VmHWM" in figures["host_memory_bytes"].source
    assert figures["host_memory_peak_bytes"].value == 1200 * 2**20


def test_company_on_the_device_is_marked(tmp_path: Path, gpu_spec: TrialSpec) -> None:
    extra: dict[str, float] = {
        "foreign_processes": 1,
        "gpu_percent": 50,
        "device_memory_bytes": 10,
        "process_memory_bytes": 20,
    }
    result = result_of(tmp_path, trained(), busy_window(extra), spec=gpu_spec)
    assert result.status == Status.CONTENDED and "1 other process" in (result.reason or "")
    assert is_withheld(result, DEVICE_MEMORY) and not is_withheld(result, PROCESS_GPU_MEMORY)
    assert "process memory <= device memory" in [check.name for check in result.checks if not check.passed]


@pytest.mark.parametrize(
    ("outcome", "killed_for_memory", "status", "telling"),
    [
        (
            WorkerOutcome(-signal.SIGKILL, False, 5),
            False,
            Status.FAILED,
            "SIGKILL; its last output: last line; last event",
        ),
        (WorkerOutcome(-signal.SIGKILL, False, 5), True, Status.OUT_OF_MEMORY, "oom_kill"),
        (WorkerOutcome(-signal.SIGSEGV, False, 5), False, Status.FAILED, "SIGSEGV"),
        (WorkerOutcome(-signal.SIGKILL, True, 5), False, Status.TIMEOUT, "not finished after 5 s; last event: built"),
        (WorkerOutcome(3, False, 5), False, Status.FAILED, "exit code 3: last line"),
        (WorkerOutcome(0, False, 5), False, Status.FAILED, "exit code 0"),
    ],
)
def test_worker_that_died_is_told_as_what_it_died_of(
    outcome: WorkerOutcome, killed_for_memory: bool, status: Status, telling: str, tmp_path: Path
) -> None:
    result = result_of(tmp_path, trained()[:4], busy_window(), outcome=outcome, killed_for_memory=killed_for_memory)
    assert result.status == status and telling in (result.reason or "")
    assert result.figures["images_per_s"].value is None and result.figures["test_accuracy"].value is None


def test_a_crash_behind_the_last_figure_or_files_cut_short_do_not_lose_the_trial(tmp_path: Path) -> None:
    result = result_of(tmp_path, trained(), busy_window(), outcome=WorkerOutcome(-signal.SIGSEGV, False, 12))
    assert result.status == Status.OK and result.figures["images_per_s"].value == 800
    assert [check.name for check in result.checks if not check.passed] == ["the worker ended well"]
    write_trial(tmp_path / "2", trained()[:4], busy_window())
    for name in ("events.jsonl", "samples.csv"):
        text = (tmp_path / "2" / name).read_text()
        (tmp_path / "2" / name).write_text(text[:-8])
    result = assembled(tmp_path / "2", outcome=WorkerOutcome(-signal.SIGKILL, False, 5))
    assert result.status == Status.FAILED and result.figures["host_memory_peak_bytes"].value == 900 * 2**20
    events = [*trained()[:3], (Event.ENDED, 3, {"status": "unsupported", "reason": "no such thing"})]
    result = result_of(tmp_path / "3", events, busy_window())
    assert (result.status, result.reason) == (Status.UNSUPPORTED, "no such thing")


def test_window_of_a_batch_larger_than_the_split_is_said(tmp_path: Path) -> None:
    events = [(e, t, d | {"steps": 1} if e == Event.EPOCH_TRAINED else d) for e, t, d in trained(2, 8192)]
    result = result_of(tmp_path, events, busy_window(), spec=make_spec(epochs=1, batch_size=4096))
    assert [check.name for check in result.checks if not check.passed] == ["batch size <= training split"]


def test_gpu_memory_is_the_devices_less_its_baseline_and_nothing_taken_after_the_last_figure(
    tmp_path: Path, gpu_spec: TrialSpec
) -> None:
    samples = busy_window({"gpu_percent": 50, "device_memory_bytes": 700})
    samples[0]["device_memory_bytes"] = 500
    figure = result_of(tmp_path, trained(), samples, spec=gpu_spec).figures["process_gpu_memory_bytes"]
    assert figure.value == 200 and "less its baseline" in figure.source
    samples[125]["device_memory_bytes"] = 9000  # at 12.5 s
    for i in (16, 17, 18):  # at 1.6 to 1.8 s, while only the context is there
        samples[i]["device_memory_bytes"] = 560
    events = trained()
    events.insert(3, (Event.CONTEXT_SAMPLED, 1.8, {}))
    figures = result_of(tmp_path / "2", events, samples, spec=gpu_spec).figures
    assert figures["device_memory_bytes"].value == 700 and figures["device_memory_rise_bytes"].value == 200
    assert figures["device_context_bytes"].value == 60
    assert figures["host_context_bytes"].value is None, "of the worker, and not told here"
