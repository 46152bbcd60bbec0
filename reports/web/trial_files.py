"""Prepare a trial's raw files for the page: its samples, thinned to a small chart, and its log, cut in the middle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE, LOG_FILE, SAMPLES_FILE
from workloads.records.samples import SteadyWindow, read_samples
from workloads.records.stored_events import read_events

from .columns import rounded

DIGITS = 4
POINTS = 160
MOST_BYTES = 20_000  # of a log
SEVERAL = 2  # so few rows do not make a curve


@dataclass(frozen=True)
class Track:
    """A curve: the sampler's column, and how points are computed: growth of a running sum, highest value, or mean."""

    column: str
    label: str
    unit: str
    factor: float
    how: Literal["rate", "highest", "mean"]


TRACKS = (
    Track("cpu_s", "CPU usage, % of the cores allotted", "%", 100, "rate"),
    Track("gpu_percent", "GPU usage, %", "%", 1, "mean"),
    Track("host_memory_bytes", "Host memory, MiB", "MiB", 1 / 2**20, "highest"),
    Track("process_memory_bytes", "GPU memory of the process, MiB", "MiB", 1 / 2**20, "highest"),
    Track("power_mw", "GPU power, W", "W", 1 / 1000, "mean"),
)


def samples(folder: Path, threads: int, points: int = POINTS) -> dict[str, Any] | None:
    """Read the curves of samples.csv, at most `points` each, evenly in time; None if there is nothing to draw.

    Returns {"from": s, "step": s, "window": [s, s] | None, "tracks": {index in TRACKS: values}}. Times are since the
    worker's start; `threads` cores are 100 % of the CPU. Returns {"reason": words} for a file that cannot be read.
    """
    try:
        read = read_samples(folder / SAMPLES_FILE, ("t_ns", *(track.column for track in TRACKS)))
        events = {event["event"]: event for event in read_events(folder / EVENTS_FILE)}
    except ValueError as error:
        return {"reason": f"its curves cannot be read: {error}"}
    times = read["t_ns"]
    if len(times) <= SEVERAL or not times[-1] > times[0]:
        return None
    start = events[Event.STARTED]["t_ns"] if Event.STARTED in events else times[0]
    seconds = (times - start) / 1e9
    edges = np.linspace(seconds[0], seconds[-1], min(points, len(times) - 1) + 1)
    tracks = {}
    for place, track in enumerate(TRACKS):
        values = _binned(seconds, read[track.column], edges, track.how) * track.factor
        if track.how == "rate":
            values /= threads
        if np.isfinite(values).any():
            tracks[place] = [rounded(value, DIGITS) for value in values.tolist()]
    window = SteadyWindow.of(events)
    return {
        "from": rounded(float(edges[0]), DIGITS),
        "step": rounded(float(edges[1] - edges[0]), DIGITS),
        "window": window and [round((edge - start) / 1e9, 2) for edge in window.edges],
        "tracks": tracks,
    }


def _binned(
    times: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64], how: str
) -> NDArray[np.float64]:
    """Compute one value between each two `edges`; NaN where there was no reading."""
    known = np.isfinite(values)
    times, values = times[known], values[known]
    if how == "rate" and len(values):
        return np.diff(np.interp(edges, times, values, left=np.nan, right=np.nan)) / np.diff(edges)
    binned = np.full(len(edges) - 1, np.nan)
    bins = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(binned) - 1)
    first = np.flatnonzero(np.diff(bins, prepend=-1))  # of each bin that has a reading
    if len(first):
        reduced = (np.maximum if how == "highest" else np.add).reduceat(values, first)
        counts = np.diff(first, append=len(bins)) if how == "mean" else 1
        binned[bins[first]] = reduced / counts
    return binned


def log(folder: Path, most_bytes: int = MOST_BYTES) -> str | None:
    """Read log.txt; its middle is left out if it is longer than `most_bytes`. None if there is no such file."""
    half = most_bytes // 2
    try:
        with (folder / LOG_FILE).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            head = file.read(most_bytes if size <= most_bytes else half).decode("utf-8", "replace")
            file.seek(max(file.tell(), size - half))
            tail = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"[{LOG_FILE} cannot be read: {error.strerror}]"
    if not tail:
        return head
    return f"{head}\n\n[... {size - 2 * half:,} of {size:,} bytes are left out here; {LOG_FILE} has them ...]\n\n{tail}"
