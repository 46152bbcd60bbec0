"""The files of a trial's folder, and JSON written so that a reader never sees half of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

JOB_FILE = "job.json"
TRIAL_FILE = "trial.json"  # in its place up to schema version 3: the trial alone
EVENTS_FILE = "events.jsonl"
SAMPLES_FILE = "samples.csv"
DRIVER_SAMPLES_FILE = "driver_samples.csv"
METER_FILE = "meter.json"
LOG_FILE = "log.txt"
SAMPLER_FILE = "sampler.pid"  # of a worker that measures what the sampler costs
RESULT_FILE = "result.json"


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Atomically: a reader sees the old file or the whole new one. JSON has no NaN or infinity: they become null."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(without_nan(data), file, indent=1, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def without_nan(value: Any) -> Any:
    """The same data with None for every NaN and infinity."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and value - value != 0:  # NaN and the infinities
        return None
    return value
