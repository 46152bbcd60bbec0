"""Epochs, losses, memory, starts and counts of a stored trial are recomputed: every change is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stored
from test_report_check import rewrite, run_trial

from reports import load
from reports.attempts import AttemptResult, Attempts
from reports.checking import recheck, recompute_attempt
from reports.checking.plausibility import compare_processor_time
from reports.checking.recompute_training import find_too_many_steps
from workloads.records.files import write_json
from workloads.records.job import InputFile
from workloads.records.result import Epoch, TrialResult
from workloads.records.stored import read_result

SECOND = 10**9
PSS, ACTIVATIONS = 700 * 2**20, 9 * 2**20
ORDER = {"order": InputFile("inputs/order.npy", "0a" * 32)}
trial = partial(stored.trial, study="own", epochs=2, inputs=ORDER)
Change = Callable[[dict[str, Any]], object]


def written(results: Path, result: TrialResult | None = None, images: int = 1437) -> Path:
    """Store a trial with two epochs, an account of its memory and the runner's records of it; return its folder."""
    result = trial() if result is None else result
    steps = -(-images // result.spec.global_batch)
    epochs = [Epoch(2.0, steps, images, 0.5, 0.25, 0.4, 0.8), Epoch(1.5, steps, images, 0.3, 0.25, 0.3, 0.9)]
    folder = run_trial(results, result)
    trained, events = [], [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    built = next(event["t_ns"] for event in events if event["event"] == "built")
    others = [event for event in events if not event["event"].startswith("epoch_")]
    place = next(number for number, event in enumerate(others) if event["event"] == "window_started")
    now = built
    for number, epoch in enumerate(epochs):
        now += int(epoch.train_s * SECOND)
        told: dict[str, Any] = {"steps": steps, "images": images, "train_loss": epoch.train_loss}
        trained.append(
            {"event": "epoch_trained", "t_ns": now, **told} | ({} if number else {"first_losses": [2.3, 2.2]})
        )
        now += int(epoch.evaluate_s * SECOND)
        tested = {"epoch": number, "test_loss": epoch.test_loss, "test_accuracy": epoch.test_accuracy}
        trained.append({"event": "epoch_evaluated", "t_ns": now, **tested})
    settled = [event for event in others[:place] if event["event"] not in ("first_step", "warmed_up")]
    told_last = [{"event": "host_counted", "t_ns": 17 * SECOND, "proportional_bytes": PSS}]
    every = [*settled, *trained, *others[place:], *told_last]
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in every))

    def change(data: dict[str, Any]) -> None:
        data["epochs"], data["first_losses"] = [vars(epoch) for epoch in epochs], [2.3, 2.2]
        figures = data["figures"]
        figures["test_accuracy"]["value"] = 0.9
        figures["host_memory_pss_bytes"]["value"] = PSS
        figures["activations_bytes"]["value"] = ACTIVATIONS
        figures["epoch_s"] = figures["test_accuracy"] | {"value": 1.5, "samples": 1}
        for name in ("first_step_s", "warm_up_s"):
            del figures[name]
        facts = {name: data[name] for name in ("started_at", "machine", "end")}
        parts = {name.removesuffix("_bytes"): int(figures[name]["value"]) for name in map("{}_bytes".format, PARTS)}
        account = {"event": "memory_told", "t_ns": 1, "batch_size": 32, "parts": parts, "step_peak": 1, "steps": 4}
        memory = account | {"peak": int(figures["steps_peak_bytes"]["value"])}
        worker = {"exit_code": 0, "timed_out": False, "wall_s": data["wall_s"], "status": "ok", "reason": None}
        write_json(folder / "attempt.json", facts | {"memory": memory, "worker": worker, "schema_version": 1})
        room = results / "memory" / result.spec.memory_id
        room.mkdir(parents=True, exist_ok=True)
        (room / "events.jsonl").write_text(json.dumps(memory) + "\n")

    return rewrite(folder, change)


PARTS = stored.memory_parts(32)


def found(folder: Path) -> list[str]:
    lines = recheck.check_trial(read_result(folder / "result.json"), folder)
    return [line for line in lines if ": failed: " not in line and "repeated" not in line and "not stored" not in line]


def test_files_that_agree_have_no_finding_and_a_window_of_other_images_than_its_steps_has_one(tmp_path: Path) -> None:
    assert found(written(tmp_path)) == []
    folder = written(tmp_path / "2")
    (folder / "events.jsonl").write_text((folder / "events.jsonl").read_text().replace('"steps": 620', '"steps": 621'))
    assert "the window has 19840 images in 621 steps of 32: 19872 are expected" in found(folder)


def cut(steps: int, *segments: tuple[float, float]) -> list[str]:
    """Check a window of these segments, in seconds, and steps: an epoch of 45 steps ends after 2 s, it later."""
    started = {"event": "window_started", "t_ns": 0}
    epoch = {"event": "epoch_trained", "t_ns": 2 * SECOND, "steps": 45}
    edges = [[int(edge * SECOND) for edge in segment] for segment in segments]
    ended = {"event": "window_ended", "t_ns": 9 * SECOND, "steps": steps, "segments": edges}
    return list(find_too_many_steps([started, epoch, ended], ended))


def test_segments_of_epochs_have_no_more_steps_than_these_and_one_after_them_may_have_any() -> None:
    assert cut(44, (0.5, 1.9)) == [] and cut(46, (0.5, 1.9))
    assert cut(44 + 88, (0.5, 1.9), (2.5, 5.3)) == [], "88 steps after the epoch, as fast"
    assert cut(44 + 132, (0.5, 1.9), (2.5, 5.3)) == [], "132 after it: half as fast again"
    (line,) = cut(2 * (44 + 88), (0.5, 1.9), (2.5, 5.3))
    assert line == "the window has 88 steps in 1 segments of epochs: 45 at most"


def test_the_time_of_children_that_ended_is_counted_with_their_parents() -> None:
    samples = {"cpu_s": np.array([1.0, np.nan, 100.0])}
    compiler = [{"pid": 1, "cpu_s": 100.0}, {"pid": 2, "cpu_s": 60.0}, {"pid": 3, "cpu_s": 59.0}]
    assert not list(compare_processor_time(samples, {"processes": compiler}))
    assert not list(compare_processor_time(samples, {"processes": [{"pid": each, "cpu_s": 50.0} for each in (1, 2)]}))
    (less,) = compare_processor_time({"cpu_s": samples["cpu_s"] / 2}, {"processes": compiler})
    assert less == "cpu_s: the samples have 50.0 s of processor time, its processes 100.0 s in meter.json"
    assert list(compare_processor_time({"cpu_s": samples["cpu_s"] * 3}, {"processes": compiler}))


def epoch(name: str, value: object) -> Change:
    return lambda data: data["epochs"][1].update({name: value})


def figure(name: str, value: float) -> Change:
    return lambda data: data["figures"][name].update(value=value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (figure("activations_bytes", 2**20), f"activations_bytes: stored: 1048576; recomputed: {ACTIVATIONS}"),
        (figure("host_memory_pss_bytes", 2**20), f"host_memory_pss_bytes: stored: 1048576; recomputed: {PSS}"),
        (figure("epoch_s", 0.75), "epoch_s: stored: 0.75; recomputed: 1.5"),
        (epoch("train_s", 0.75), "epoch 1: train_s: stored: 0.75; recomputed: 1.5"),
        (epoch("train_loss", 0.01), "epoch 1: train_loss: stored: 0.01; recomputed: 0.3"),
        (epoch("test_loss", None), "epoch 1: test_loss: stored: null; recomputed: 0.3"),
        (lambda data: data["epochs"].pop(), "epochs: stored: 1; recomputed: 2"),
        (
            lambda data: data.update(first_losses=[2.3, 1.0]),
            "first_losses: stored: [2.3, 1.0]; in events.jsonl: [2.3, 2.2]",
        ),
        (
            lambda data: data.update(started_at="2025-11-22T10:00:00+00:00"),
            "started_at: stored: 2025-11-22T10:00:00+00:00; in attempt.json: 2025-11-21T10:00:00+00:00",
        ),
        (lambda data: data.update(wall_s=5.0), "wall_s: stored: 5; in attempt.json: 20"),
        (lambda data: data["machine"].update(cores=64), "machine: cores: not as in attempt.json"),
        (
            lambda data: data.update(end={"outstanding": None}),
            "end: the gate's evidence of the trial's end differs from that in attempt.json",
        ),
    ],
)  # fmt: skip
def test_a_changed_figure_epoch_or_start_is_named_with_both_values(tmp_path: Path, change: Change, told: str) -> None:
    assert told in found(rewrite(written(tmp_path), change))


def test_losses_and_accuracies_are_compared_with_those_that_the_runner_made(tmp_path: Path) -> None:
    folder = written(tmp_path)
    attempt = json.loads((folder / "attempt.json").read_text())
    told = [{"epoch": number, "test_loss": 0.4, "test_accuracy": 0.8} for number in range(2)]
    write_json(folder / "attempt.json", attempt | {"evaluations": told})
    assert found(folder) == [
        "test_accuracy: stored: 0.9; recomputed: 0.8",
        "epoch 1: test_loss: stored: 0.3; recomputed: 0.4",
        "epoch 1: test_accuracy: stored: 0.9; recomputed: 0.8",
    ]


def test_an_accuracy_that_its_test_loss_rules_out_is_found_though_events_and_result_agree(tmp_path: Path) -> None:
    folder = written(tmp_path)
    events = (folder / "events.jsonl").read_text().replace('"test_accuracy": 0.9', '"test_accuracy": 0.5')
    (folder / "events.jsonl").write_text(events)

    def change(data: dict[str, Any]) -> None:
        data["epochs"][1]["test_accuracy"] = data["figures"]["test_accuracy"]["value"] = 0.5

    assert found(rewrite(folder, change)) == [
        "epoch 1: test_accuracy 0.5 cannot come with a test loss of 0.3: that many wrong answers give at least 0.3466"
    ]


def test_an_account_of_the_memory_that_its_worker_did_not_give_is_found(tmp_path: Path) -> None:
    folder = written(tmp_path)
    attempt = json.loads((folder / "attempt.json").read_text())
    attempt["memory"]["parts"]["activations"] = 2**20
    write_json(folder / "attempt.json", attempt)
    (line,) = found(rewrite(folder, figure("activations_bytes", 2**20)))
    assert line.startswith("memory: attempt.json has another account of batch size 32 than memory/pytorch-cpu-")


def test_the_account_that_a_node_of_a_cluster_keeps_is_no_other_than_the_one_in_the_folder(tmp_path: Path) -> None:
    folder = written(tmp_path, trial(machine=stored.MACHINE | {"node": "node-12345678"}))
    (events,) = tmp_path.glob("memory/*/events.jsonl")  # of an earlier run without a cluster
    events.write_text(events.read_text().replace('"t_ns": 1,', '"t_ns": 2,'))
    assert found(folder) == []
    attempt = json.loads((folder / "attempt.json").read_text())
    attempt["memory"]["parts"]["parameters"] += 4  # what is the same on every machine
    write_json(folder / "attempt.json", attempt)
    lines = found(rewrite(folder, figure("parameters_bytes", attempt["memory"]["parts"]["parameters"])))
    assert any(line.startswith("memory: attempt.json has another account") for line in lines)


def test_epochs_of_other_images_than_the_same_order_has_elsewhere_are_found(tmp_path: Path) -> None:
    for place, size in enumerate((16, 32)):
        written(tmp_path, trial(batch_size=size, repeat=place))
    short = written(tmp_path, trial(batch_size=64), images=1400)
    lines = recheck.check_trials(load.read(tmp_path), tmp_path)
    assert f"{short}: epochs of 1400 images: its order has 1437 in the other trials, so 1437 are expected" in lines
    assert not any("images: its order" in line for line in lines if not line.startswith(str(short)))


def test_an_attempt_that_started_before_the_one_that_it_follows_is_found() -> None:
    first, second = trial(), trial(started_at="2025-11-20T10:00:00+00:00")
    tried = Attempts("x", (AttemptResult(Path("attempts/x-1"), first), AttemptResult(Path("trials/x"), second)), 1)
    assert recompute_attempt.check_order([tried]) == [
        "trials/x: started_at: 2025-11-20T10:00:00+00:00, attempt 2, is before 2025-11-21T10:00:00+00:00, attempt 1"
    ]
