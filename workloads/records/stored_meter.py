"""The sampler's report on itself, meter.json, as it is stored; validates any file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Required, TypedDict, cast

import msgspec
from msgspec import Meta

from .files import read_bytes
from .validation import one_line

Moment = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Period = Annotated[float, Meta(ge=0, le=1e9)]


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
