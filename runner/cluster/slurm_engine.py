"""Blocks as jobs of Slurm, by submitit. Code, inputs and the way back are the file system that its machines share."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.helpers import clean_env

from runner.cluster import node
from runner.cluster.block import Block
from runner.cluster.engine import Over, Wanted
from runner.cluster.ship import Damaged, Parcel
from runner.cluster.slurm_partition import SLURM, here, in_a_line, told_of
from runner.project import Project
from runner.storage import CannotGoOn
from runner.stored import TRIALS
from workloads.records.files import ATTEMPTS, RESULT_FILE, sync
from workloads.records.job import InputFile
from workloads.records.stored import result_of

CLUSTER = SLURM  # of submitit's; "local", processes of this machine, is the tests'
JOBS = "jobs"  # of a results folder: what jobs are given, and what they leave there
PARCELS = "*.parcel"
MAKING_S = 3600  # for environments and inputs, beside a block's trials
LOOK_S, ASK_S = 1.0, 15.0  # between looks at the shared folder, and questions to Slurm
LATE_S = 120.0  # until what a job has written on its machine is seen here: NFS tells of new files a minute late
UNDER_WAY = {
    "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "STAGE_OUT", "SIGNALING", "RESIZING",
    "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD",
}  # fmt: skip
Answer = tuple[int, str | None]  # of a job: parcels that it left, and what ended it, None where that was its own end


@dataclass
class Running:
    """A block and its job; `folder` is where its parcels come to lie."""

    block: Block
    job: submitit.Job[Answer]
    folder: Path
    expected: int  # parcels of the job's own
    arrived: int  # of those; below 0 while parcels of an earlier job are still to come
    ended_s: float | None = None  # when this was first seen


class SlurmEngine:
    """One driver's. What the jobs of a killed one left arrives first; those that still run are ended."""

    def __init__(self, partition: str, project: Project, results: Path, wanted: Wanted) -> None:
        """Raises EngineUnavailable."""
        self.partition, self.project, self.results, self.wanted = partition, project, results.resolve(), wanted
        self.told = told_of(partition, wanted) if CLUSTER == SLURM else here(wanted)
        jobs = self.results / JOBS / ("cuda" if wanted.gpus else "cpu")  # a run on each may share a results folder
        self.name = f"batchwise-{uuid.uuid5(uuid.NAMESPACE_URL, str(jobs)).hex[:12]}"  # the same for this folder
        self._end_all()
        self.kept = {trial_of(path): path for path in sorted(jobs.glob(f"*/*/{PARCELS}")) if self._is_new(path)}
        clear(jobs)
        self.folder = jobs / uuid.uuid4().hex
        self.folder.mkdir(parents=True)
        self.waiting: deque[Block] = deque()
        self.running: list[Running] = []
        self.taken: Path | None = None
        self.states: dict[str, str] = {}
        self.asked_s = 0.0

    def _is_new(self, path: Path) -> bool:
        """Whether this parcel of an earlier driver was not stored by it; one that was is removed."""
        trial, began = trial_of(path), None
        with suppress(Damaged, OSError):
            began = Parcel.from_bytes(path.read_bytes()).told().started_at
        known = [self.results / TRIALS / trial, *(self.results / ATTEMPTS).glob(f"{glob.escape(trial)}-*")]
        if began and any(began_at(folder / RESULT_FILE) == began for folder in known):
            path.unlink()
            return False
        return began is not None

    def slots(self) -> int:
        """Of the partition's nodes."""
        return self.told.slots

    def submit(self, block: Block) -> None:
        """As a job with the block's name for a comment, as soon as Slurm takes one more. Raises CannotGoOn where it
        takes none, OSError.
        """
        self.waiting.append(block)
        self._begin()

    def _begin(self) -> None:
        while self.waiting:
            try:
                self._begin_one(self.waiting[0])
            except (FailedSubmissionError, FailedJobError, subprocess.CalledProcessError) as error:
                if not self.running:
                    raise CannotGoOn(f"--slurm {self.partition}: no job is taken: {in_a_line(error)}") from error
                return  # a limit of jobs: again when one has ended
            self.waiting.popleft()

    def _begin_one(self, block: Block) -> None:
        folder = self.folder / uuid.uuid4().hex
        executor = submitit.AutoExecutor(folder=folder / "job", cluster=CLUSTER)
        threads, gpus = self.wanted.threads, self.wanted.gpus
        limit_s = MAKING_S + sum(spec.timeout_s + spec.cool_down_s for spec in block.trials)
        executor.update_parameters(
            name=self.name,
            cpus_per_task=threads,
            **({"gpus_per_node": gpus} if gpus else {}),
            timeout_min=min(int(limit_s / 60) + 1, self.told.limit_min or sys.maxsize),
            slurm_partition=self.partition,
            slurm_comment=block.name,
            slurm_srun_args=[f"--cpus-per-task={threads}"],  # srun does not take it over from sbatch (Slurm 22.05)
            slurm_additional_parameters={"no-requeue": True},  # what is lost is handed out again from here
        )
        kept = [spec.id for spec in block.trials if spec.id in self.kept]
        try:
            with clean_env(), importable(self.project.root):
                job = executor.submit(run_block, block.to_json(), set(kept), self.project.root, self.results, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        for name in kept:
            path = self.kept.pop(name)
            path.rename(folder / path.name)
        expected = len(block.trials) - len(kept)
        self.running.append(Running(block, job, folder, expected, arrived=-len(kept)))

    def arrival(self) -> tuple[Block, Parcel | Over]:
        """Blocks until there is one. What it gave before is stored by now."""
        if self.taken:
            self.taken.unlink(missing_ok=True)
        while True:
            self._ask()
            for each in self.running:
                over = self._over(each)  # first: what it left before its end is looked for then
                for path in sorted(each.folder.glob(PARCELS)):
                    self.taken = path
                    each.arrived += 1
                    try:
                        return each.block, Parcel.from_bytes(path.read_bytes())
                    except Damaged:
                        path.unlink()
                if over and (end := self._whole(each)):
                    self.running.remove(each)
                    self._begin()
                    return each.block, end
            time.sleep(LOOK_S)

    def _ask(self) -> None:
        """Slurm for the states of all jobs, if it is time to; where it does not answer, they stay as they were."""
        if CLUSTER != SLURM or time.monotonic() - self.asked_s < ASK_S:
            return
        self.asked_s = time.monotonic()
        command = ["squeue", "--noheader", "--me", "--name", self.name, "--states", "all", "--format", "%i %T"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            told = dict(line.split() for line in done.stdout.splitlines() if line.strip())
            self.states = {each.job.job_id: told.get(each.job.job_id, "gone") for each in self.running}

    def _over(self, running: Running) -> bool:
        job = running.job
        if job.paths.result_pickle.exists():
            return True
        if CLUSTER != SLURM:
            return job.done()
        return self.states.get(job.job_id, "PENDING") not in UNDER_WAY

    def _whole(self, running: Running) -> Over | None:
        """None where more may be seen of a job that has ended."""
        running.ended_s = running.ended_s or time.monotonic()
        late = CLUSTER != SLURM or time.monotonic() - running.ended_s > LATE_S
        job, left = running.job, running.expected
        if job.paths.result_pickle.exists():
            try:
                left, reason = job.result()
            except FailedJobError as error:  # before `run_block` began
                reason = f"its job {job.job_id}: {in_a_line(error)}"
        else:
            reason = f"its job {job.job_id} ended without a word ({self.states.get(job.job_id, 'INTERRUPTED')})"
        return Over(reason) if late or running.arrived >= left else None

    def close(self) -> None:
        """Ends whatever still runs. What of it is not stored, or not seen here yet, stays for the next driver."""
        self._end_all()
        for each in self.running if CLUSTER != SLURM else ():
            each.job.cancel(check=False)
        if not self.running and not any(self.folder.glob(f"*/{PARCELS}")):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _end_all(self) -> None:
        """The jobs of this results folder, at once."""
        if CLUSTER == SLURM:
            subprocess.run(["scancel", "--me", "--name", self.name], capture_output=True, check=False)


def clear(jobs: Path) -> None:
    """Remove folders of earlier drivers without a parcel, in which nothing can appear any more."""
    for folder in jobs.glob("*"):
        with suppress(OSError):
            changed_s = max(path.stat().st_mtime for path in (folder, *folder.glob("*")))
            if not any(folder.glob(f"*/{PARCELS}")) and time.time() - changed_s > MAKING_S:
                shutil.rmtree(folder)


def began_at(path: Path) -> str | None:
    """When this result's trial was begun, if it can be read."""
    with suppress(OSError, ValueError):
        return result_of(path.read_bytes()).started_at
    return None


def trial_of(path: Path) -> str:
    """Of which this is a parcel."""
    return path.name.partition("=")[0]


@contextmanager
def importable(root: Path) -> Iterator[None]:
    """A job has this process's environment, and finds the project in it."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(root)
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def run_block(block: dict[str, Any], done: set[str], root: Path, results: Path, folder: Path) -> Answer:
    """On a node: its trials but for those that are done, left in `folder` one by one."""
    whole, left = Block.from_json(block), 0
    wanted = replace(whole, trials=tuple(spec for spec in whole.trials if spec.id not in done))

    def fetch(file: InputFile) -> bytes:
        return (results / file.path).read_bytes()

    try:
        for parcel in node.run(wanted, root, fetch) if wanted.trials else ():
            leave(parcel, folder)
            left += 1
    except node.BlockFailed as error:
        return left, in_a_line(error)
    except Exception as error:  # noqa: BLE001  # whatever it is, the driver is told in a line
        return left, f"{type(error).__name__}: {in_a_line(error)}"
    return left, None


def leave(parcel: Parcel, folder: Path) -> None:
    """Whole, or not at all. Raises OSError."""
    temporary = folder / f"{uuid.uuid4().hex}.part"
    temporary.write_bytes(parcel.to_bytes())
    sync(temporary)
    temporary.rename(folder / f"{parcel.trial}={temporary.stem}.parcel")
    sync(folder)
