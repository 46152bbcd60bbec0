from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import stored
from stored import on_gpu, run, store

from reports.checking import recheck
from workloads.records.check_name import CheckName
from workloads.records.checks import check_figures, check_samples
from workloads.records.columns import COLUMNS
from workloads.records.figures import Figure
from workloads.records.result import Check, TrialResult
from workloads.records.samples import read_samples

ROOT = Path(__file__).parents[2]
SECOND = 10**9
WINDOW = (10.0, 16.0)
trial = partial(stored.trial, study="own")  # a study that nobody has defined


def found(*paths: Path) -> tuple[int, list[str]]:
    """(exit code, findings) of the command; its notes do not count."""
    return printed(*paths)[:2]


def printed(*paths: Path) -> tuple[int, list[str], list[str], str]:
    """(exit code, findings, notes without logs' figures, last line) of the command."""
    ran = run("check", *paths)
    *lines, last = ran.stdout.splitlines()
    notes = [line.removeprefix("note: ") for line in lines if line.startswith("note: ") and ": figures: " not in line]
    findings = [line for line in lines if not line.startswith("note: ")]
    assert last.endswith(f"{len(findings) or 'nothing'} found")
    assert ran.returncode == int(bool(findings))
    return ran.returncode, findings, notes, last


# Stored results


def run_trial(
    results: Path, result: TrialResult, start_s: float = 9.0, fault: str = "", polled: float | None = None
) -> Path:
    """Write a trial as the runner leaves it: result with its checks, events, samples that give its figures. Returns its
    folder.

    The GPU's usage is `polled` in the steady window, and 0 up to its start. `fault`: a "gap" in the samples, two that
    are swapped ("back"), or a processor time of "zero".
    """
    value = {name: figure.value or 0.0 for name, figure in result.figures.items()}
    more = {"cpu_busy_percent": value["cpu_percent"], "foreign_cpu_percent": 3.0, "open_s": 0.5, "load_s": 1.0,
            "build_s": 0.25}  # fmt: skip
    value |= more
    # A window holds whole steps and whole images.
    length_s = WINDOW[1] - WINDOW[0]
    steps = round(length_s / value["step_time_s"])
    more |= {"images_per_s": steps * result.spec.global_batch / length_s, "step_time_s": length_s / steps}
    value |= more
    told = {name: Figure(number, "worker", 30) for name, number in more.items()}
    result = replace(result, figures=result.figures | told)
    folder = store(results, result) / "trials" / result.spec.id
    times = [start_s + index / 10 for index in range(80) if not (fault == "gap" and 20 <= index < 30)]
    if fault == "back":
        times[30], times[31] = times[31], times[30]
    rate = result.spec.placement.threads / 100
    samples = [
        {
            "t_ns": int(t * SECOND),
            "cpu_s": 0 if fault == "zero" else 1 + rate * value["cpu_percent"] * t,
            "cores_cpu_s": 2 + rate * (value["cpu_percent"] + 3) * t,
            "host_memory_bytes": 2**28,
            "gpu_percent": "" if polled is None else polled if t > WINDOW[0] else 0,
        }
        for t in times
    ]
    lines = [",".join(COLUMNS), *(",".join(str(row.get(name, "")) for name in COLUMNS) for row in samples)]
    (folder / "samples.csv").write_text("\n".join(lines) + "\n")
    events = "".join(json.dumps(event) + "\n" for event in events_of(value, result.spec.passes.epochs))
    (folder / "events.jsonl").write_text(events)
    made = check_figures(result.spec, None, result.figures, result.epochs)
    made += check_samples((WINDOW[0] * SECOND, WINDOW[1] * SECOND), read_samples(folder / "samples.csv"))
    return rewrite(folder, lambda data: data.update(checks=[vars(one) for one in made]))


def events_of(value: dict[str, float], epochs: int) -> list[dict[str, Any]]:
    """Make the events of a worker from which these figures follow."""
    spans = [value[f"{name}_s"] for name in ("import", "open", "load", "build", "first_step", "warm_up")]
    names = ("started", "imported", "opened", "loaded", "built", "first_step", "warmed_up")
    events: list[dict[str, Any]] = [
        {"event": name, "t_ns": int(sum(spans[:place]) * SECOND)} for place, name in enumerate(names)
    ]
    for epoch in range(epochs):
        last = epoch == epochs - 1
        accuracy = value["test_accuracy"] if last else 0.1
        events.append(
            {"event": "epoch_evaluated", "t_ns": 8 * SECOND + epoch, "test_loss": 1.0, "test_accuracy": accuracy}
        )
    length_s = WINDOW[1] - WINDOW[0]
    counted = {"images": round(value["images_per_s"] * length_s), "steps": round(length_s / value["step_time_s"])}
    started, ended = (int(t * SECOND) for t in WINDOW)
    resident = int(value["host_memory_bytes"])
    return [
        *events,
        {"event": "window_started", "t_ns": started, "peak_resident_bytes": 2 * resident},
        {
            "event": "window_ended",
            "t_ns": ended,
            "peak_resident_bytes": resident,
            "segments": [[started, ended]],
            **counted,
        },
    ]


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    path = folder / "result.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return folder


def test_results_as_the_runner_leaves_them_have_no_finding(tmp_path: Path) -> None:
    run_trial(tmp_path, trial("pytorch", 32))
    run_trial(tmp_path, trial("mxnet", 32), start_s=9.01)
    assert found(tmp_path) == (0, [])


def tampered(folder: Path, **values: float) -> Path:
    def change(data: dict[str, Any]) -> None:
        for name, value in values.items():
            data["figures"][name]["value"] = value

    return rewrite(folder, change)


@pytest.mark.parametrize(("asked_s", "findings"), [(0.5, []), (5.0, [f"{CheckName.LONG_ENOUGH}: failed: 0.50 s"])])
def test_a_short_window_is_a_finding_where_a_longer_one_was_asked_for(asked_s: float, findings: list[str]) -> None:
    short = [Check(CheckName.LONG_ENOUGH, False, "0.50 s")]
    spec = trial(window_s=asked_s).spec
    assert recheck._differences(spec, short, short, shown=True) == findings
    stored = [Check(CheckName.LONG_ENOUGH, True, "6.00 s")]
    assert len(recheck._differences(spec, stored, short, shown=True)) == 1, "stored otherwise, it is one anyway"


def test_a_batch_that_is_larger_than_the_training_split_was_asked_for() -> None:
    large = [Check(CheckName.IN_SPLIT, False, "epochs are one batch of 1437, the window repeats images")]
    assert recheck._differences(trial().spec, large, large, shown=True) == []
    assert len(recheck._differences(trial().spec, [], large, shown=True)) == 1, "its verdict was left out"
    passed = [replace(large[0], passed=True)]
    assert len(recheck._differences(trial().spec, passed, large, shown=True)) == 1


Change = Callable[[Path], object]


def edited(change: Callable[[dict[str, Any]], object]) -> Change:
    """A change of the trial's result."""
    return lambda folder: rewrite(folder, change)


def timed_out_before_its_window(folder: Path) -> None:
    rewrite(folder, lambda data: data.update(status="timeout", reason="slow", checks=[]))
    unknown = {"value": None, "reason": "no window"}
    rewrite(folder, lambda data: [figure.update(unknown) for figure in data["figures"].values()])
    (folder / "events.jsonl").write_text('{"event": "started", "t_ns": 1}\n')


def waited_for_its_sampler(folder: Path) -> None:
    """The wait is no part of the loading that is recomputed."""
    lines = (folder / "events.jsonl").read_text().splitlines()
    waited = json.dumps({"event": "context_sampled", "t_ns": json.loads(lines[2])["t_ns"] + SECOND // 4})
    (folder / "events.jsonl").write_text("\n".join([*lines[:3], waited, *lines[3:]]) + "\n")


def without_two_figures(folder: Path) -> None:
    rewrite(folder, lambda data: data["figures"]["test_accuracy"].update(value=None, reason="not told"))
    rewrite(folder, lambda data: data["figures"].pop("import_s"))


DIED = Check("the worker ended well", False, "exit code -11 after everything was measured")
LONG_GAP = "samples cover the window: failed: longest gap 6.00 s, period 0.1 s (stored: passed)"
# What is changed in the folder of a good trial, and the findings; one that ends with ... begins so.
CHANGES: list[tuple[Change, list[str]]] = [
    (
        partial(tampered, images_per_s=9999.0),
        ["images/s x step time = batch size: failed: ...", "images_per_s: stored: 9999; ..."],
    ),
    (
        partial(tampered, cpu_busy_percent=1.0),
        [
            "busy mean >= mean of all samples: failed: cpu_busy_percent 1.00, cpu_percent 71.00...",
            "cpu_busy_percent: stored: 1; ...",
        ],
    ),
    (
        partial(tampered, window_s=2.0),
        ["window is long enough: failed: 2.00 s, 30 samples...", "window_s: stored: 2; recomputed: 6"],
    ),
    # images/s x step time is still the batch size, and busy mean still above the mean: no check sees these
    (
        partial(tampered, images_per_s=2 * 32 / 0.00968, step_time_s=0.00968 / 2),
        [
            "images_per_s: stored: 6611.57025; recomputed: 3306.66667",
            "step_time_s: stored: 0.00484; recomputed: 0.00967741935",
        ],
    ),
    (
        partial(tampered, cpu_percent=99.9, cpu_busy_percent=99.95),
        ["cpu_percent: stored: 99.9; recomputed: 71", "cpu_busy_percent: stored: 99.95; recomputed: 71"],
    ),
    (partial(tampered, foreign_cpu_percent=0.5), ["foreign_cpu_percent: stored: 0.5; recomputed: 3"]),
    (partial(tampered, host_memory_bytes=1), [f"host_memory_bytes: stored: 1; recomputed: {508 * 2**20}"]),
    (partial(tampered, test_accuracy=0.5), ["test_accuracy: stored: 0.5; recomputed: 0.71"]),
    (partial(tampered, window_s=7.0), ["window_s: stored: 7; recomputed: 6"]),
    (
        partial(tampered, import_s=0.5, load_s=2.0),
        ["import_s: stored: 0.5; recomputed: 2", "load_s: stored: 2; recomputed: 1"],
    ),
    (
        partial(tampered, images_per_s=19840 / 6 * (1 + 1e-5)),
        ["images_per_s: stored: 3306.69973; recomputed: 3306.66667"],
    ),
    (partial(tampered, images_per_s=19840 / 6 * (1 + 1e-7), cpu_percent=70.5), []),
    (waited_for_its_sampler, ["load_s: stored: 1; recomputed: 0.75"]),
    (
        without_two_figures,
        ["import_s: stored: nothing; recomputed: 2", "test_accuracy: stored: null; recomputed: 0.71"],
    ),
    (
        edited(lambda data: data["figures"].pop("step_time_s")),
        [
            "step_time_s: stored: nothing; recomputed: 0.00967741935",
            "images/s x step time = batch size: stored: passed; cannot be repeated: its figures are missing",
        ],
    ),
    (
        edited(lambda data: data.update(status="failed", reason="the sampler ended", figures={}, checks=[])),
        ["failed: the sampler ended"],
    ),
    (
        edited(lambda data: data["checks"][0].update(passed=False)),
        ["images/s x step time = batch size: stored: failed; passes when repeated: 32.00..."],
    ),
    (edited(lambda data: data["spec"]["draw"].update(seed=9)), ["its spec is that of pytorch-cpu-b00032-r0-..."]),
    (
        edited(lambda data: data["checks"].append(vars(DIED))),
        [f"the worker ended well: failed: {DIED.detail}"],
    ),
    (timed_out_before_its_window, ["timeout: slow"]),
    (lambda folder: (folder / "samples.csv").write_text("t_ns,cpu_s\n1,x\n"), ["its files cannot be read: ..."]),
    (lambda folder: (folder / "events.jsonl").write_text("[1]\n"), ["its files cannot be read: ..."]),
]


def is_told(line: str, told: str) -> bool:
    return line.startswith(told.removesuffix("...")) if told.endswith("...") else line == told


@pytest.mark.parametrize(("change", "told"), CHANGES)
def test_what_was_changed_by_hand_or_does_not_follow_from_events_and_samples_is_named(
    tmp_path: Path, change: Change, told: list[str]
) -> None:
    folder = run_trial(tmp_path, trial())
    change(folder)
    lines = [line.removeprefix(f"{folder}: ") for line in found(tmp_path)[1]]
    assert [each for each in told if not any(is_told(line, each) for line in lines)] == [], lines
    assert len(lines) == len(told), lines


def test_memory_that_the_kernel_did_not_tell_is_held_against_the_samples_of_the_window(tmp_path: Path) -> None:
    folder = run_trial(tmp_path, trial(figures={"host_memory_bytes": Figure(2.0**28, "polled")}))
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    events[-1]["peak_resident_bytes"] = None
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    samples = (folder / "samples.csv").read_text().replace(str(2**28), str(2**29), 3)  # before the window
    (folder / "samples.csv").write_text(samples)
    assert found(tmp_path) == (0, [])
    tampered(folder, host_memory_bytes=2**29)
    assert found(tmp_path) == (1, [f"{folder}: host_memory_bytes: stored: {2**29}; recomputed: {2**28}"])


def test_samples_that_end_before_the_window_are_a_mean_over_what_they_span(tmp_path: Path) -> None:
    """The last quarter of a second is not taken for idle time."""
    folder = run_trial(tmp_path, trial())
    lines = (folder / "samples.csv").read_text().splitlines()
    (folder / "samples.csv").write_text("\n".join(lines[:69]) + "\n")  # the last at 15.7 s
    assert found(tmp_path) == (0, [])
    tampered(folder, cpu_percent=71 * 5.7 / 6)
    assert found(tmp_path) == (1, [f"{folder}: cpu_percent: stored: 67.45; recomputed: 71"])


@pytest.mark.parametrize(("polled", "caught"), [(51.0, False), (47.0, False), (55.5, False), (45.0, True)])
def test_the_usage_of_a_gpu_may_differ_from_what_was_polled_by_a_few_percent_and_no_more(
    tmp_path: Path, polled: float, caught: bool
) -> None:
    made = on_gpu(trial())
    unsampled = ("power_w", "energy_per_image_j")  # these samples hold no power: such a figure is a finding of its own
    shown = {name: figure for name, figure in made.figures.items() if name not in unsampled}
    folder = run_trial(tmp_path, replace(made, figures=shown), polled=polled)
    told = [f"{folder}: gpu_percent: stored: 51; recomputed: 45"] if caught else []
    assert found(tmp_path) == (int(caught), told)


def test_power_and_energy_that_no_sample_shows_are_a_finding(tmp_path: Path) -> None:
    folder = run_trial(tmp_path, on_gpu(trial()), polled=51.0)
    why = "events.jsonl and samples.csv do not show it"
    assert found(tmp_path) == (1, [f"{folder}: power_w, energy_per_image_j: cannot be recomputed: {why}"])


def test_a_verdict_changed_by_hand_is_caught(tmp_path: Path) -> None:
    folder = run_trial(tmp_path, trial(), fault="gap")
    told = "samples cover the window: failed: longest gap 1.10 s, period 0.1 s"
    assert found(tmp_path) == (1, [f"{folder}: {told}"])
    rewrite(folder, lambda data: [one.update(passed=True) for one in data["checks"]])
    assert found(tmp_path) == (1, [f"{folder}: {told} (stored: passed)"])
    rewrite(folder, lambda data: data.update(checks=[]))
    assert found(tmp_path) == (1, [f"{folder}: {told} (stored: not stored)"])


@pytest.mark.parametrize(
    ("fault", "told"), [("back", "samples' times increase: failed: "), ("zero", "not all zero: failed: cpu_s: all ")]
)
def test_samples_that_cannot_be_right_are_named(tmp_path: Path, fault: str, told: str) -> None:
    folder = run_trial(tmp_path, trial(), fault=fault)
    assert any(line.startswith(f"{folder}: {told}") for line in found(tmp_path)[1])


def test_samples_of_one_trial_under_another_and_files_that_are_gone_are_named(tmp_path: Path) -> None:
    as_busy = {"cpu_percent": trial("pytorch").figures["cpu_percent"]}
    first, second = run_trial(tmp_path, trial("pytorch")), run_trial(tmp_path, trial("mxnet", figures=as_busy))
    told = f"{tmp_path}: samples.csv is the same in {second.name}, {first.name}: one of them was not measured"
    assert found(tmp_path) == (1, [told])
    (first / "samples.csv").unlink()
    (second / "events.jsonl").unlink()
    lines = found(tmp_path)[1]
    assert f"{first}: {LONG_GAP}" in lines
    assert f"{second}: the result has a steady window of 6.00 s, events.jsonl has none" in lines


def test_an_unreadable_result_is_a_finding(tmp_path: Path) -> None:
    run_trial(tmp_path, trial("pytorch"))
    folder = run_trial(tmp_path, trial("mxnet"), start_s=9.01)
    (folder / "result.json").write_text('{"spec')
    (line,) = found(tmp_path)[1]
    assert line.startswith(f"{folder / 'result.json'}: cannot be read: not whole JSON")


def forbid(monkeypatch: pytest.MonkeyPatch, method: str, is_shut: Callable[[Path], bool]) -> None:
    """Let the system refuse to open or to look at these paths, as another user's; it would refuse root nothing."""
    real = getattr(Path, method)

    def refuse(path: Path, *arguments: Any, **more: Any) -> Any:
        if is_shut(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, *arguments, **more)

    monkeypatch.setattr(Path, method, refuse)


def test_a_trial_s_folder_that_may_not_be_opened_is_a_finding_and_hides_no_other_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_trial(tmp_path, trial("pytorch"))
    shut = run_trial(tmp_path, trial("mxnet"), start_s=9.01)
    for method in ("open", "stat"):
        forbid(monkeypatch, method, lambda path: path.parent == shut)
    code, findings, _, last = printed(tmp_path)
    assert (code, findings) == (1, [f"{shut / 'result.json'}: cannot be read: Permission denied"])
    assert last == f"{tmp_path}: 1 trial: 1 ok; 1 unreadable: 1 found"


def test_samples_that_may_not_be_opened_are_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run_trial(tmp_path, trial())
    forbid(monkeypatch, "open", lambda path: path == folder / "samples.csv")
    told = "its files cannot be read: samples.csv: cannot be read: Permission denied"
    assert found(tmp_path) == (1, [f"{folder}: {told}"])


# Logs of other programs


def nvidia_smi(usage: Sequence[float], period_s: float = 1.0, form: str = "{} %") -> str:
    """A log as nvidia-smi --query-gpu=timestamp,index,... --format=csv writes it."""
    lines = ["timestamp, index, utilization.gpu [%], utilization.memory [%], memory.used [MiB], power.draw [W]"]
    for row, value in enumerate(usage):
        minutes, seconds = divmod(row * period_s, 60)
        stamp = f"2020/05/01 12:{minutes:02.0f}:{seconds:06.3f}"
        lines.append(f"{stamp}, 0, {form.format(value)}, 0 %, {500 + row} MiB, 30.12 W")
    return "\n".join(lines) + "\n"


def plain(header: str, times: Sequence[float], usage: Sequence[object]) -> str:
    return header + "\n" + "".join(f"{t},{value}\n" for t, value in zip(times, usage, strict=True))


def log(folder: Path, text: str, name: str = "log.csv") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


GOOD = [30 + row % 7 for row in range(60)]


@pytest.mark.parametrize(
    "text",
    [
        nvidia_smi(GOOD),
        nvidia_smi(GOOD, form="{}"),
        nvidia_smi(GOOD).replace("30.12 W", "[N/A]"),
        plain("time,gpu", [row / 10 for row in range(60)], GOOD),
        plain("t_s,util", [row / 10 for row in range(60)], GOOD),
        plain("t_ms,usage", [row * 100 for row in range(60)], GOOD),
        plain("t_ns,gpu_percent", [row * 10**8 for row in range(60)], GOOD),
        plain("timestamp,gpu util (%)", [1588334400 + row for row in range(60)], GOOD),
        plain("timestamp,gpu", [1588334400000 + row * 100 for row in range(60)], GOOD),
        plain("Time [s],GPU Usage [%]", [row / 10 for row in range(60)], GOOD),
        plain("t,usage", [row / 10 for row in range(60)], GOOD).replace(",", ";"),
        "timestamp,gpu\n" + "".join(f"2020-05-01T12:00:{row:02d}+02:00,{value}\n" for row, value in enumerate(GOOD)),
    ],
)
def test_a_good_log_of_any_kind_has_no_finding(tmp_path: Path, text: str) -> None:
    assert found(log(tmp_path, text)) == (0, [])


@pytest.mark.parametrize("ends", [",", ",,", ", "])
def test_a_comma_at_the_end_of_every_row_shifts_no_column(tmp_path: Path, ends: str) -> None:
    """A usage of 0 must not be looked for in the next column, nor memory be read as usage."""
    rows = [f"{row / 10},{usage},{500 + row},60.5" for row, usage in enumerate([0] * 15 + GOOD[:45])]
    logged = log(tmp_path, "\n".join(["t,gpu_util,mem_used,power", *(row + ends for row in rows)]) + "\n")
    code, (line,) = found(logged)
    told = "idle time included: gpu_util is 0 in 25.0 % of 60 samples (15 leading, 0 trailing, 0 between): "
    assert code == 1 and line.startswith(f"{logged}: {told}")


def test_a_comma_at_the_end_of_some_rows_or_of_the_header_is_no_finding(tmp_path: Path) -> None:
    text = plain("time,gpu", [row / 10 for row in range(60)], GOOD)
    some = log(tmp_path, text.replace("34\n", "34,\n"), "some.csv")
    header = log(tmp_path, text.replace("\n", ",\n").replace(",30", ",31"), "header.csv")
    decimal = log(tmp_path, text.replace(",", ";").replace("gpu\n", "gpu;note\n").replace("34\n", "34;a,b\n"), "c.csv")
    assert found(some, header, decimal) == (0, [])


def test_idle_time_in_a_mean_is_told_with_how_far_it_moves_it(tmp_path: Path) -> None:
    usage = [0] * 4 + [80] * 8 + [0] + [80] * 4 + [0] * 3
    path = log(tmp_path, nvidia_smi(usage))
    told = (
        "utilization.gpu [%] is 0 in 40.0 % of 20 samples (4 leading, 3 trailing, 1 between): mean 48.00 over all, "
        "80.00 over busy ones"
    )
    assert found(path) == (1, [f"{path}: idle time included: {told}"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (nvidia_smi([0] * 20), ["utilization.gpu [%]: all 20 values are 0"]),
        (
            plain("time,memory_mib,gpu", [row / 10 for row in range(60)], GOOD).replace(",3", ",0,3"),
            ["memory_mib: all 60 values are 0"],
        ),
        (nvidia_smi(GOOD[:9]), ["too short: 8.00 s, 9 samples; 5 s and 10 samples are required"]),
        (nvidia_smi(GOOD[:20], 0.1), ["too short: 1.90 s, 20 samples; 5 s and 10 samples are required"]),
        (nvidia_smi(GOOD[:1]), ["too short: 0.00 s, 1 samples; 5 s and 10 samples are required"]),
        (
            plain("t,gpu", [0, 1, 2, 2, 4, 3, 6, 7, 8, 9, 10], GOOD[:11]),
            ["times do not increase: 2 of 10 steps, the first before row 4"],
        ),
        (
            plain("t,gpu", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13.5, 14, 20], GOOD[:13]),
            ["gaps: 2 over 3 periods of 1 s, the longest 6 s before row 13"],
        ),
        (plain("t,gpu", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13], GOOD[:12]), []),  # three periods are no gap
        ("gpu,memory\n" + "40,3\n" * 12, ["no column of times: its length, order and gaps are unknown"]),
        (
            nvidia_smi(GOOD).replace(" %", "").replace("[%]", "").replace("30.12 W", "0.00 W"),
            ["power.draw [W]: all 60"],
        ),
        (plain("t,gpu", [row / 10 for row in range(60)], ["[N/A]"] * 60), ["no value is known of gpu"]),
    ],
)
def test_what_a_log_is_not_worth_is_named(tmp_path: Path, text: str, told: list[str]) -> None:
    path = log(tmp_path, text)
    code, lines = found(path)
    assert code == int(bool(told))
    assert len(lines) == len(told)
    assert all(line.startswith(f"{path}: {start}") for line, start in zip(lines, told, strict=True))


def test_a_duplicate_is_named_across_folders_and_whatever_its_spaces_and_name(tmp_path: Path) -> None:
    first = log(tmp_path / "a", nvidia_smi(GOOD), "tensorflow.csv")
    second = log(tmp_path / "b", nvidia_smi(GOOD).replace(", ", ",").replace("\n", "\r\n"), "pytorch.csv")
    other = log(tmp_path / "b", nvidia_smi([value + 1 for value in GOOD]), "mxnet.csv")
    assert found(first, other, second) == (1, [f"{second}: duplicate of {first}"])


def test_a_last_line_cut_short_is_no_finding(tmp_path: Path) -> None:
    assert found(log(tmp_path, nvidia_smi(GOOD) + "2020/05/01 12:01:00.000, 0, 3")) == (0, [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        (",,,\n", "it is empty"),
        ("a,b\n1,2\n", "no column of usage, memory or power; it has a, b"),
        ("time,gpu\n", "it has no rows"),
        ("time,gpu\n1,2\n2,many\n", "gpu, row 2: 'many' is not a number"),
        ("time,gpu\n1,2\nnoon,3\n", "time, row 2: 'noon' is not a time"),
        ("time,gpu\n1,2\n1,2,3,4\n", "row 2 has 4 cells, the header 2"),
        # one cell more in every row: not an index, and not to be dropped in silence
        ("time,gpu\n" + "".join(f"7,{row},30\n" for row in range(60)), "row 1 has 3 cells, the header 2"),
    ],
)
def test_a_log_that_cannot_be_read_is_named_with_its_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = log(tmp_path, text)
    assert found(path) == (1, [f"{path}: cannot be read: {reason}"])


def test_a_folder_of_logs_is_searched_and_other_files_are_named_by_their_endings(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("no log")
    (tmp_path / "run").write_text("no log")
    log(tmp_path / "deep", nvidia_smi(GOOD), "a.CSV")
    short = log(tmp_path / "deep", nvidia_smi(GOOD[:9]), "b.csv")
    code, lines, notes, _ = printed(tmp_path)
    assert (code, len(lines)) == (1, 1)
    assert lines[0].startswith(f"{short}: too short")
    assert notes == ["2 files not read, by file ending: 1 .md, 1 without an ending, run"]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run("check", *arguments)


def test_the_command_ends_with_0_1_or_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    good, bad = log(tmp_path / "a", nvidia_smi(GOOD)), log(tmp_path / "b", nvidia_smi(GOOD[:9]))
    program = [sys.executable, "-m", "reports", "check", str(good), str(bad)]
    assert subprocess.run(program, cwd=ROOT, capture_output=True).returncode == 1
    (tmp_path / "empty").mkdir()
    (tmp_path / "unfinished" / "trials" / "x").mkdir(parents=True)
    assert command(good).returncode == 0
    assert command(good, bad).returncode == 1
    for path, told in (
        (tmp_path / "absent", "no such file or folder"),
        (tmp_path / "empty", "neither trials/ nor blocks/ nor a log"),
        (tmp_path / "unfinished", "no result.json found"),
    ):
        ran = command(bad, path)
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), path
        assert told in ran.stderr and str(path) in ran.stderr


def test_results_and_logs_can_be_checked_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    folder = run_trial(tmp_path / "results", trial())
    tampered(folder, images_per_s=1.0)
    ran = command(tmp_path / "results", log(tmp_path / "logs", nvidia_smi(GOOD[:9])))
    assert ran.returncode == 1
    assert "images/s x step time" in ran.stdout and "too short" in ran.stdout
    assert ran.stdout.endswith("results: 1 trial: 1 ok; 1 log: 1 with samples of a device: 3 found\n")


def test_a_folder_of_results_folders_stands_for_them(tmp_path: Path) -> None:
    """Their samples and logs are not read as those of other programs."""
    run_trial(tmp_path / "monday", trial())
    folder = tampered(run_trial(tmp_path / "tuesday", trial()), test_accuracy=0.5)
    (folder / "log.txt").write_text("Epoch 1/10\n")
    code, findings, notes, last = printed(tmp_path, tmp_path / "monday")
    assert (code, findings, notes) == (1, [f"{folder}: test_accuracy: stored: 0.5; recomputed: 0.71"], [])
    assert last == f"{tmp_path}/monday: 1 trial: 1 ok; {tmp_path}/tuesday: 1 trial: 1 ok: 1 found"
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "SHA256SUMS").write_text(f"{'0' * 64}  results.tar.xz\n")
    (tmp_path / "usage.csv").write_text("gpu_percent\n50\n")
    code, findings, _, last = printed(tmp_path, tmp_path / "monday")
    assert code == 1 and any("results.tar.xz" in line for line in findings), "a publication that lost its archive"
    assert "1 log" in last


def test_a_folder_named_check_still_makes_a_report(tmp_path: Path) -> None:
    results = store(tmp_path / "check", trial())
    ran = subprocess.run(
        [sys.executable, "-m", "reports", str(results), "--format", "md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert ran.returncode == 0
    assert (results / "report" / "report.md").is_file()
