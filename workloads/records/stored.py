"""A trial's result, the gate's evidence in it and the sampler's report, meter.json, as they are stored.

The runner and the reports read them, and anybody may have written the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NoReturn, Required, TypedDict, cast

import msgspec
from msgspec import Meta

from . import files
from .end_evidence import TrialEnd
from .evidence import EVALUATED_STEPS, PROBE_STEPS, Evidence, Fingerprint
from .figures import ACCURACY, Figure
from .job import ID, TrialSpec
from .result import OtherSchema, TrialResult
from .validation import build_record, describe_error, restore_nan

MOST_DIGITS = 32
LARGEST, SHOWN = 1e30, 40  # of a figure: its value, and the characters shown of a wrong one
HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")  # a surrogate, as JSON writes it

Moment = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Period = Annotated[float, Meta(ge=0, le=1e9)]

FEWEST_VALUES = 2  # of a fingerprint: at least a norm and a projection
LARGEST_NORM = 1e100  # its square is finite, too
UNKNOWN_AS_0 = ("rounding", "resolution")  # of an end's `Difference`


class Clocks(TypedDict):
    """The same moment on both clocks, ns."""

    monotonic_ns: Moment
    epoch_ns: Moment


class _Failure(TypedDict):
    reason: str


class _Metric(TypedDict, total=False):
    source: Required[str | None]
    reason: Required[str | None]
    calls: Required[Count]
    failures: Required[Count]
    first_failure: Required[_Failure | None]
    missing: dict[str, str]
    period_s: Period | None
    every_s: Period


class _Quota(TypedDict):
    source: str | None
    reason: str | None
    quota_cores: Annotated[float, Meta(gt=0, le=1e9)] | None
    periods: Count
    throttled_periods: Count
    first_failure: _Failure | None


class _Gpu(TypedDict, total=False):
    reason: str | None
    graphics_processes: Count | None
    metrics: dict[str, _Metric]


class _Sampler(TypedDict, total=False):
    wall_s: Period
    samples: Count  # rows that it took


class _Process(TypedDict, total=False):
    cpu_s: Period


class Meter(TypedDict, total=False):
    """The fields that are read; the file may have more."""

    sampler: _Sampler | None  # absent in older files, as the next
    processes: list[_Process]

    gpu: _Gpu | None
    other_gpus: list[_Gpu]  # for a trial on several GPUs, those after the first
    package_energy: _Metric | None
    cpu_quota: _Quota | None  # absent in older files
    clocks: Required[list[Clocks]]


@dataclass(frozen=True)
class Unreadable:
    """A result file that cannot be used, and why. `other_schema`: another version of this program can read it."""

    path: Path
    reason: str
    other_schema: bool = False

    @staticmethod
    def from_error(path: Path, error: ValueError) -> Unreadable:
        """Make the record of an error that `read_result` raised."""
        return Unreadable(path, str(error), isinstance(error, OtherSchema))


def read_result(path: Path) -> TrialResult:
    """Read the result in a file. Raises ValueError with the reason for a file that cannot be read, is not JSON, or
    has wrong fields or impossible values. Raises OtherSchema for one of another version.
    """
    return parse_result(read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """Return the file's bytes. Raises ValueError with the reason."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(error.strerror) from error


def parse_result(content: bytes) -> TrialResult:
    """Parse a result file's content. Raises ValueError as `read_result` does."""
    try:
        data = json.loads(content.decode(), parse_constant=_refuse_constant, parse_int=_whole, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"not whole JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("not a trial result: nested without end") from error
    if HALF_A_CHARACTER.search(content):  # only JSON can hold one
        data = json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"))
    result = TrialResult.from_json(data)
    for name, figure in result.figures.items():
        refuse_size(name, figure)
    refuse_counts(result)
    accuracy = result.figures.get(ACCURACY.name)
    if accuracy and accuracy.value is not None and not 0 <= accuracy.value <= 1:
        raise ValueError(f"not a trial result: figures.test_accuracy.value is {accuracy.value}, not from 0 to 1")
    refuse_paths(result.spec)
    if result.evidence:
        refuse_evidence(result.evidence, "not a trial result: evidence")
    if result.end:
        result = replace(result, end=without_unknown(result.end))
        build_record(result.end, TrialEnd, "not a trial result: end")
    build_record(result.facts.get("packages", {}), dict[str, str], "not a trial result: facts.packages")
    read_start(result)
    return result


def without_unknown(end: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence of a trial's end without roundings and resolutions that are null: the default, 0, holds.

    They are no numbers where the difference is none either: after a training that diverged. Raises ValueError.
    """
    try:
        known: dict[str, Any] = _drop_unknown(end)
    except RecursionError as error:
        raise ValueError(f"not a trial result: end: {describe_error(error)}") from error
    return known


def _drop_unknown(data: Any) -> Any:
    if isinstance(data, dict):
        known = {key: value for key, value in data.items() if value is not None or key not in UNKNOWN_AS_0}
        return {key: _drop_unknown(value) for key, value in known.items()}
    return [_drop_unknown(item) for item in data] if isinstance(data, list) else data


def refuse_size(name: str, figure: Figure) -> None:
    """Raise ValueError for a value that cannot have been measured, or is not a number."""
    if figure.value is not None and not abs(figure.value) < LARGEST:
        value = str(figure.value)[:SHOWN]
        raise ValueError(f"not a trial result: figures.{name}.value is {value}, too large to be measured")


def refuse_counts(result: TrialResult) -> None:
    """Raise ValueError for a count below the possible, or above what a framework takes."""
    spec = result.spec
    least_one = {
        "cell.batch_size": spec.cell.batch_size,
        "placement.threads": spec.placement.threads,
        "placement.devices": spec.placement.devices,
        "task.accumulate": spec.task.accumulate,
        "task.optimizer.base_batch_size": spec.task.optimizer.base_batch_size,
    }
    for name, count in least_one.items():
        if not 1 <= count < 2**31:
            raise ValueError(f"not a trial result: spec.{name} is {count}")
    counts = [spec.passes.epochs, *(count for epoch in result.epochs for count in (epoch.steps, epoch.images))]
    if min(counts) < 0:
        raise ValueError(f"not a trial result: epochs, steps or images of {min(counts)}")


def refuse_paths(spec: TrialSpec) -> None:
    """Raise ValueError for a trial that would lead out of its results folder. Its id and the names of its workload
    and data set are parts of names there; its inputs are files there.
    """
    if not ID.fullmatch(spec.id):
        raise ValueError(f"not a trial result: its id would be {spec.id[:SHOWN]!r}")
    for name in (spec.task.workload, spec.task.dataset):
        if not name or {"/", "\0"} & set(name):
            raise ValueError(f"not a trial result: {name[:SHOWN]!r} is not a workload or data set")
    for file in spec.inputs.values():
        path = PurePosixPath(file.path)
        if path.is_absolute() or ".." in path.parts or "\0" in file.path:
            raise ValueError(f"not a trial result: its input {file.path[:SHOWN]!r} lies outside of the results folder")


def read_start(result: TrialResult) -> datetime:
    """Return the start time, in UTC if it has no zone. Raises ValueError for a `started_at` that is not ISO 8601."""
    try:
        moment = datetime.fromisoformat(result.started_at)
    except ValueError as error:
        raise ValueError(f"not a trial result: started_at is {result.started_at[:SHOWN]!r}, not ISO 8601") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"not a trial result: {name} is not a JSON number")


def _whole(digits: str) -> int:
    """Return the integer. A number of very many digits is refused, since it would be read for minutes."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"not a trial result: {digits[:SHOWN]}... is too large to be measured")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if value - value != 0:
        raise ValueError(f"not a trial result: {digits[:SHOWN]} is too large to be measured")
    return value


def read_meter(path: Path) -> dict[str, Any]:
    """Read the report; empty without a file. Raises ValueError, one line, for a file that is not a readable report."""
    content = files.read_bytes(path)
    return {} if content is None else meter_of(content, path.name)


def meter_of(content: bytes, name: str = "meter.json") -> dict[str, Any]:
    """Parse a file's content. Raises ValueError with `name`."""
    try:
        meter = cast(dict[str, Any], msgspec.json.decode(content, type=Meter))
        accounts = [meter.get("gpu") or {}, *meter.get("other_gpus", [])]
        metrics = [metric for account in accounts for metric in account.get("metrics", {}).values()]
        if any(each["failures"] and not each["first_failure"] for each in metrics):
            raise ValueError("calls failed, but the first failure is missing")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: {describe_error(error)}") from error
    return meter


def refuse_evidence(data: dict[str, Any], name: str) -> None:
    """Raise ValueError, with `name` before the reason, for evidence that the gate cannot compare."""
    try:
        restored = restore_nan(data)
    except RecursionError as error:
        raise ValueError(f"{name}: {describe_error(error)}") from error
    for probe in build_record(restored, Evidence, name).probes:
        if not EVALUATED_STEPS <= len(probe.losses) <= PROBE_STEPS:
            raise ValueError(f"{name}: {len(probe.losses)} losses")
        if any(not steps.isdecimal() or len(steps) > 1 for steps in probe.updates):
            raise ValueError(f"{name}: updates of steps {', '.join(map(repr, probe.updates))}"[:200])
        for fingerprint in _fingerprints(probe):
            if len(fingerprint) < FEWEST_VALUES or any(abs(value) > LARGEST_NORM for value in fingerprint):
                raise ValueError(f"{name}: a fingerprint of {len(fingerprint)} values, the first {fingerprint[:1]}")
        sizes = (probe.loss, probe.gradient_norm, *probe.losses, *probe.sizes.values())
        if any(abs(size) > LARGEST_NORM for size in sizes):
            raise ValueError(f"{name}: a loss or a norm is above {LARGEST_NORM:.0e}")


def _fingerprints(probe: Evidence) -> Iterator[Fingerprint]:
    yield probe.evaluation
    yield probe.untrained_evaluation
    yield from probe.outputs.values()
    yield from probe.gradients.values()
    for changes in probe.updates.values():
        yield from changes.values()
