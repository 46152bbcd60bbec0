"""Blocks as jobs of Slurm, by submitit. Code, inputs and the way back are the file system that its machines share."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError

from runner.cluster import node
from runner.cluster.block import Block
from runner.cluster.engine import EngineUnavailable, Over, Wanted
from runner.cluster.ship import Damaged, Parcel
from runner.project import Project
from runner.storage import CannotGoOn
from runner.stored import TRIALS
from workloads.records.files import ATTEMPTS, RESULT_FILE, sync
from workloads.records.job import InputFile
from workloads.records.stored import result_of

SLURM = "slurm"
CLUSTER = SLURM  # of submitit's; "local", processes of this machine, is the tests'
JOBS = "jobs"  # of a results folder: what jobs are given, and what they leave there
PARCELS = "*.parcel"
MAKING_S = 3600  # for environments and inputs, beside a block's trials
LOOK_S, ASK_S = 1.0, 15.0  # between looks at the shared folder, and questions to Slurm
LATE_S = 120.0  # until what a job has written on its machine is seen here: NFS tells of new files a minute late
WORDS = 200  # characters of a reason that is Slurm's
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
    arrived: int = 0  # parcels
    ended_s: float | None = None  # when this was first seen


class SlurmEngine:
    """One driver's. What the jobs of a killed one left arrives first; those that still run are ended."""

    def __init__(self, partition: str, project: Project, results: Path, wanted: Wanted) -> None:
        """Raises EngineUnavailable."""
        self.partition, self.project, self.results = partition, project, results.resolve()
        self.threads, self.gpus = wanted.threads, wanted.gpus
        self.cores = cores_of(partition)
        if self.cores < self.threads:
            raise EngineUnavailable(
                f"--slurm {partition}: {self.cores} CPUs for {self.threads} threads: give --threads"
            )
        jobs = self.results / JOBS
        self.name = f"batchwise-{uuid.uuid5(uuid.NAMESPACE_URL, str(jobs)).hex[:12]}"  # the same for this folder
        self._end_all()
        self.kept = {trial_of(path): path for path in sorted(jobs.glob(f"*/*/{PARCELS}")) if self._is_new(path)}
        self.folder = jobs / uuid.uuid4().hex
        self.folder.mkdir(parents=True)
        self.running: list[Running] = []
        self.taken: Path | None = None
        self.states: dict[str, str] = {}
        self.asked_s = 0.0

    def _is_new(self, path: Path) -> bool:
        """Whether this parcel of an earlier driver was not stored by it; one that was is removed."""
        trial, began = trial_of(path), None
        with suppress(Damaged):
            began = Parcel.from_bytes(path.read_bytes()).told().started_at
        known = [self.results / TRIALS / trial, *(self.results / ATTEMPTS).glob(f"{glob.escape(trial)}-*")]
        if began and any(began_at(folder / RESULT_FILE) == began for folder in known):
            path.unlink()
            return False
        return began is not None

    def slots(self) -> int:
        """Blocks that the partition has CPUs for."""
        return self.cores // self.threads

    def submit(self, block: Block) -> None:
        """As a job with the block's name for a comment. Raises CannotGoOn where no more are taken, OSError."""
        folder = self.folder / uuid.uuid4().hex
        folder.mkdir()
        kept = [self.kept.pop(spec.id) for spec in block.trials if spec.id in self.kept]
        for path in kept:
            path.rename(folder / path.name)
        executor = submitit.AutoExecutor(folder=folder / "job", cluster=CLUSTER)
        limit_s = MAKING_S + sum(spec.timeout_s + spec.cool_down_s for spec in block.trials)
        executor.update_parameters(
            name=self.name,
            cpus_per_task=self.threads,
            **({"gpus_per_node": self.gpus} if self.gpus else {}),
            timeout_min=int(limit_s / 60) + 1,
            slurm_partition=self.partition,
            slurm_comment=block.name,
            slurm_additional_parameters={"no-requeue": True},  # what is lost is handed out again from here
        )
        done = set(map(trial_of, kept))
        try:
            with importable(self.project.root):
                job = executor.submit(run_block, block.to_json(), done, self.project.root, self.results, folder)
        except (FailedSubmissionError, subprocess.CalledProcessError) as error:
            raise CannotGoOn(f"--slurm {self.partition}: no more jobs are taken: {in_a_line(error)}") from error
        self.running.append(Running(block, job, folder, arrived=-len(kept)))

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
        late = time.monotonic() - running.ended_s > LATE_S
        job = running.job
        if not job.paths.result_pickle.exists():
            known = CLUSTER != SLURM or self.states.get(job.job_id) not in (None, "COMPLETED", "gone")
            state = self.states.get(job.job_id, "INTERRUPTED")
            return Over(f"its job {job.job_id} ended without a word ({state})") if known or late else None
        try:
            left, reason = job.result()
        except FailedJobError as error:
            return Over(f"its job {job.job_id}: {in_a_line(error)}")
        return Over(reason) if late or running.arrived >= left else None

    def close(self) -> None:
        """Ends whatever still runs. What of it is not stored stays for the next driver."""
        for each in self.running:
            each.job.cancel(check=False)
        for folder in self.folder.parent.iterdir():
            if not any(folder.glob(f"*/{PARCELS}")):
                shutil.rmtree(folder, ignore_errors=True)

    def _end_all(self) -> None:
        """The jobs of this results folder."""
        if CLUSTER == SLURM:
            subprocess.run(["scancel", "--me", "--name", self.name], capture_output=True, check=False)


def began_at(path: Path) -> str | None:
    """When this result's trial was begun, if it can be read."""
    with suppress(OSError, ValueError):
        return result_of(path.read_bytes()).started_at
    return None


def trial_of(path: Path) -> str:
    """Of which this is a parcel."""
    return path.name.partition("=")[0]


def cores_of(partition: str) -> int:
    """CPUs of its nodes. Raises EngineUnavailable."""
    if CLUSTER != SLURM:
        return len(os.sched_getaffinity(0))
    command = ["sinfo", "--noheader", "--partition", partition, "--format", "%C"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except OSError as error:
        raise EngineUnavailable(f"--slurm {partition}: no Slurm here: {error.filename}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        raise EngineUnavailable(f"--slurm {partition}: sinfo: {in_a_line(error.stderr)}") from error
    if not told.strip():
        raise EngineUnavailable(f"--slurm {partition}: Slurm knows no such partition; sinfo lists them")
    return int(told.split()[0].split("/")[-1])  # allocated/idle/other/total


def in_a_line(said: object) -> str:
    """The first that is more than white space."""
    lines = (line.strip() for line in str(said).splitlines())
    return next((line[:WORDS] for line in lines if line), type(said).__name__)


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
    except (node.BlockFailed, OSError) as error:
        return left, in_a_line(error)
    return left, None


def leave(parcel: Parcel, folder: Path) -> None:
    """Whole, or not at all. Raises OSError."""
    temporary = folder / f"{uuid.uuid4().hex}.part"
    temporary.write_bytes(parcel.to_bytes())
    sync(temporary)
    temporary.rename(folder / f"{parcel.trial}={temporary.stem}.parcel")
    sync(folder)
