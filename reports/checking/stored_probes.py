"""The probes that are stored with results: answers of frameworks, sources and the referee to the gate's questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workloads.records import files as numbered
from workloads.records import validation
from workloads.records.events import Event
from workloads.records.evidence import Evidence
from workloads.records.files import EVENTS_FILE, JOB_FILE
from workloads.records.job import AUGMENTATION, ROOMS, Job, Kind, TrialSpec
from workloads.records.stored_events import read_events

PROBED_INPUTS = ("train_images", "train_labels", "order", "network", AUGMENTATION, "weights")
REFEREE = "numpy"


@dataclass(frozen=True)
class StoredProbe:
    """A probe's answer, with the trial that it was made for; its inputs name weights and images by digest."""

    folder: Path
    spec: TrialSpec
    evidence: dict[str, Any]

    def read(self) -> Evidence:
        """Return the answer as a record."""
        return Evidence.from_json(validation.restore_nan(self.evidence))


class Probes:
    """Probes of a results folder, each read once."""

    def __init__(self, results: Path) -> None:
        """Read the probes. One that cannot be read, or is of another version, is left out."""
        room = results / ROOMS[Kind.PROBE]
        found = map(read_probe, sorted(room.iterdir()) if room.is_dir() else ())
        self._every = [probe for probe in found if probe is not None]
        self._answers: dict[tuple[Any, ...], Evidence | None] = {}  # by precision and question
        self._referees = [probe for probe in self._every if probe.spec.cell.framework == REFEREE]

    def list_answers(self, spec: TrialSpec) -> list[StoredProbe]:
        """Return the answers of the trial's framework, including earlier ones."""
        return [probe for probe in self._every if _job_id(probe.folder) == spec.probe_id]

    def referee(self, spec: TrialSpec, precision: str) -> Evidence | None:
        """Return the referee's answer from the same weights and images in this precision; None if there is none."""
        asked = (precision, *_question(spec))
        if asked not in self._answers:
            answers = [each for each in self._referees if (each.spec.task.precision, *_question(each.spec)) == asked]
            self._answers[asked] = answers[-1].read() if answers else None
        return self._answers[asked]

    def source(self, spec: TrialSpec) -> Evidence | None:
        """Return the answer of the module that the trial's network was imported from; None if there is none."""
        asked = _question(spec)
        found = [each for each in self._every if each.spec.task.own_code and _question(each.spec) == asked]
        return found[-1].read() if found else None

    def list_disturbed(self, spec: TrialSpec) -> list[Evidence]:
        """Return the referee's answers from disturbed weights, in the trial's precision: the gate measured by them what
        rounding does.
        """
        precision = spec.task.precision
        found = (each for each in self._referees if each.spec.task.precision == precision)
        return [each.read() for each in found if _differs_in(spec, each.spec, "weights")]

    def list_own_disturbed(self, spec: TrialSpec) -> list[Evidence]:
        """Return the answers of the trial's own framework from disturbed weights: a proof may have allowed them."""
        own = (each for each in self._every if each.spec.cell.framework == spec.cell.framework)
        return [e.read() for e in own if not e.spec.task.own_code and _differs_in(spec, e.spec, "weights")]

    def list_with_other_images(self, spec: TrialSpec) -> list[StoredProbe]:
        """Return the answers of the trial's own framework, as installed for it, for other images."""
        own = (each for each in self._every if _differs_in(spec, each.spec, "order"))
        return [each for each in own if _with_file_of(spec, each.spec, "order").probe_id == each.spec.probe_id]


def read_probe(folder: Path) -> StoredProbe | None:
    """Read the probe in a folder; None for one that cannot be read, or is of another version."""
    try:
        job = Job.from_json(validation.read(folder / JOB_FILE, dict[str, Any]) or {})
        events = read_events(folder / EVENTS_FILE)
    except (ValueError, TypeError, AttributeError):
        return None
    probed = [event["evidence"] for event in events if event["event"] == Event.PROBED]
    if not probed or job.trial.probe_id != _job_id(folder):
        return None
    return StoredProbe(folder, job.trial, probed[-1])


def _job_id(folder: Path) -> str:
    named = numbered.NUMBERED.fullmatch(folder.name)
    return named["id"] if named else folder.name


def _question(spec: TrialSpec) -> tuple[Any, ...]:
    """Return what a probe's answer depends on, except for the framework and the precision."""
    digests = tuple(spec.inputs[name].sha256 if name in spec.inputs else "" for name in PROBED_INPUTS)
    return spec.task.workload, spec.task.optimizer, spec.task.accumulate > 1, *digests


def _differs_in(spec: TrialSpec, other: TrialSpec, name: str) -> bool:
    """True if the other question has another file of this name, and is the same but for it."""
    theirs = other.inputs.get(name)
    return theirs not in (None, spec.inputs.get(name)) and _question(_with_file_of(spec, other, name)) == _question(
        other
    )


def _with_file_of(spec: TrialSpec, other: TrialSpec, name: str) -> TrialSpec:
    return replace(spec, inputs={**spec.inputs, name: other.inputs[name]})
