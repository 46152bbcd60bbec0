"""The builder of submissions, for tests: real published trials, moved to other machines, or forged.

What is changed in a trial's raw files is followed by its result, which the runner's own code makes of them again.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from reports.publishing import archive, publish
from runner import rebuild
from workloads.records.check_name import MADE_AGAIN
from workloads.records.columns import COLUMNS
from workloads.records.files import without_nan
from workloads.records.stored import read_result
from workloads.records.stored_events import read_events

Data = dict[str, Any]
Rows = dict[str, list[float | None]]
ON_CPU, ON_GPU = "2026-11-26-amd-epyc-quick", "2026-11-27-nvidia-h100"
RUNNING_SUMS = ("cpu_s", "cores_cpu_s")


def unpack_trials(publication: str, into: Path, wanted: Sequence[str]) -> Path:
    """Unpack a publication of ours, keep the wanted trials, and give them to a study that nobody has defined.

    It asked for windows of 3 s, so those of 5 s are longer than they need be.
    """
    results = archive.unpack(publish.INTO / publication / archive.ARCHIVE, into)
    frameworks = {name.partition("-")[0] for name in wanted} | {"numpy"}  # the referee
    for answer in (each for room in ("probes", "memory") for each in results.glob(f"{room}/*")):
        if answer.name.partition("-")[0] not in frameworks:
            shutil.rmtree(answer)
    for trial in (results / "trials").iterdir():
        if not trial.name.startswith(tuple(wanted)) or not (trial / "result.json").exists():
            shutil.rmtree(trial)
            continue
        edit(trial / "job.json", lambda data: data["trial"].update(study="own", window_s=3.0))
        edit(trial / "result.json", lambda data: data["spec"].update(study="own", window_s=3.0))
        trial.rename(trial.with_name(read_result(trial / "result.json").spec.id))
    return results


def edit(path: Path, change: Callable[[Data], object]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def edit_events(trial: Path, change: Callable[[Data], object]) -> None:
    """Change every event of the trial."""
    events = [json.loads(line) for line in (trial / "events.jsonl").read_text().splitlines()]
    for event in events:
        change(event)
    (trial / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def read_rows(trial: Path) -> Rows:
    text = (trial / "samples.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    return {name: [float(row[name]) if row.get(name) else None for row in rows] for name in COLUMNS}


def write_rows(trial: Path, rows: Rows) -> None:
    def cell(name: str, value: float | None) -> str:
        return "" if value is None else str(int(value)) if name == "t_ns" else repr(value)

    lines = (",".join(cell(name, rows[name][place]) for name in COLUMNS) for place in range(len(rows["t_ns"])))
    (trial / "samples.csv").write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")


def keep_rows(trial: Path, kept: Callable[[int], bool]) -> int:
    """Drop the other rows; return how many are left."""
    rows = read_rows(trial)
    places = [place for place in range(len(rows["t_ns"])) if kept(place)]
    write_rows(trial, {name: [values[place] for place in places] for name, values in rows.items()})
    return len(places)


def make_again(trial: Path) -> None:
    """Make the result of the trial's files again, as the runner does; the gate's evidence and verdicts stay."""
    written = rebuild.read_attempt(trial)
    ended = written.with_events(read_events(trial / "events.jsonl"))
    assert ended is not None
    made = rebuild.assemble_trial(trial, rebuild.read_trial(trial, trial.name), written, ended).to_json()
    before = json.loads((trial / "result.json").read_text())
    names = {check["name"] for check in made["checks"]}
    made["checks"] += [check for check in before["checks"] if check["name"] not in {*names, *MADE_AGAIN}]
    (trial / "result.json").write_text(json.dumps(without_nan(made | {"evidence": before["evidence"]})))


def seal(results: Path) -> Path:
    """Write the checksums of all files, as `submit` does."""
    (results / archive.CHECKSUMS).unlink(missing_ok=True)
    (results / archive.CHECKSUMS).write_text(archive.format_checksums(results))
    return results


def list_trials(results: Path) -> list[Path]:
    """List the folders of the trials, the first that ran first."""
    return sorted(
        (results / "trials").iterdir(), key=lambda trial: json.loads((trial / "attempt.json").read_text())["started_at"]
    )


@dataclass(frozen=True)
class Machine:
    """A simulated machine. `slowness`: its times are so many times those that were measured."""

    slowness: float = 1.0
    jitter_s: float = 0.0
    facts: tuple[tuple[str, Any], ...] = ()
    booted_s: float = 1.7e9  # since the epoch
    package_w: float | None = None
    missing: tuple[str, ...] = ()  # counters that its kernel does not give
    delay_s: float = 0.5  # from the stored start to the sampler's


def run_on(machine: Machine, results: Path, seed: int = 0, at_once: bool = False) -> Path:
    """Move all trials of a results folder to a machine, as its runner would have stored them: one after the other, or
    `at_once`, as a cluster runs them on cores of their own."""
    generator, free_ns = np.random.default_rng(seed), 5 * 10**12
    for trial in list_trials(results):
        ended_ns = _move(trial, machine, free_ns, generator)
        free_ns = free_ns if at_once else ended_ns + 10**9
        make_again(trial)
    return seal(results)


def _move(trial: Path, machine: Machine, free_ns: int, generator: np.random.Generator) -> int:
    """Move one trial to begin at `free_ns` of the machine's clock; return its end."""
    rows, k = read_rows(trial), machine.slowness
    first = rows["t_ns"][0] or 0

    def moved(t_ns: float) -> int:
        return int(free_ns + (t_ns - first) * k)

    last = _move_samples(trial, rows, moved, machine, generator)
    edit_events(trial, lambda event: _move_event(event, moved, machine))
    wall_s = (last - free_ns) / 1e9
    started = datetime.fromtimestamp(int(machine.booted_s + free_ns / 1e9 - machine.delay_s), UTC).isoformat()

    def change_attempt(data: Data) -> None:
        data["started_at"] = started
        data["machine"].update(machine.facts)
        data["worker"]["wall_s"] = wall_s
        if "flop_per_s" in ((data["memory"] or {}).get("product") or {}):
            data["memory"]["product"]["flop_per_s"] /= k

    def change_meter(data: Data) -> None:
        epoch_ns = int(machine.booted_s * 1e9)
        data["clocks"] = [{"monotonic_ns": t, "epoch_ns": epoch_ns + t} for t in (free_ns, last)]
        data["sampler"].update(wall_s=wall_s, samples=len(read_rows(trial)["t_ns"]) - 1)
        for process in data["processes"]:
            process["cpu_s"] *= k
        if machine.package_w is not None:
            data["package_energy"].update(source="/sys/class/powercap", reason=None)

    edit(trial / "attempt.json", change_attempt)
    edit(trial / "meter.json", change_meter)
    return last


def _move_samples(
    trial: Path, rows: Rows, moved: Callable[[float], int], machine: Machine, generator: np.random.Generator
) -> int:
    """Sample the machine at 10 Hz, with its sampler's jitter; return the time of the last row."""
    old = np.array([moved(t or 0) for t in rows["t_ns"]], float)
    if machine.slowness == 1 and not machine.jitter_s:  # as it was sampled
        write_rows(trial, rows | {"t_ns": [int(t) for t in old]})
        return int(old[-1])
    count = int((old[-1] - old[0]) / 1e8)
    times = old[0] + np.arange(count + 1) * 1e8
    times[1:] += generator.uniform(0, max(machine.jitter_s, 1e-6), count) * 1e9
    new: Rows = {"t_ns": [int(t) for t in times]}
    places = np.clip(np.searchsorted(old, times, "right") - 1, 0, len(old) - 1)
    for name in COLUMNS[1:]:
        values = rows[name]
        if name in machine.missing or all(value is None for value in values):
            new[name] = [None] * len(times)
        elif name in RUNNING_SUMS:
            known = [place for place, value in enumerate(values) if value is not None]
            start = values[known[0]] or 0.0
            sums = [start + ((values[place] or 0.0) - start) * machine.slowness for place in known]
            at = np.interp(times, old[known], sums)
            new[name] = [None if t < old[known[0]] else float(round(v, 3)) for t, v in zip(times, at, strict=True)]
        else:
            new[name] = [values[place] for place in places]
    if machine.package_w is not None:
        new["package_energy_uj"] = [float(round((t - times[0]) * machine.package_w / 1e3)) for t in times]
    write_rows(trial, new)
    return int(times[-1])


def _move_event(event: Data, moved: Callable[[float], int], machine: Machine) -> None:
    event["t_ns"] = moved(event["t_ns"])
    for name in ("copied_s", "first_s", "second_s", "first_cpu_s", "second_cpu_s"):
        if name in event:
            event[name] *= machine.slowness
    if event["event"] == "window_ended":
        event["segments"] = [[moved(edge) for edge in segment] for segment in event["segments"]]
        event["calls_s"] = [call * machine.slowness for call in event["calls_s"]]
    for name in machine.missing:
        event.pop(name, None)
