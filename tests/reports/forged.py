"""Edits of a forger, for tests: each changes the files of a results folder, of its first trial of PyTorch or of all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from submitted import edit, edit_events, keep_rows, list_trials, make_again, read_rows, write_rows

from workloads.records.blocks import BLOCKS_FILE, Block, Phase
from workloads.records.check_name import CheckName
from workloads.records.files import write_json
from workloads.records.job import Job
from workloads.records.stored import read_result

Edit = Callable[[Path], object]
MXNET, PYTORCH, PYTORCH_64 = "mxnet-cpu-b00032", "pytorch-cpu-b00032", "pytorch-cpu-b00064"


def one(results: Path, name: str = PYTORCH) -> Path:
    return min((results / "trials").glob(f"{name}*"))


def figures(**changes: Callable[[float], float]) -> Edit:
    """Edit figures in result.json alone."""

    def change(data: dict[str, Any]) -> None:
        for name, to in changes.items():
            assert data["figures"][name]["value"] is not None, name
            data["figures"][name]["value"] = to(data["figures"][name]["value"])

    return lambda results: edit(first_trial(results) / "result.json", change)


def first_trial(results: Path) -> Path:
    return min(results.glob("trials/pytorch-cpu-b00032*"), default=None) or min(results.glob("trials/*"))


def result(change: Callable[[dict[str, Any]], object]) -> Edit:
    return lambda results: edit(first_trial(results) / "result.json", change)


def events(change: Callable[[dict[str, Any]], object]) -> Edit:
    """Edit the worker's events, and make the result of them again."""

    def apply(results: Path) -> None:
        edit_events(first_trial(results), change)
        make_again(first_trial(results))

    return apply


def attempt(change: Callable[[dict[str, Any]], object], every: bool = False) -> Edit:
    """Edit what the runner stored, of one trial or of every one, and make the results again."""

    def apply(results: Path) -> None:
        for trial in list_trials(results) if every else [first_trial(results)]:
            edit(trial / "attempt.json", change)
            make_again(trial)

    return apply


def columns(again: bool = True, **changes: Callable[[float], float]) -> Edit:
    """Edit columns of the samples, and make the result again."""

    def apply(results: Path) -> None:
        rows = read_rows(first_trial(results))
        for name, to in changes.items():
            rows[name] = [None if value is None else float(to(value)) for value in rows[name]]
        write_rows(first_trial(results), rows)
        if again:
            make_again(first_trial(results))

    return apply


def several(*edits: Edit) -> Edit:
    return lambda results: [each(results) for each in edits]


def meter(change: Callable[[dict[str, Any]], object]) -> Edit:
    return lambda results: edit(first_trial(results) / "meter.json", change)


def times(by: float) -> Callable[[float], float]:
    return lambda value: value * by


def window(**changes: float) -> Edit:
    def change(event: dict[str, Any]) -> None:
        if event["event"] == "window_ended":
            event.update({name: round(event[name] * by) for name, by in changes.items()})

    return events(change)


def losses(event: dict[str, Any], first: int, by: float) -> None:
    if "first_losses" in event:
        event["first_losses"] = [
            loss * by if place >= first else loss for place, loss in enumerate(event["first_losses"])
        ]


def accuracy(event: dict[str, Any], images: float) -> None:
    if event["event"] == "epoch_evaluated":
        event["test_accuracy"] = min(1.0, event["test_accuracy"] + images / 360)


def faster_clock(by: float, **left_out: bool) -> Edit:
    """Divide all times of a trial since its start, except those that are left out."""

    def apply(results: Path) -> None:
        trial = first_trial(results)
        rows = read_rows(trial)
        first = rows["t_ns"][0] or 0

        def moved(t_ns: float) -> int:
            return int(first + (t_ns - first) / by)

        def of_event(event: dict[str, Any]) -> None:
            event["t_ns"] = moved(event["t_ns"])
            if event["event"] == "window_ended":
                event["segments"] = [[moved(edge) for edge in segment] for segment in event["segments"]]
                event["calls_s"] = [call / by for call in event["calls_s"]]
            if "copied_s" in event:
                event["copied_s"] /= by

        def of_meter(data: dict[str, Any]) -> None:
            clocks = data["clocks"]
            start = clocks[0]["monotonic_ns"]
            span = (clocks[1]["monotonic_ns"] - start) / by
            clocks[1] = {
                "monotonic_ns": int(start + span),
                "epoch_ns": clocks[1]["epoch_ns"] if "epoch" in left_out else int(clocks[0]["epoch_ns"] + span),
            }
            data["sampler"]["wall_s"] /= by

        edit_events(trial, of_event)
        if "samples" not in left_out:
            rows["t_ns"] = [moved(t or 0) for t in rows["t_ns"]]
            write_rows(trial, rows)
            edit(trial / "meter.json", of_meter)
            edit(trial / "attempt.json", lambda data: data["worker"].update(wall_s=data["worker"]["wall_s"] / by))
        make_again(trial)

    return apply


def thinned(kept: Callable[[int], bool], counted: bool = False) -> Edit:
    """Drop rows of the samples. `counted`: the sampler's account follows."""

    def apply(results: Path) -> None:
        count = keep_rows(first_trial(results), kept)
        if counted:
            edit(first_trial(results) / "meter.json", lambda data: data["sampler"].update(samples=count - 1))
        make_again(first_trial(results))

    return apply


def as_framework(name: str) -> Edit:
    """Give a trial of PyTorch to another framework, with all names."""

    def apply(results: Path) -> None:
        trial = first_trial(results)
        edit(trial / "job.json", lambda data: data["trial"]["cell"].update(framework=name))
        edit(trial / "result.json", lambda data: data["spec"]["cell"].update(framework=name))
        trial.rename(trial.with_name(read_result(trial / "result.json").spec.id))

    return apply


def exchanged(results: Path) -> None:
    pair = one(results, MXNET) / "result.json", one(results) / "result.json"
    texts = [path.read_text() for path in pair]
    for path, text in zip(pair, reversed(texts), strict=True):
        path.write_text(text)


def without(*names: str) -> Edit:
    def apply(results: Path) -> None:
        for name in names:
            (first_trial(results) / name).unlink()

    return apply


def dropped(name: str) -> Edit:
    return lambda results: shutil.rmtree(one(results, name))


def as_attempt(results: Path) -> None:
    """Move a trial that no gate judged to the earlier attempts, where the checks of a trial that is shown are fewer."""
    folder = one(results)

    def unjudged(data: dict[str, Any]) -> None:
        data["checks"] = [check for check in data["checks"] if check["name"] != CheckName.GATE]
        data["evidence"] = {}

    edit(folder / "result.json", unjudged)
    shutil.rmtree(results / "probes")
    (results / "attempts").mkdir(exist_ok=True)
    folder.rename(results / "attempts" / f"{folder.name}-1")


def dropped_attempt(results: Path) -> None:
    trial = first_trial(results)
    shutil.copytree(trial, results / "attempts" / f"{trial.name}-2")
    edit(
        results / "attempts" / f"{trial.name}-2" / "result.json",
        lambda data: data.update(started_at="2026-11-26T01:00:00+00:00"),
    )
    edit(
        results / "attempts" / f"{trial.name}-2" / "attempt.json",
        lambda data: data.update(started_at="2026-11-26T01:00:00+00:00"),
    )


def other_samples(results: Path) -> None:
    shutil.copy(one(results, PYTORCH_64) / "samples.csv", first_trial(results))


def evidence(by: float, in_probe: bool) -> Edit:
    """Edit the gate's evidence of the framework: the outputs of a layer."""

    def change(told: dict[str, Any]) -> None:
        for each in (told, *told["again"]):
            for layer in each["outputs"]:
                each["outputs"][layer] = [value * by for value in each["outputs"][layer]]

    def apply(results: Path) -> None:
        for trial in (results / "trials").glob("pytorch-*"):
            edit(trial / "result.json", lambda data: change(data["evidence"]))
        (probe,) = (results / "probes").glob("pytorch-*")
        if in_probe:
            edit_events(probe, lambda event: change(event["evidence"]) if "evidence" in event else None)

    return apply


def not_against_the_referee(data: dict[str, Any]) -> None:
    for check in data["checks"]:
        check["against"] = []


def plant_probes(results: Path, framework: str, name: str, by: float) -> None:
    """Plant a framework's answers to a question with another file of this name: its own, multiplied."""
    for probe in sorted((results / "probes").glob(f"{framework}-*")):
        planted = shutil.copytree(probe, probe.with_name("planted"))
        edit(planted / "job.json", lambda data: data["trial"]["inputs"][name].update(sha256="0" * 64))
        edit_events(
            planted, lambda event: event.update({k: multiply(event[k], by) for k in ["evidence"] if k in event})
        )
        job = Job.from_json(json.loads((planted / "job.json").read_text()))
        planted.rename(probe.with_name(job.trial.probe_id))


def multiply(value: Any, by: float) -> Any:
    """Return the same evidence with every number multiplied."""
    if isinstance(value, dict):
        return {key: multiply(item, by) for key, item in value.items()}
    return [multiply(item, by) for item in value] if isinstance(value, list) else value * by


def with_disturbed_referee(results: Path) -> None:
    """Plant the answers that the gate asks the referee for if a trial differs: those from disturbed weights."""
    plant_probes(results, "numpy", "weights", 1)


def without_referee(results: Path) -> None:
    for probe in (results / "probes").glob("numpy-*"):
        shutil.rmtree(probe)


def without_verdict(name: CheckName, change: Callable[[dict[str, Any]], object]) -> Edit:
    """Edit the answers at a trial's end, and drop the verdict on them."""

    def of_result(data: dict[str, Any]) -> None:
        assert name in {check["name"] for check in data["checks"]}
        data["checks"] = [check for check in data["checks"] if check["name"] != name]

    def apply(results: Path) -> None:
        for file in ("result.json", "attempt.json"):
            edit(first_trial(results) / file, lambda data: change(data["end"]))
        edit(first_trial(results) / "result.json", of_result)

    return apply


def account(by: float, everywhere: bool) -> Edit:
    """Edit what the memory worker reported of one batch size."""

    def change(told: dict[str, Any]) -> None:
        if told.get("batch_size") == 32:
            told["parts"]["workspace"] = round(told["parts"]["workspace"] * by)
            told["peak"] = round(told["peak"] * by)

    def apply(results: Path) -> None:
        edit(first_trial(results) / "attempt.json", lambda data: change(data["memory"]))
        (memory,) = (results / "memory").glob("pytorch-*")
        if everywhere:
            edit_events(memory, change)
        make_again(first_trial(results))

    return apply


def list_with(text: str) -> Edit:
    return lambda results: (results / "SHA256SUMS").write_text(text)


def machine(**facts: Any) -> Edit:
    """Change facts of the machine in all trials."""
    return attempt(lambda data: data["machine"].update(facts), every=True)


def with_built_moved(results: Path) -> None:
    def change(event: dict[str, Any]) -> None:
        event["t_ns"] -= 10**9 * (event["event"] == "built")

    edit_events(first_trial(results), change)


def halve_resident(event: dict[str, Any]) -> None:
    if "peak_resident_bytes" in event:
        event["peak_resident_bytes"] //= 2


def with_more_calls(event: dict[str, Any]) -> None:
    """Claim two calls more in the same window."""
    if event["event"] == "window_ended":
        calls, by = event["calls_s"], 1 + 2 / len(event["calls_s"])
        event["calls_s"] = [call / by for call in [*calls, *calls[:2]]]
        event.update(steps=round(event["steps"] * by), images=round(event["images"] * by))


def divide_processes(data: dict[str, Any]) -> None:
    for process in data["processes"]:
        process["cpu_s"] /= 1.3


def without_neighbours(results: Path) -> None:
    rows = read_rows(first_trial(results))
    write_rows(first_trial(results), rows | {"cores_cpu_s": rows["cpu_s"]})
    make_again(first_trial(results))


def with_product(data: dict[str, Any]) -> None:
    data["memory"]["product"]["flop_per_s"] *= 10


def with_honest_copy(results: Path) -> None:
    """Copy the trial to blocks/, as a process with a round of each phase."""
    folder = shutil.copytree(first_trial(results), results / "blocks" / first_trial(results).name)
    write_json(folder / BLOCKS_FILE, {"blocks": [asdict(Block(phase, 0, 32, 20, 0.1, 1.0)) for phase in Phase]})


def with_energy(data: dict[str, Any]) -> None:
    """Invent 20 J of a processor without a counter."""
    figures = data["figures"]
    images = figures["images_per_s"]["value"] * figures["window_s"]["value"]
    for name, joules in (("cpu_energy_j", 20.0), ("cpu_energy_per_image_j", 20.0 / images)):
        figures[name].update(value=joules, reason=None)


def halve_power(data: dict[str, Any]) -> None:
    """Halve a GPU's energy and power, as if no counter had been read."""
    methods = {"energy_j": "integrated", "energy_per_image_j": "integrated", "power_w": "polled"}
    for name, method in methods.items():
        figure = data["figures"][name]
        figure.update(value=figure["value"] / 2, method=method)
    data["checks"] = [check for check in data["checks"] if check["name"] != CheckName.ENERGY]


def without_others(*names: str, left_out: bool = False) -> Edit:
    """Call a contended trial ok, its shares or numbers of others null, or `left_out`."""

    def change(data: dict[str, Any]) -> None:
        data.update(status="ok", reason=None)
        data["checks"] = [check for check in data["checks"] if check["name"] != CheckName.ALONE]
        for name in names:
            data["figures"][name].update(value=None, reason="not counted")
            if left_out:
                del data["figures"][name]

    return result(change)


def slowed(**left_out: bool) -> Edit:
    """Divide all times by 1.3, and the processor time with them."""
    less = columns(cpu_s=times(1 / 1.3), cores_cpu_s=times(1 / 1.3))
    return several(faster_clock(1.3, **left_out), less, meter(divide_processes))
