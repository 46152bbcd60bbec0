"""Memory contents of each framework per batch size, reported by a separate worker, once for all sizes of a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runner.ask import ask, asked_once
from runner.launch import Launcher, LaunchFailed
from runner.results.memory import MemoryAccount
from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE, LOG_FILE
from workloads.records.job import ON_DEMAND, ROOMS, Job, Kind, TrialSpec
from workloads.records.stored_events import read_events


class MemoryWorker:
    """Runs the memory worker and keeps its report below the results folder."""

    def __init__(self, results: Path, trials: list[TrialSpec]) -> None:
        """Prepare for `trials`: all of the plan, including the finished ones."""
        self.results = results
        self.ended: dict[str, str] = {}  # why it reported no more; it is asked once per run, also if it dies
        self.sizes: dict[str, set[int]] = {}
        for spec in trials:
            self.sizes.setdefault(spec.memory_id, set()).add(spec.cell.batch_size)

    def known(self, spec: TrialSpec) -> MemoryAccount | None:
        """Return its report from this run or an earlier one; None if it is still missing."""
        try:
            return read_accounts(self._job(spec).folder(self.results)).get(spec.cell.batch_size)
        except ValueError:
            return None

    def gather(self, spec: TrialSpec, launcher: Launcher) -> MemoryAccount:
        """Return the memory contents at the trial's batch size, or the reason why they are unknown."""
        try:
            with asked_once(self._job(spec).folder(self.results)):
                return self._told(spec, launcher)
        except ValueError as error:  # its events cannot be read
            return {"reason": f"the memory worker: {error} (in {ROOMS[Kind.MEMORY]}/{spec.memory_id})"}

    def _told(self, spec: TrialSpec, launcher: Launcher) -> MemoryAccount:
        """Return the stored report, or run the worker for missing sizes. Raises ValueError for unreadable events."""
        batch_size, name = spec.cell.batch_size, spec.memory_id
        job = self._job(spec)
        folder = job.folder(self.results)
        counts = read_accounts(folder)
        if batch_size not in counts and name not in self.ended:
            missing = tuple(sorted(self.sizes[name] - set(counts)))
            trial = replace(job.trial, timeout_s=spec.timeout_s * len(missing))
            try:
                ended = ask(replace(job, trial=trial, batch_sizes=missing), folder, launcher)
                self.ended[name] = (
                    f"{ended.status}: {ended.reason}" if ended.reason else "it ended without this batch size"
                )
            except LaunchFailed as error:
                self.ended[name] = str(error)
            counts = read_accounts(folder)
        if batch_size in counts:
            return counts[batch_size]
        return {"reason": f"the memory worker: {self.ended[name]} (log: {folder / LOG_FILE})"}

    @staticmethod
    def _job(spec: TrialSpec) -> Job:
        return Job(Kind.MEMORY, replace(spec, cell=replace(spec.cell, allocator=ON_DEMAND)))


def read_accounts(folder: Path) -> dict[int, MemoryAccount]:
    """Return {batch size: its memory event}, with the worker's timing of matrix products. Raises ValueError."""
    events = read_events(folder / EVENTS_FILE)
    timed = [event for event in events if event["event"] == Event.PRODUCT_TIMED]
    product = {"product": timed[-1]} if timed else {}
    return {event["batch_size"]: event | product for event in events if event["event"] == Event.MEMORY_TOLD}
