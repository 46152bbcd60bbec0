"""The result of a trial, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .figures import Figure, FigureSpec, refuse_unknown
from .job import TrialSpec
from .status import Status
from .validation import MOST_CHARACTERS, build_record

SCHEMA_VERSION = 5  # of result.json, the only one that is read
Key = tuple[str, str, float]  # of a result


class OtherSchema(ValueError):
    """A result of another schema version."""


@dataclass(frozen=True)
class Check:
    """An identity that a result must satisfy. `against` names the frameworks, or `check_name.JUDGE`, that the result
    was compared with; empty if its own figures and files suffice, or if there were none.
    """

    name: str
    passed: bool
    detail: str
    against: tuple[str, ...] = ()


@dataclass(frozen=True)
class Epoch:
    """One pass over the training split and the evaluation after it. A loss is None if it was not finite."""

    train_s: float
    steps: int
    images: int
    train_loss: float | None
    evaluate_s: float
    test_loss: float | None
    test_accuracy: float  # fraction, 0..1


def refuse_target(accuracy: float | None) -> str | None:
    """Return why this cannot be a target test accuracy; None if it can, or none was given."""
    if accuracy is None or 0 < accuracy <= 1:
        return None
    return f"--target-accuracy {accuracy:g}: must be a share above 0 and up to 1, e.g. 0.6"


def select_epochs(epochs: Sequence[Epoch], accuracy: float) -> Sequence[Epoch]:
    """Return the epochs up to the first with this test accuracy, a share; empty if none has it."""
    number = next((number for number, epoch in enumerate(epochs, start=1) if epoch.test_accuracy >= accuracy), 0)
    return epochs[:number]


@dataclass(frozen=True)
class TrialResult:
    """The result of one trial. Times in seconds; `phases_s` maps an event to the time since the previous one."""

    spec: TrialSpec
    status: Status
    reason: str | None
    started_at: str
    wall_s: float
    phases_s: dict[str, float] = field(default_factory=dict)
    epochs: list[Epoch] = field(default_factory=list)
    first_losses: list[float | None] = field(default_factory=list)
    evidence: dict[str, Any] = field(
        default_factory=dict
    )  # of its framework, for the gate: workloads.records.evidence.Evidence
    end: dict[str, Any] = field(
        default_factory=dict
    )  # the gate's evidence of its end: workloads.records.end_evidence.TrialEnd
    figures: dict[str, Figure] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)  # the worker's: versions, settings
    machine: dict[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        """Check the figures. Raises ValueError for one that is not in the registry."""
        refuse_unknown(self.figures)

    @property
    def key(self) -> Key:
        """Identity of this measurement: the id of the trial, its start and its length.

        Machines that are alike give a trial the same id, and may begin it in the same second.
        """
        return self.spec.id, self.started_at, self.wall_s

    def first_known(self, *specs: FigureSpec) -> float | None:
        """Return the value of the first of these figures that has one."""
        values = (self.figures[spec.name].value for spec in specs if spec.name in self.figures)
        return next((value for value in values if value is not None), None)

    def to_json(self) -> dict[str, Any]:
        """Return what result.json holds."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> TrialResult:
        """Return the result of a file's content.

        Raises OtherSchema, and ValueError for a result that lacks or invents a field, or has an unknown figure.
        """
        _refuse_other_schema(data)
        if unknown := set(data) ^ {field.name for field in fields(TrialResult)}:
            names = ", ".join(map(repr, sorted(unknown)))
            raise ValueError(f"fields missing or unknown: {names}"[:MOST_CHARACTERS])
        for name, figure in build_record(data["figures"], dict[str, Any], "not a trial result: figures").items():
            build_record(figure, Figure, f"not a trial result: figures.{name}")
        return build_record(data, TrialResult, "not a trial result")


def _refuse_other_schema(data: Any) -> None:
    """Raise OtherSchema with the commit whose program reads the result, or ValueError if it is not a result."""
    if not isinstance(data, dict):
        raise ValueError("not a trial result: no JSON object")
    version = data.get("schema_version")
    if type(version) is int and version == SCHEMA_VERSION:
        return
    machine = data.get("machine")
    commit = machine.get("commit") if isinstance(machine, dict) else None
    maker = f"; commit {str(commit)[:40]} made it and can read it" if commit else ""
    raise OtherSchema(f"schema version {repr(version)[:40]}, this program reads {SCHEMA_VERSION}{maker}")
