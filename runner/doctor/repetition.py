"""Train twice in fresh processes, and compare the losses to the last digit."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from runner import owned
from runner.doctor.machine import Finding, State
from runner.project import Project
from workloads.records.build import column_of
from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE, RESULT_FILE
from workloads.records.job import ROOMS, Kind
from workloads.records.status import Status
from workloads.records.stored_events import read_events

# One epoch of the usual study's network; the window is as short as can be, for its speed is not looked at.
SHORT = ("--batch-size", "32", "--epochs", "1", "--repeat", "1", "--window", "0.1", "--deterministic")
ADVICE = "its switch does not reach every operation here: try --threads 1, and read the trial's log"
Losses = tuple[list[float], Status, str]  # of its steps, as far as they were kept, and of the epoch; how it ended


def check_repetition(project: Project, frameworks: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding per framework: are the losses of two trials with `--deterministic` the same to the last digit."""
    with tempfile.TemporaryDirectory(prefix="same-twice-") as folder:
        first, again = (train_once(project, frameworks, Path(folder, name)) for name in ("first", "again"))
        if not first and not again:
            yield Finding(
                "same twice", State.PROBLEM, "neither run trained: see above", "fix what it says, then run it again"
            )
        for name in {**first, **again}:
            yield compare_losses(name, first.get(name), again.get(name))


def train_once(project: Project, frameworks: Sequence[str], results: Path) -> dict[str, Losses]:
    """Return {framework: its losses} of a run in a process of its own, whose trials each have another."""
    command = [sys.executable, "-m", "runner", "--framework", *frameworks, *SHORT, "--results", str(results)]
    owned.run(command, cwd=project.root, stdout=sys.stderr.fileno())
    found = {}
    for path in sorted((results / ROOMS[Kind.TRIAL]).glob(f"*/{RESULT_FILE}")):
        result = json.loads(path.read_text(encoding="utf-8"))
        framework = column_of(result["spec"]["cell"]["framework"]).framework
        found[framework] = read_losses(path.parent / EVENTS_FILE), Status(result["status"]), str(result["reason"])
    return found


def read_losses(events: Path) -> list[float]:
    """Return the losses that a worker wrote, in every digit; none if it did not train."""
    trained = [each for each in read_events(events) if each["event"] == Event.EPOCH_TRAINED]
    return [loss for each in trained for loss in (*each.get("first_losses", ()), each["train_loss"])]


def compare_losses(framework: str, first: Losses | None, again: Losses | None) -> Finding:
    """Return whether two trials had the same losses; a trial that did not train is a finding of its own."""
    name = f"same twice {framework}"
    for each in (first, again):
        if each is None:
            return Finding(name, State.PROBLEM, "it did not run: see above", "fix what the run says")
        if not each[0]:
            state = State.UNKNOWN if each[1] is Status.UNSUPPORTED else State.PROBLEM
            return Finding(name, state, f"{each[1]}: {each[2]}", "" if state is State.UNKNOWN else "fix that first")
    assert first and again
    if first[0] == again[0]:
        return Finding(
            name, State.OK, f"{len(first[0])} losses are the same to the last digit, the last {first[0][-1]!r}"
        )
    a, b = first[0], again[0]
    place = next((n for n in range(min(len(a), len(b))) if a[n] != b[n]), None)
    said = (
        f"{len(a)} losses, then {len(b)}" if place is None else f"loss {place + 1} is {a[place]!r}, then {b[place]!r}"
    )
    return Finding(name, State.PROBLEM, f"differs: {said}", ADVICE)
