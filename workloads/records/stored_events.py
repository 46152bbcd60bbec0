"""A worker's stored events, from any file: each line is validated against its event's type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from .events import PEAK_PARTS, Event, Events
from .files import read_bytes
from .status import Status
from .stored import refuse_evidence
from .validation import describe_error

Time = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # ns of the monotonic clock
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Unknown = Number | None  # None: the machine did not give it
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Rate = Annotated[float, Meta(gt=0, le=1e21)]
Share = Annotated[float, Meta(ge=0, le=1)]
Loss = float | None  # None: not a number
Name = Annotated[str, Meta(pattern=r"^[\w-][\w.-]*$", max_length=255)]  # of a file in the worker's folder
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
FIRST = b'{"event": "started"'  # of a worker; it may follow a line that the kill of the previous one cut short


def _fields(required: dict[str, Any], optional: dict[str, Any]) -> Any:
    """Return the type of an object with these fields, for msgspec; others may follow."""
    may_miss = [(name, kind | msgspec.UnsetType, msgspec.UNSET) for name, kind in optional.items()]
    return msgspec.defstruct("Fields", [*required.items(), *may_miss])


def _line(required: dict[str, Any] | None = None, **optional: Any) -> Any:
    """Return the type of an event's line: its time, fields that it must have, and fields that may be missing."""
    return _fields({"t_ns": Time} | (required or {}), optional)


MASKS = _fields({"layer": str, "values": Number, "zeros": Share, "scale": Loss}, {})
REFUSED = _fields({}, {"asked_bytes": Unknown, "available_bytes": Unknown, "bound": str | None})
PRODUCT = _line(flop_per_s=Rate, cpu_time_flop_per_s=Rate, width=Positive, calls=Positive, reason=str)
SEGMENTS = Annotated[list[tuple[Time, Time]], Meta(min_length=1)]
LINE = _line()  # of events of later versions
KINDS: dict[str, Any] = {
    Event.OPENED: _line(facts=dict[str, Any], resident_bytes=Unknown),
    Event.BUILT: _line(execution=str | None),
    Event.EPOCH_TRAINED: _line(
        {"steps": Positive, "images": Positive, "train_loss": Loss}, first_losses=list[Loss], copied_s=Seconds
    ),
    Event.EPOCH_AUGMENTED: _line({"augment_s": Seconds}),
    Event.EPOCH_EVALUATED: _line(
        epoch=Number, test_loss=Loss, test_accuracy=Share
    ),  # loss and accuracy of trials of earlier versions; now the runner computes both
    Event.WINDOW_STARTED: _line(peak_resident_bytes=Unknown),
    Event.WINDOW_ENDED: _line(
        {"segments": SEGMENTS, "steps": Positive, "images": Positive},
        calls_s=list[Seconds], diverged_step=Unknown, peak_resident_bytes=Unknown, page_faults=Number,
        context_switches=Number,
    ),
    Event.WINDOW_SETTLED: _line(
        first_s=Seconds, second_s=Seconds, first_cpu_s=Seconds, second_cpu_s=Seconds, segments=Positive,
        again_s=list[Seconds], again_cpu_s=list[Seconds], reason=str, out_of_memory=bool,
    ),
    Event.HOST_COUNTED: _line(
        proportional_bytes=Unknown, data_bytes=Unknown, anonymous_bytes=Unknown, resident_bytes=Unknown,
        peak_resident_bytes=Unknown, reason=str,
    ),
    Event.ALLOCATOR_COUNTED: _line(counts=dict[str, Number | str], reason=str),
    Event.END_PROBED: _line(
        asked_steps=Number, idle_steps=Number,
        masks=list[MASKS],  # type: ignore[valid-type]
        reason=str, out_of_memory=bool,
    ),
    Event.EVALUATED_AGAIN: _line(images=list[Number], logits=list[list[Loss]], reason=str),
    Event.TRAINED_AGAIN: _line(losses=list[Loss], reason=str, out_of_memory=bool),
    Event.ENDED: _line({"status": Status, "reason": str}, memory=REFUSED | None),
    Event.PROBED: _line({"evidence": dict[str, Any]}),
    Event.PRODUCT_TIMED: PRODUCT,
    Event.MEMORY_TOLD: _line(
        {"batch_size": Positive},
        parts=dict[str, Unknown], between_steps=Number, step_peak=Number, peak=Number, steps=Number,
        pool_indices=Number | str, in_chunks=bool, runs_ahead=bool, planned=bool, host=dict[str, Unknown],
        product=PRODUCT,  # of the same worker, in a trial's account
        reason=str,
    ),
    Event.WEIGHTS_HELD: _line({"file": Name, "sha256": Digest}, progress=Share, train_loss=Loss, finite=bool),
    Event.FINDER_LOOKED: _line({"small": list[Loss], "large": Loss}),
    Event.NOISE_MEASURED: _line({
        "progress": Share, "small_batch": Positive, "large_batch": Positive, "small": list[list[Loss]],
        "large": list[Loss],
    }),
}  # fmt: skip


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
    return [] if content is None else parse_events(content, path.name)


def parse_events(content: bytes, name: str = "events.jsonl") -> Events:
    """Parse a file's content. Raises ValueError with `name` and the line."""
    events: Events = []
    *lines, _ = content.split(b"\n")  # text after the last line end was cut short
    for number, line in enumerate(lines, start=1):
        try:
            event = _event_of(line[max(0, line.rfind(FIRST)) :])
            _follows(event, events)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name}: line {number}: {describe_error(error)}") from error
        events.append(event)
    return events


def _event_of(line: bytes) -> dict[str, Any]:
    """Parse one event; only the time of kinds from later versions is checked. Raises ValueError, RecursionError."""
    event = msgspec.json.decode(line)
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ValueError("no event")
    kind = event["event"]
    msgspec.convert(event, KINDS.get(kind, LINE))
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
        raise ValueError(f"t_ns {event['t_ns']} is earlier than in the line before")
    copied_s = event.get("copied_s", 0.0) if event["event"] == Event.EPOCH_TRAINED else 0.0
    starts = [other["t_ns"] for other in before[-2:] if other["event"] != Event.WINDOW_STARTED]  # in an epoch, too
    if copied_s and (not starts or copied_s > (event["t_ns"] - starts[-1]) / 1e9):
        raise ValueError("copies took longer than the epoch")
    if event["event"] == Event.WINDOW_ENDED:
        begun = [other["t_ns"] for other in before if other["event"] == Event.WINDOW_STARTED]
        if not begun or begun[-1] >= event["t_ns"]:
            raise ValueError("the window ends before it began")
        edges = [begun[-1], *(edge for segment in event["segments"] for edge in segment), event["t_ns"]]
        if any(start >= end for start, end in event["segments"]) or edges != sorted(edges):
            raise ValueError("segments of the window that do not follow one another in it")
