"""What the memory of each framework holds per batch size, told by a worker of its own, once for all sizes of a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runner.launch import LaunchFailed, Way, run_worker
from runner.machine import description
from runner.results.assemble import how_it_ended
from runner.results.memory import Told
from workloads.records.events import Event, read_events
from workloads.records.files import EVENTS_FILE, LOG_FILE, TRIAL_FILE, write_json
from workloads.records.job import TrialSpec

MEMORY = "memory"


class MemoryWorker:
    """What it told is kept below the results folder."""

    def __init__(self, results: Path, trials: list[TrialSpec]) -> None:
        """`trials`: all of the plan, the finished ones too."""
        self.results = results
        self.ended: dict[str, str] = {}  # why it told no more; it is asked once a run, also where it dies
        self.sizes: dict[str, set[int]] = {}
        for spec in trials:
            self.sizes.setdefault(kind(spec).id, set()).add(spec.batch_size)

    def gather(self, spec: TrialSpec, way: Way) -> Told:
        """What the memory holds at the trial's batch size, or the reason why that is not known."""
        own = kind(spec)
        folder = (self.results / MEMORY / own.id).resolve()
        told = read_told(folder)
        if spec.batch_size not in told and own.id not in self.ended:
            missing = sorted(self.sizes[own.id] - set(told))
            own = replace(own, inputs=spec.inputs, timeout_s=spec.timeout_s * len(missing))
            self.ended[kind(spec).id] = self._ask(folder, own, missing, way)
            told = read_told(folder)
        if spec.batch_size in told:
            return told[spec.batch_size]
        return {"reason": f"the memory worker: {self.ended[kind(spec).id]} (log: {folder / LOG_FILE})"}

    @staticmethod
    def _ask(folder: Path, own: TrialSpec, sizes: list[int], way: Way) -> str:
        """How it ended."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / TRIAL_FILE, own.to_json())
        kills_before = description.out_of_memory_kills()
        try:
            outcome = run_worker(folder, own, way, ("adapters.worker.memory_steps", *map(str, sizes)))
        except LaunchFailed as error:
            return str(error)
        killed_for_memory = description.out_of_memory_kills() != kills_before
        events = read_events(folder / EVENTS_FILE)
        status, reason = how_it_ended(events, outcome, folder / LOG_FILE, killed_for_memory)
        return f"{status}: {reason}" if reason else "it ended without this batch size"


def kind(spec: TrialSpec) -> TrialSpec:
    """Neither repeat nor seed changes what memory holds; one worker tells it of all batch sizes."""
    return replace(
        spec,
        study=MEMORY,
        batch_size=0,
        epochs=0,
        repeat=0,
        seed=0,
        window_s=0.0,
        timeout_s=0.0,
        allocator="on-demand",
        inputs={},
    )


def read_told(folder: Path) -> dict[int, Told]:
    events = read_events(folder / EVENTS_FILE)
    return {event["batch_size"]: event for event in events if event["event"] == Event.MEMORY_TOLD}
