"""Blocks as jobs of Slurm, by submitit. Code, inputs and the way back are the file system that its machines share."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError, UncompletedJobError

from runner.cluster import node
from runner.cluster.block import Block
from runner.cluster.engine import EngineUnavailable, Over
from runner.cluster.ship import Damaged, Parcel
from runner.project import Project
from runner.storage import CannotGoOn
from workloads.records.files import sync
from workloads.records.job import InputFile

CLUSTER = "slurm"  # submitit's other one, "local", is processes of this machine: the tests'
JOBS = "jobs"  # of a results folder: what jobs were given, and what they left there
PARCELS = "*.parcel"
MAKING_S = 3600  # for environments and inputs, beside a block's trials
LOOK_S, ASK_S = 1.0, 30.0  # between looks at the shared folder, and questions to Slurm
WORDS = 200  # characters of a reason that is Slurm's


@dataclass
class Running:
    """A block and its job; `folder` is where its parcels come to lie."""

    block: Block
    job: submitit.Job[str | None]
    folder: Path


class SlurmEngine:
    """One driver's. What a killed one left in the folder arrives first; what of it still runs is ended."""

    def __init__(self, partition: str, project: Project, results: Path, threads: int) -> None:
        """Raises EngineUnavailable."""
        self.partition, self.project, self.results, self.threads = partition, project, results.resolve(), threads
        self.cores = cores_of(partition)
        if self.cores < threads:
            raise EngineUnavailable(f"--slurm {partition}: it has {self.cores} CPUs for {threads} threads")
        jobs = self.results / JOBS
        self.name = f"batchwise-{uuid.uuid5(uuid.NAMESPACE_URL, str(jobs)).hex[:12]}"  # the same for this folder
        self._cancel()
        self.kept = {path.name.partition("=")[0]: path for path in sorted(jobs.glob(f"*/*/{PARCELS}"))}
        self.folder = jobs / uuid.uuid4().hex
        self.folder.mkdir(parents=True)
        self.running: list[Running] = []
        self.here: list[tuple[Block, Path]] = []
        self.taken: Path | None = None
        self.asked_s = time.monotonic()

    def slots(self) -> int:
        """Blocks that the partition has CPUs for."""
        return self.cores // self.threads

    def submit(self, block: Block) -> None:
        """As a job; its comment is the block's name. Raises CannotGoOn where Slurm takes none."""
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
            timeout_min=int(limit_s / 60) + 1,
            slurm_partition=self.partition,
            slurm_comment=block.name,
        )
        try:
            with importable(self.project.root):
                done = {path.name.partition("=")[0] for path in kept}
                job = executor.submit(run_block, block.to_json(), done, self.project.root, self.results, folder)
        except (FailedSubmissionError, OSError) as error:
            raise CannotGoOn(f"--slurm {self.partition}: no more jobs are taken: {in_a_line(error)}") from error
        self.running.append(Running(block, job, folder))

    def arrival(self) -> tuple[Block, Parcel | Over]:
        """Blocks until there is one. What it gave before is stored by now."""
        if self.taken:
            self.taken.unlink(missing_ok=True)
        while True:
            ask = time.monotonic() - self.asked_s > ASK_S
            if ask:
                self.asked_s = time.monotonic()
            for each in self.running:
                over = each.job.done(force_check=ask)  # first: what it left before its end is there then
                ask = False  # the answer is of all
                for path in sorted(each.folder.glob(PARCELS)):
                    self.taken = path
                    try:
                        return each.block, Parcel.from_bytes(path.read_bytes())
                    except Damaged:
                        path.unlink()
                if over:
                    self.running.remove(each)
                    return each.block, Over(reason_of(each.job))
            time.sleep(LOOK_S)

    def close(self) -> None:
        """Ends whatever still runs. What of it has not arrived stays for the next driver."""
        for each in self.running:
            each.job.cancel(check=False)
        if not any(self.folder.glob(f"*/{PARCELS}")):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _cancel(self) -> None:
        """The jobs of a driver that was killed."""
        if CLUSTER == "slurm":
            subprocess.run(["scancel", "--me", "--name", self.name], capture_output=True, check=False)


def cores_of(partition: str) -> int:
    """CPUs of its nodes. Raises EngineUnavailable."""
    if CLUSTER != "slurm":
        return len(os.sched_getaffinity(0))
    command = ["sinfo", "--noheader", "--partition", partition, "--format", "%C"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except OSError as error:
        raise EngineUnavailable(f"--slurm {partition}: no Slurm here: {error.filename}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        raise EngineUnavailable(f"--slurm {partition}: sinfo: {in_a_line(error.stderr)}") from error
    if not told.strip():
        raise EngineUnavailable(f"--slurm {partition}: Slurm knows no such partition: sinfo lists them")
    return int(told.split()[0].split("/")[-1])  # allocated/idle/other/total


def in_a_line(said: object) -> str:
    """The first that is none but white space."""
    lines = (line.strip() for line in str(said).splitlines())
    return next((line[:WORDS] for line in lines if line), type(said).__name__)


def reason_of(job: submitit.Job[str | None]) -> str | None:
    """What ended it, None where that was its own end."""
    try:
        return job.result()
    except UncompletedJobError:
        return f"its job {job.job_id} ended as {job.state}"
    except FailedJobError as error:
        return f"its job {job.job_id}: {in_a_line(error)}"


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


def run_block(block: dict[str, Any], done: set[str], root: Path, results: Path, folder: Path) -> str | None:
    """On a node: its trials but for those that are done, left in `folder` one by one. What ended it, if not its end."""
    whole = Block.from_json(block)
    wanted = replace(whole, trials=tuple(spec for spec in whole.trials if spec.id not in done))

    def fetch(file: InputFile) -> bytes:
        return (results / file.path).read_bytes()

    try:
        for parcel in node.run(wanted, root, fetch) if wanted.trials else ():
            leave(parcel, folder)
    except (node.BlockFailed, OSError) as error:
        return in_a_line(error)
    return None


def leave(parcel: Parcel, folder: Path) -> None:
    """Whole, or not at all. Raises OSError."""
    temporary = folder / f"{uuid.uuid4().hex}.part"
    temporary.write_bytes(parcel.to_bytes())
    sync(temporary)
    temporary.rename(folder / f"{parcel.trial}={temporary.stem}.parcel")
    sync(folder)
