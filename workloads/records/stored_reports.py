"""The sampler's report on itself, meter.json, and the gate's evidence, as they are stored; validates any file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Required, TypedDict, cast

import msgspec
from msgspec import Meta

from .end_evidence import TrialEnd
from .evidence import EVALUATED_STEPS, PROBE_STEPS, Evidence, Fingerprint
from .files import read_bytes
from .validation import numbers, one_line, record

Moment = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Period = Annotated[float, Meta(ge=0, le=1e9)]

FEWEST_VALUES = 2  # of a fingerprint: at least a norm and a projection
LARGEST = 1e100  # its square is finite, too


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


class Meter(TypedDict, total=False):
    """The fields that are read; the file may have more."""

    gpu: _Gpu | None
    other_gpus: list[_Gpu]  # for a trial on several GPUs, those after the first
    package_energy: _Metric | None
    cpu_quota: _Quota | None  # absent in older files
    clocks: Required[list[Clocks]]


def read_meter(path: Path) -> dict[str, Any]:
    """Read the report; empty without a file. Raises ValueError, one line, for a file that is no readable report."""
    content = read_bytes(path)
    return {} if content is None else meter_of(content, path.name)


def meter_of(content: bytes, name: str = "meter.json") -> dict[str, Any]:
    """Parse a file's content. Raises ValueError with `name`."""
    try:
        meter = cast(dict[str, Any], msgspec.json.decode(content, type=Meter))
        accounts = [meter.get("gpu") or {}, *meter.get("other_gpus", [])]
        metrics = [metric for account in accounts for metric in account.get("metrics", {}).values()]
        if any(each["failures"] and not each["first_failure"] for each in metrics):
            raise ValueError("calls failed, and the first that did is not there")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: {one_line(error)}") from error
    return meter


def refuse_evidence(data: dict[str, Any], name: str) -> None:
    """Raise ValueError, with `name` before the reason, for evidence that the gate cannot compare."""
    for probe in record(numbers(data), Evidence, name).probes:
        if not EVALUATED_STEPS <= len(probe.losses) <= PROBE_STEPS:
            raise ValueError(f"{name}: {len(probe.losses)} losses")
        if any(not steps.isdecimal() or len(steps) > 1 for steps in probe.updates):
            raise ValueError(f"{name}: updates of steps {', '.join(map(repr, probe.updates))}"[:200])
        for fingerprint in _fingerprints(probe):
            if len(fingerprint) < FEWEST_VALUES or any(abs(value) > LARGEST for value in fingerprint):
                raise ValueError(f"{name}: a fingerprint of {len(fingerprint)} values, the first {fingerprint[:1]}")
        if any(
            abs(value) > LARGEST for value in (probe.loss, probe.gradient_norm, *probe.losses, *probe.sizes.values())
        ):
            raise ValueError(f"{name}: a loss or a norm is above {LARGEST:.0e}")


def refuse_end(data: dict[str, Any], name: str) -> None:
    """Raise ValueError, with `name` before the reason, for data that are no trial's end."""
    record(data, TrialEnd, name)


def _fingerprints(probe: Evidence) -> Iterator[Fingerprint]:
    yield probe.evaluation
    yield probe.untrained_evaluation
    yield from probe.outputs.values()
    yield from probe.gradients.values()
    for changes in probe.updates.values():
        yield from changes.values()
