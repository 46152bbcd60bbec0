"""Read when things happened in a trial: epochs and samples, in milliseconds since 1970, from its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE, METER_FILE, OTHER_SAMPLES_FILE, SAMPLES_FILE
from workloads.records.result import TrialResult
from workloads.records.samples import read_samples
from workloads.records.stored import read_meter, read_start
from workloads.records.stored_events import read_events

NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class EpochMoments:
    """Start of an epoch, end of its training and end of its evaluation, ms since 1970."""

    started: int
    trained: int
    evaluated: int


@dataclass(frozen=True)
class TrialMoments:
    """Moments of a trial, ms since 1970: start of the worker, end of its preparation, the epochs that ended."""

    started: int
    ready: int
    epochs: tuple[EpochMoments, ...]


@dataclass(frozen=True)
class SampleColumn:
    """Values that the sampler read: (row from 0, ms since 1970, value) of each. `gpu` is the index of its GPU."""

    name: str
    gpu: int
    readings: tuple[tuple[int, int, float], ...]


def find_life(result: TrialResult) -> tuple[int, int]:
    """Return start and end of a trial as its result reports them, ms since 1970."""
    start_ms = int(read_start(result).timestamp() * 1000)
    return start_ms, start_ms + round(result.wall_s * 1000)


def _read_offset(folder: Path) -> int:
    """Return the time since 1970 less that of the monotonic clock, ns. Raises ValueError if it is not stored."""
    clocks = read_meter(folder / METER_FILE).get("clocks")
    if not clocks:
        raise ValueError(f"{METER_FILE} does not say when the trial ran")
    return int(clocks[0]["epoch_ns"] - clocks[0]["monotonic_ns"])


def read_moments(folder: Path) -> TrialMoments:
    """Read the moments of the last worker in a trial's folder.

    The first epoch starts when the model is built, since it includes the first steps. Raises ValueError, one line, for
    files that cannot be read, and for a worker that built nothing.
    """
    offset = _read_offset(folder)
    started = ready = trained = 0
    begun, epochs = 0, list[EpochMoments]()
    for event in read_events(folder / EVENTS_FILE):
        at = (event["t_ns"] + offset) // NS_PER_MS
        match event["event"]:
            case Event.STARTED:
                started, ready, epochs = at, 0, []
            case Event.BUILT:
                ready = begun = at
            case Event.EPOCH_TRAINED:
                trained = at
            case Event.EPOCH_EVALUATED:
                epochs.append(EpochMoments(begun, trained, at))
                begun = at
    if not ready:
        raise ValueError(f"{EVENTS_FILE} has no trained model")
    return TrialMoments(started, ready, tuple(epochs))


def read_columns(folder: Path, other_gpus: int) -> Iterator[SampleColumn]:
    """Yield each column of the raw samples that has a value; those of further GPUs behind the first.

    Raises ValueError, one line, for files that cannot be read.
    """
    offset = _read_offset(folder)
    names = [SAMPLES_FILE, *(OTHER_SAMPLES_FILE.format(number) for number in range(1, other_gpus + 1))]
    for gpu, name in enumerate(names):
        samples = read_samples(folder / name)
        times = samples.pop("t_ns")
        for column, values in samples.items():
            rows = np.flatnonzero(~np.isnan(values))
            if len(rows):
                known = ((int(row), int(times[row] + offset) // NS_PER_MS, float(values[row])) for row in rows)
                yield SampleColumn(column, gpu, tuple(known))
