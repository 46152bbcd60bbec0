"""Estimate the duration of a trial: a guess from its work, corrected by the trials of this machine.

Few results are read for it, whatever the results folders hold.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.machine.description import name_computer
from runner.storage import TRIALS, read_trials
from workloads import networks
from workloads.activations import activation_bytes
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.spec import SLOTS, Workload

# Guesses before anything is measured. On two cores osu-cnn's 27 MFLOP per image run at 2,000 to 5,000 images/s. The 41
# million parameters of cats-dogs-cnn under Adam move 1.6 GB per step, which took 0.3 to 0.8 s.
FLOPS_PER_CORE, GPU_FLOPS = 40e9, 5e12
CPU_BYTES_PER_S, GPU_BYTES_PER_S = 6e9, 400e9
STEP_S, START_S = 0.001, 5.0
FLOAT_BYTES = 4
# Per trained value: read forward and backward, its gradient written; then gradient and value read, the value written;
# and each value of optimizer state is read and written.
BATCH_PASSES, UPDATE_PASSES, SLOT_PASSES = 3, 3, 2
KEPT_PASSES = 5  # for values kept between forward and backward: written, read twice; gradient written and read
LIMIT_TIMES = 5.0  # times the estimate: the guess is good to a factor of 2 or 3
# Results that are read, the newest ones: of the folder in use, and of other folders. A result takes 4 to 8 ms.
MOST_OWN, MOST_FOLDERS, MOST_OF_FOLDER = 30, 10, 3


@dataclass(frozen=True)
class Pace:
    """Ratio of a stored trial's time to its guess."""

    memory_id: str  # the same for all that differ only in the batch size
    framework: str
    device_kind: str
    workload: str
    times: float


class Paces:
    """The paces of stored trials."""

    def __init__(self, paces: Iterable[Pace] = ()) -> None:
        self.paces = tuple(paces)

    def times(self, spec: TrialSpec) -> float:
        """Return the geometric mean of the most similar trials; 1 if there are none on this kind of device."""
        usual = [each for each in self.paces if each.device_kind == spec.placement.device_kind]
        column = [each for each in usual if each.framework == spec.cell.framework]
        alike = (
            [each.times for each in column if each.memory_id == spec.memory_id],
            [each.times for each in column if each.workload == spec.task.workload],
            [each.times for each in column],
            [each.times for each in usual],
        )
        nearest = next(filter(None, alike), [1.0])
        return math.exp(sum(map(math.log, nearest)) / len(nearest))


def find_results_folders(below: Path) -> list[Path]:
    """Folders with trials, at most two levels below."""
    return [room.parent for pattern in ("*", "*/*") for room in below.glob(f"{pattern}/{TRIALS}")]


def read_paces(results: Path, others: Iterable[Path], computers: Collection[str | None]) -> Paces:
    """Return the paces of the newest trials in `results`, and of those in the newest other folders that ran on these
    computers.
    """
    paces = [compute_pace(each, results) for each in read_trials(results, MOST_OWN).results.values()]
    for folder in _newest(others, results):
        try:
            found = read_trials(folder, MOST_OF_FOLDER).results.values()
        except OSError:  # not readable, or gone by now
            continue
        ran_here = (each for each in found if name_computer(each.machine) in {*computers} - {None})
        paces += [compute_pace(each, folder) for each in ran_here]
    return Paces(filter(None, paces))


def _newest(folders: Iterable[Path], results: Path) -> list[Path]:
    """Return those of these folders, without `results`, in which a trial was started last."""
    begun = {}
    for folder in folders:
        try:
            if folder.resolve() != results.resolve():
                begun[folder] = (folder / TRIALS).stat().st_mtime_ns
        except OSError:
            continue
    return sorted(begun, key=lambda folder: begun[folder], reverse=True)[:MOST_FOLDERS]


def is_whole(result: TrialResult) -> bool:
    """True if the trial was trained to its end, so that its time helps to estimate others."""
    return result.status == Status.OK or 0 < result.spec.passes.epochs == len(result.epochs)


def compute_pace(result: TrialResult, results: Path) -> Pace | None:
    """Return the pace of a stored trial; None if it did not come to its end, or its network is gone."""
    spec, workload = result.spec, networks.find_trained(result.spec, results)
    images = sum(epoch.images for epoch in result.epochs)
    if workload is None or not images or result.wall_s <= 0 or not is_whole(result):
        return None
    times = result.wall_s / guess_s(spec, workload, images)
    return Pace(spec.memory_id, spec.cell.framework, spec.placement.device_kind, spec.task.workload, times)


def estimate_s(
    spec: TrialSpec,
    workload: Workload,
    train_count: int,
    measured: Sequence[TrialResult],
    paces: Paces | None = None,
) -> float:
    """Return the seconds the trial may take: those of the same cell before, else a guess corrected by similar ones."""
    for result in measured:
        if result.spec.setting == spec.setting:
            return result.wall_s + spec.cool_down_s
    times = (paces or Paces()).times(spec)
    return times * guess_s(spec, workload, train_count * spec.passes.epochs) + spec.cool_down_s


def guess_s(spec: TrialSpec, workload: Workload, images: int) -> float:
    """Return seconds for training on this many images in all: arithmetic or memory, whichever takes longer."""
    batches = images / spec.cell.batch_size
    updates = batches / (spec.task.accumulate * spec.placement.devices)
    update_passes = UPDATE_PASSES + SLOT_PASSES * SLOTS[spec.task.optimizer.name]
    trained_bytes = FLOAT_BYTES * workload.parameter_count
    moved = trained_bytes * (BATCH_PASSES * batches + update_passes * updates)
    moved += KEPT_PASSES * activation_bytes(workload, 1) * images
    cpu = spec.placement.device == "cpu"
    flops = FLOPS_PER_CORE * spec.placement.threads if cpu else GPU_FLOPS
    bandwidth = CPU_BYTES_PER_S if cpu else GPU_BYTES_PER_S
    training_s = max(workload.step_flop * images / flops, moved / bandwidth)
    return START_S + training_s + batches * STEP_S + spec.window_s


def limit_s(spec: TrialSpec, workload: Workload, train_count: int, least_s: float, paces: Paces | None = None) -> float:
    """Return the time limit of a trial without one: LIMIT_TIMES its estimate, at least `least_s`.

    Slower paces raise it; faster ones do not lower it.
    """
    longest_s = max(estimate_s(spec, workload, train_count, [], each) for each in (None, paces))
    return max(least_s, math.ceil(LIMIT_TIMES * longest_s))
