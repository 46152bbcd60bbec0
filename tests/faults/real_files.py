"""Files as a run leaves them, to be mutated: real ones, and some that have everything in them."""

from __future__ import annotations

import json
import lzma
import sys
import tarfile
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from workloads.records.batch_answers import SCHEMA_VERSION, BatchAnswers
from workloads.records.columns import COLUMNS, DRIVER_COLUMNS
from workloads.records.events import Event
from workloads.records.files import RESULT_FILE, without_nan
from workloads.records.result import TrialResult
from workloads.records.stored import parse_result

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "reports" / "corpus"
PUBLISHED = ROOT / "published"
SECOND = 10**9
ROWS = 30  # in a table that is mutated: an error in one row is an error in any
sys.path.append(str(ROOT / "tests" / "reports"))
GPU = "GPU-8e0f2d6c-0000-1111-2222-333344445555"


def of_corpus(name: str) -> list[bytes]:
    """Read the real files of this name, of one small trial."""
    return [path.read_bytes() for path in sorted(CORPUS.glob(f"trials/*/{name}"))]


@cache
def published(room: str, name: str, most: int = 3) -> tuple[bytes, ...]:
    """Read the first files of this name in the last publication's archive."""
    packed = sorted(PUBLISHED.glob("*/results.tar.xz"))[-1]
    files: list[bytes] = []
    with lzma.open(packed) as opened, tarfile.open(fileobj=opened, mode="r|") as archive:
        for member in archive:
            parts = Path(member.name).parts
            if len(parts) == 4 and parts[1] == room and parts[3] == name and (file := archive.extractfile(member)):
                files.append(file.read())
                if len(files) == most:
                    break
    return tuple(files)


@cache
def probed() -> TrialResult:
    """Return a real result with evidence."""
    return next(result for result in map(parse_result, results()) if result.evidence)


@cache
def results() -> tuple[bytes, ...]:
    """Return real results."""
    return (*of_corpus(RESULT_FILE), *published("trials", RESULT_FILE, 1))


@cache
def sampled() -> bytes:
    """samples.csv of a trial on a GPU, ten times per second from 0 to 13 s, all columns."""
    rows = []
    for tick in range(1, 130):
        sums = {"cpu_s": tick / 10, "cores_cpu_s": tick / 5, "energy_mj": 7 * tick, "package_energy_uj": 5 * tick}
        values = dict.fromkeys(COLUMNS, tick % 7 + 1) | {"t_ns": tick * SECOND // 10, "foreign_processes": 0} | sums
        rows.append(",".join(str(values[name]) for name in COLUMNS))
    return "\r\n".join([",".join(COLUMNS), *rows, ""]).encode()


@cache
def drivers() -> bytes:
    """driver_samples.csv of the same trial."""
    rows = [f"{tick * SECOND // 6},{tick * 166_667},{tick % 100}" for tick in range(80)]
    return "\r\n".join([",".join(DRIVER_COLUMNS), *rows, ""]).encode()


@cache
def metered() -> bytes:
    """meter.json of the same trial: everything was answered except one call, which failed once."""
    names = ("gpu_percent", "power_mw", "energy_mj", "gpm", "driver_samples", "processes", "device_memory_bytes")
    metric: dict[str, Any] = {"source": "NVML call", "reason": None, "period_s": 0.2, "every_s": 0.1, "calls": 9}
    metric |= {"failures": 0, "first_failure": None, "missing": {}}
    failed = metric | {"failures": 1, "first_failure": {"t_ns": 5, "reason": "lost"}, "missing": {"power_mw": "none"}}
    metrics = {name: metric for name in names} | {"power_mw": failed}
    gpu = {"uuid": GPU, "reason": None, "remark": None, "graphics_processes": 1, "metrics": metrics}
    clocks = [{"monotonic_ns": 0, "epoch_ns": 10**18}, {"monotonic_ns": 13 * SECOND, "epoch_ns": 10**18 + 13 * SECOND}]
    packages = {"source": "RAPL", "reason": None, "calls": 9, "failures": 0, "first_failure": None}
    return json.dumps({"gpu": gpu, "package_energy": packages, "clocks": clocks, "sampler": None}).encode()


def lines(*events: tuple[Event, float, dict[str, Any]]) -> bytes:
    """events.jsonl of (event, s, its data)."""
    return b"".join(
        json.dumps({"event": event, "t_ns": int(t_s * SECOND), **data}).encode() + b"\n" for event, t_s, data in events
    )


@cache
def worked() -> bytes:
    """events.jsonl of a trial with all data that any trial has, its window from 7 to 12 s."""
    counted = {"proportional_bytes": 300, "data_bytes": 10, "resident_bytes": 10, "peak_resident_bytes": 20}
    settled = dict.fromkeys(("first_s", "second_s", "first_cpu_s", "second_cpu_s"), 0.1)
    trained = {
        "epoch": 0,
        "steps": 45,
        "images": 1437,
        "train_loss": 1.0,
        "first_losses": [2.3, None],
        "copied_s": 0.01,
    }
    ended = {"steps": 125, "images": 4000, "calls_s": [0.1] * 50, "diverged_step": None, "peak_resident_bytes": 30}
    ended |= {"page_faults": 250, "context_switches": 125}
    ended["segments"] = [[7 * SECOND, 9 * SECOND], [9 * SECOND, 12 * SECOND]]
    return lines(
        (Event.STARTED, 0, {}),
        (Event.IMPORTED, 1, {}),
        (Event.OPENED, 1.5, {"facts": {"framework_version": "1", "packages": {"a": "1"}}, "resident_bytes": 5}),
        (Event.CONTEXT_SAMPLED, 1.6, {}),
        (Event.LOADED, 1.7, {}),
        (Event.BUILT, 2, {}),
        (Event.FIRST_STEP, 3, {}),
        (Event.WARMED_UP, 4, {}),
        (Event.EPOCH_TRAINED, 6, trained),
        (Event.EPOCH_AUGMENTED, 6, {"epoch": 0, "augment_s": 0.2}),
        (Event.EPOCH_EVALUATED, 6.5, {"epoch": 0, "test_loss": 0.5, "test_accuracy": 0.9}),
        (Event.WINDOW_STARTED, 7, {"peak_resident_bytes": 40}),
        (Event.WINDOW_ENDED, 12, ended),
        (Event.FINISHED, 12.1, {}),
        (Event.WINDOW_SETTLED, 12.15, settled),
        (Event.HOST_COUNTED, 12.2, counted),
        (Event.ALLOCATOR_COUNTED, 12.3, {"counts": {"parameters": 8, "gradients": "inside", "allocator_peak": 9}}),
        (Event.END_PROBED, 12.4, {"asked_steps": 3, "idle_steps": 0}),
    )


@cache
def noisy() -> bytes:
    """events.jsonl of a noise job, and of a worker that ended otherwise."""
    held = {"progress": 0.1, "update": 4, "file": "held_0.npz", "sha256": "0" * 64, "train_loss": None, "finite": True}
    measured = {"progress": 0.5, "small_batch": 4, "large_batch": 8, "small": [[1.0, 2.0]] * 3, "large": [1.0, None, 2]}
    looked = {"update": 1, "small": [1.0, 2.0], "large": 1.0}
    memory = {"asked_bytes": 10, "available_bytes": None, "bound": "device"}
    ended = {"status": "out_of_memory", "reason": "it died", "memory": memory}
    return lines(
        (Event.STARTED, 0, {}),
        (Event.WEIGHTS_HELD, 1, held),
        (Event.FINDER_LOOKED, 2, looked),
        (Event.NOISE_MEASURED, 3, measured),
        (Event.ENDED, 4, ended),
    )


def answers() -> bytes:
    """batch-size.json, made up."""
    import stored as builder  # next to the tests of the reports

    frameworks = tuple(builder.answers(name, 64, 1000.0) for name in ("pytorch", "mxnet"))
    stored = BatchAnswers(SCHEMA_VERSION, builder.CONDITIONS, 64, frameworks)
    return json.dumps(without_nan(asdict(stored))).encode()


STABLE = {
    "schema_version": 1, "tolerated": 0.05, "limit": 9, "coverage_percent": {"2": [93, 95]},
    "cells": [{"framework": "pytorch", "batch_size": 4, "repeats": 3, "half_width": 0.01, "ended": "stable"}],
}  # fmt: skip
