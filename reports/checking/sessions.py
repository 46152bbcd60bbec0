"""Compare the trials of one session: they had one machine, one at a time, and the same seed gives the same first loss.

A session is known by the boot of its machine: the epoch at which the monotonic clock, which all times are of, was 0.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from workloads.conditions import read_gpu
from workloads.networks import find_trained
from workloads.records.build import FLOAT32
from workloads.records.files import ATTEMPTS, METER_FILE, attempt_number, attempts_by_id
from workloads.records.job import ANY_GPU
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored import read_meter, read_start

from ..attempts import read
from ..load import TRIALS, Stored
from .recompute_attempt import was_put_back

SAME_BOOT_S = 2.0  # in each of ten publications, days long, all trials agree on it to 1 s
OVERLAP_S = 3.0  # starts are stored in whole seconds: in 897 trials up to 0.7 s
# Of the hardware: images of several frameworks on one machine have their own system, Python and share of it. A virtual
# machine may change its bytes of memory at any time.
FACTS = ("cpu_model", "cpu_flags")
FIRST_LOSS = 1e-4  # relative: of 1,065 pairs of frameworks in ten publications at most 9e-7
FIRST_INPUTS = ("train_images", "train_labels", "order", "weights", "network")


@dataclass(frozen=True)
class _Ran:
    result: TrialResult
    folder: Path
    booted_s: float  # since the epoch


def compare_sessions(stored: Stored, shown: Sequence[tuple[TrialResult, Path]]) -> list[str]:
    """List trials that cannot have run in the session that they were stored with."""
    return [*_machines(shown), *_first_losses(shown), *_numbers(stored)]


def _machines(shown: Sequence[tuple[TrialResult, Path]]) -> Iterator[str]:
    """Yield trials that ran at the same time on one device, and facts of a machine that changed without a boot."""
    for session in _sessions(shown):
        for name in FACTS:
            told = defaultdict(list)
            for ran in session:
                told[json.dumps(ran.result.machine.get(name), sort_keys=True)].append(ran)
            if len(told) > 1:
                few = min(told.values(), key=len)
                yield f"{few[0].folder}: machine: {name} differs from the other trials of its session"
        by_device = defaultdict(list)
        for ran in session:
            device = str(read_gpu(ran.result).get("uuid", ran.result.spec.placement.device))  # a sweep's names no GPU
            if device not in ("cpu", ANY_GPU):  # a cluster's trials share a processor, on cores of their own
                by_device[device].append(ran)
        for each in by_device.values():
            for before, after in pairwise(sorted(each, key=lambda ran: read_start(ran.result))):
                gap_s = (read_start(after.result) - read_start(before.result)).total_seconds() - before.result.wall_s
                if gap_s < -OVERLAP_S:
                    yield f"{after.folder}: started {-gap_s:.0f} s before {before.folder.name} ended, on one device"


def _sessions(shown: Sequence[tuple[TrialResult, Path]]) -> Iterator[list[_Ran]]:
    """Yield the trials of each boot; those whose sampler left no clocks belong to none."""
    every = []
    for result, folder in shown:
        try:
            clocks = read_meter(folder / METER_FILE).get("clocks", [])
        except ValueError:
            continue  # the check of this trial says so
        if clocks:
            every.append(_Ran(result, folder, (clocks[0]["epoch_ns"] - clocks[0]["monotonic_ns"]) / 1e9))
    every.sort(key=lambda ran: (str(ran.result.machine.get("node")), ran.booted_s))
    session: list[_Ran] = []
    for ran in every:
        if session and not _is_same_boot(session[-1], ran):
            yield session
            session = []
        session.append(ran)
    if session:
        yield session


def _is_same_boot(one: _Ran, other: _Ran) -> bool:
    """True for trials of one node of a cluster, or of a machine without a name, that were booted at the same time."""
    nodes = {ran.result.machine.get("node") for ran in (one, other)}
    return len(nodes) == 1 and abs(other.booted_s - one.booted_s) <= SAME_BOOT_S


def _first_losses(shown: Sequence[tuple[TrialResult, Path]]) -> Iterator[str]:
    """Yield trials whose first loss is another than that of most trials with the same weights and images."""
    alike = defaultdict(list)
    for result, folder in shown:
        spec, first = result.spec, next(iter(result.first_losses), None)
        if result.status is not Status.OK or spec.task.precision != FLOAT32 or spec.task.own_code or first is None:
            continue
        workload = find_trained(spec, folder.parent.parent)
        if workload is None or workload.draws or spec.task.augment != "none":
            continue
        digests = tuple(spec.inputs[name].sha256 if name in spec.inputs else "" for name in FIRST_INPUTS)
        # BatchNorm's statistics are of a part, or of a device's share, of a batch.
        parts = spec.task.accumulate, spec.placement.devices
        alike[spec.global_batch, *parts, spec.task.initial, digests].append((first, folder))
    for losses in alike.values():
        middle = sorted(loss for loss, _ in losses)[len(losses) // 2]
        for loss, folder in losses:
            if not math.isclose(loss, middle, rel_tol=FIRST_LOSS):
                yield f"{folder}: first_losses: begins with {loss:.9g}, other trials of its seed with {middle:.9g}"


def _numbers(stored: Stored) -> Iterator[str]:
    """Yield trials of which an earlier attempt is missing: the folders' numbers begin at 1 and leave out none, except
    those of disturbed attempts that were put back.
    """
    results = {folder.parent.parent for folder in stored.folders}
    for room in sorted(folder / ATTEMPTS for folder in results):
        for name, folders in attempts_by_id(room).items():
            tried = {attempt_number(folder): folder for folder in folders}
            shown = room.parent / TRIALS / name
            missing = [number for number in range(1, max(tried)) if number not in tried]
            if not all(_was_freed(number, tried, shown) for number in missing):
                yield f"{room}: {name}: attempts {', '.join(map(str, tried))}: an attempt is missing"


def _was_freed(number: int, tried: Mapping[int, Path], shown: Path) -> bool:
    """True if the disturbed attempt of this number was put back: the next one measured nothing, and a later one is
    disturbed and started before it.
    """
    following = read(tried[number + 1]).result if number + 1 in tried else None
    later = [read(folder).result for folder in (*(tried[other] for other in tried if other > number + 1), shown)]
    return following is not None and any(each is not None and was_put_back(following, each) for each in later)
