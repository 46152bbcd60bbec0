"""A worker's stored events, from any file: each line is validated against its event's type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Required, TypedDict

import msgspec
from msgspec import Meta

from .events import PEAK_PARTS, Event, Events
from .files import read_bytes
from .status import Status
from .stored_reports import refuse_evidence
from .validation import one_line

Time = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # ns of the monotonic clock
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Rate = Annotated[float, Meta(gt=0, le=1e21)]
Share = Annotated[float, Meta(ge=0, le=1)]
Loss = float | None  # None: not a number
Name = Annotated[str, Meta(pattern=r"^[\w-][\w.-]*$", max_length=255)]  # of a file in the worker's folder
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
FIRST = b'{"event": "started"'  # of a worker; it may follow a line that the kill of the previous one cut short


class _Line(TypedDict, total=False):
    t_ns: Required[Time]


class _Opened(_Line, total=False):
    facts: dict[str, Any]
    resident_bytes: Number | None


class _EpochTrained(_Line, total=False):
    steps: Required[Positive]
    images: Required[Positive]
    train_loss: Required[Loss]
    first_losses: list[Loss]
    copied_s: Seconds


class _EpochAugmented(_Line, total=False):
    augment_s: Required[Seconds]


class _EpochEvaluated(_Line, total=False):
    epoch: Number
    test_loss: Loss  # of trials of earlier versions; now the runner computes both
    test_accuracy: Share


class _WindowStarted(_Line, total=False):
    peak_resident_bytes: Number | None


class _WindowEnded(_Line, total=False):
    segments: Required[Annotated[list[tuple[Time, Time]], Meta(min_length=1)]]
    steps: Required[Positive]
    images: Required[Positive]
    calls_s: list[Seconds]
    diverged_step: Number | None
    peak_resident_bytes: Number | None
    page_faults: Number
    context_switches: Number


class _WindowSettled(_Line, total=False):
    first_s: Seconds
    second_s: Seconds
    first_cpu_s: Seconds
    second_cpu_s: Seconds
    segments: Positive
    again_s: list[Seconds]
    again_cpu_s: list[Seconds]
    reason: str
    out_of_memory: bool


class _HostCounted(_Line, total=False):
    proportional_bytes: Number | None
    data_bytes: Number | None
    anonymous_bytes: Number | None
    resident_bytes: Number | None
    peak_resident_bytes: Number | None
    reason: str


class _AllocatorCounted(_Line, total=False):
    counts: dict[str, Number | str]
    reason: str


class _Masks(TypedDict):
    layer: str
    values: Number
    zeros: Share
    scale: float | None


class _EndProbed(_Line, total=False):
    asked_steps: Number
    idle_steps: Number
    masks: list[_Masks]
    reason: str
    out_of_memory: bool


class _Refused(TypedDict, total=False):
    asked_bytes: Number | None
    available_bytes: Number | None
    bound: str | None


class _Ended(_Line, total=False):
    status: Required[Status]
    reason: Required[str]
    memory: _Refused | None


class _Probed(_Line, total=False):
    evidence: Required[dict[str, Any]]


class _ProductTimed(_Line, total=False):
    flop_per_s: Rate
    width: Positive
    calls: Positive
    reason: str


class _MemoryTold(_Line, total=False):
    batch_size: Required[Positive]
    parts: dict[str, Number | None]
    between_steps: Number
    step_peak: Number
    peak: Number
    steps: Number
    pool_indices: Number | str
    in_chunks: bool
    runs_ahead: bool
    planned: bool
    host: dict[str, Number | None]
    product: _ProductTimed  # of the same worker, in a trial's account
    reason: str


class _WeightsHeld(_Line, total=False):
    progress: Share
    file: Required[Name]
    sha256: Required[Digest]
    train_loss: Loss
    finite: bool


class _FinderLooked(_Line, total=False):
    small: Required[list[Loss]]
    large: Required[Loss]


class _NoiseMeasured(_Line, total=False):
    progress: Required[Share]
    small_batch: Required[Positive]
    large_batch: Required[Positive]
    small: Required[list[list[Loss]]]
    large: Required[list[Loss]]


KINDS: dict[str, Any] = {
    Event.OPENED: _Opened,
    Event.EPOCH_TRAINED: _EpochTrained,
    Event.EPOCH_AUGMENTED: _EpochAugmented,
    Event.EPOCH_EVALUATED: _EpochEvaluated,
    Event.WINDOW_STARTED: _WindowStarted,
    Event.WINDOW_ENDED: _WindowEnded,
    Event.WINDOW_SETTLED: _WindowSettled,
    Event.HOST_COUNTED: _HostCounted,
    Event.ALLOCATOR_COUNTED: _AllocatorCounted,
    Event.END_PROBED: _EndProbed,
    Event.ENDED: _Ended,
    Event.PROBED: _Probed,
    Event.MEMORY_TOLD: _MemoryTold,
    Event.PRODUCT_TIMED: _ProductTimed,
    Event.WEIGHTS_HELD: _WeightsHeld,
    Event.FINDER_LOOKED: _FinderLooked,
    Event.NOISE_MEASURED: _NoiseMeasured,
}


def _counts_or_reason(event: dict[str, Any]) -> None:
    if "counts" not in event and "reason" not in event:
        raise ValueError("neither counts nor the reason why there are none")


def _parts_or_reason(event: dict[str, Any]) -> None:
    if "product" in event:
        _rate_or_reason(event["product"])
    if "parts" not in event:
        return
    if missing := {"step_peak", "peak", "steps"} - event.keys() | set(PEAK_PARTS) - event["parts"].keys():
        raise ValueError(f"parts without {', '.join(sorted(missing))}")


def _not_ok(event: dict[str, Any]) -> None:
    if event["status"] == Status.OK:
        raise ValueError("a worker that ended well says so by another event")


def _evidence(event: dict[str, Any]) -> None:
    refuse_evidence(event["evidence"], "evidence")


def _rectangular(event: dict[str, Any]) -> None:
    """Check for (steps, parts) small norms and (steps,) large ones."""
    small, large = event["small"], event["large"]
    if not small or not small[0] or len(small) != len(large) or len({len(parts) for parts in small}) != 1:
        raise ValueError("small and large are not of the same steps")
    if event["small_batch"] >= event["large_batch"]:
        raise ValueError(f"batches of {event['small_batch']} and {event['large_batch']} images")


def _rate_or_reason(event: dict[str, Any]) -> None:
    if ("flop_per_s" in event) == ("reason" in event):
        raise ValueError("either flop_per_s or the reason why there is none")


RULES: dict[str, Callable[[dict[str, Any]], None]] = {
    Event.ALLOCATOR_COUNTED: _counts_or_reason,
    Event.MEMORY_TOLD: _parts_or_reason,
    Event.PRODUCT_TIMED: _rate_or_reason,
    Event.ENDED: _not_ok,
    Event.PROBED: _evidence,
    Event.NOISE_MEASURED: _rectangular,
}


def read_events(path: Path) -> Events:
    """Return the worker's events, none without a file. A line that a kill cut short is left out.

    Raises ValueError, one line, for a file that cannot be read or that no worker wrote.
    """
    content = read_bytes(path)
    return [] if content is None else events_of(content, path.name)


def events_of(content: bytes, name: str = "events.jsonl") -> Events:
    """Parse a file's content. Raises ValueError with `name` and the line."""
    events: Events = []
    *lines, _ = content.split(b"\n")  # text after the last line end was cut short
    for number, line in enumerate(lines, start=1):
        try:
            event = _event_of(line[max(0, line.rfind(FIRST)) :])
            _follows(event, events)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name}: line {number}: {one_line(error)}") from error
        events.append(event)
    return events


def _event_of(line: bytes) -> dict[str, Any]:
    """Parse one event; only the time of kinds from later versions is checked. Raises ValueError, RecursionError."""
    event = msgspec.json.decode(line)
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ValueError("no event")
    kind = event["event"]
    msgspec.convert(event, KINDS.get(kind, _Line))
    if kind in RULES:
        RULES[kind](event)
    return event


def _follows(event: dict[str, Any], before: Events) -> None:
    """Raise ValueError if time went back, or a window ends that has not begun. Another worker has another clock: the
    machine may have been restarted between two.
    """
    if event["event"] == Event.STARTED:
        return
    if before and event["t_ns"] < before[-1]["t_ns"]:
        raise ValueError(f"t_ns {event['t_ns']} is before that of the line before")
    copied_s = event.get("copied_s", 0.0) if event["event"] == Event.EPOCH_TRAINED else 0.0
    starts = [other["t_ns"] for other in before[-2:] if other["event"] != Event.WINDOW_STARTED]  # in an epoch, too
    if copied_s and (not starts or copied_s > (event["t_ns"] - starts[-1]) / 1e9):
        raise ValueError("copies took longer than the epoch")
    if event["event"] == Event.WINDOW_ENDED:
        begun = [other["t_ns"] for other in before if other["event"] == Event.WINDOW_STARTED]
        if not begun or begun[-1] >= event["t_ns"]:
            raise ValueError("the window ends before it has begun")
        edges = [begun[-1], *(edge for segment in event["segments"] for edge in segment), event["t_ns"]]
        if any(start >= end for start, end in event["segments"]) or edges != sorted(edges):
            raise ValueError("segments of the window that do not follow one another in it")
