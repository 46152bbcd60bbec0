"""Blocks as tasks of a Ray cluster. The code travels as Ray's working directory, each input once a node."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import ray
from ray.exceptions import RayError

from runner.cluster import node
from runner.cluster.block import Block
from runner.cluster.engine import EngineUnavailable, Over
from runner.cluster.ship import Parcel
from runner.project import Project
from workloads.records.job import InputFile

CODE = ("workloads", "adapters", "runner")  # what a node needs of the project
WORDS = 200  # characters of a reason that is Ray's


class RayEngine:
    """One driver's. What runs ends with it."""

    def __init__(self, address: str, project: Project, results: Path, threads: int, task: Any = None) -> None:
        """`address`: "auto" or HOST:PORT; `task`: in place of `run_block`. Raises EngineUnavailable."""
        others = [f"/{path.name}" for path in project.root.iterdir() if path.name not in CODE]  # as .gitignore has them
        os.environ["RAY_IGNORE_UNHANDLED_ERRORS"] = "1"  # each is an arrival, and said once
        try:
            ray.init(
                address=address,
                runtime_env={"working_dir": str(project.root), "excludes": [*others, "__pycache__"]},
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        except (ConnectionError, RayError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise EngineUnavailable(f"--ray {address}: {reason}; start one with `ray start --head`") from error
        self.results, self.threads, self.task = results, threads, task or run_block
        self.arrivals: SimpleQueue[tuple[Block, Parcel | Over]] = SimpleQueue()
        self.inputs: dict[str, Any] = {}
        if not self._fitting():
            ray.shutdown()
            raise EngineUnavailable(f"--ray {address}: no node has {threads} CPUs for a trial: give --threads")

    def slots(self) -> int:
        """Of the nodes that are alive just now."""
        return max(1, self._fitting())

    def _fitting(self) -> int:
        """Trials that the nodes which are alive have CPUs for."""
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        alive = (each["Resources"].get("CPU", 0) for each in nodes if each["Alive"])
        return sum(int(cores // self.threads) for cores in alive)

    def submit(self, block: Block) -> None:
        """As a task, which Ray's dashboard shows by the block's name."""
        inputs = {sha256: self._put(file) for sha256, file in block.inputs.items()}
        running = self.task.options(num_cpus=self.threads, name=block.name).remote(block.to_json(), inputs)
        Thread(target=self._follow, args=(block, running), daemon=True).start()

    def _put(self, file: InputFile) -> Any:
        """Into the object store, once a sweep."""
        if file.sha256 not in self.inputs:
            self.inputs[file.sha256] = ray.put((self.results / file.path).read_bytes())
        return self.inputs[file.sha256]

    def _follow(self, block: Block, running: Any) -> None:
        reason = None
        try:
            for reference in running:
                self.arrivals.put((block, ray.get(reference)))
        except RayError as error:  # of a node that died as well as of what a task raised
            reason = said(error)
        finally:
            self.arrivals.put((block, Over(reason)))

    def arrival(self) -> tuple[Block, Parcel | Over]:
        """Blocks until there is one."""
        return self.arrivals.get()

    def close(self) -> None:
        """Ends whatever still runs."""
        ray.shutdown()


def said(error: RayError) -> str:
    """In a line: of what a task raised that alone, without Ray's traceback."""
    cause = getattr(error, "cause", None) or error
    first = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
    return first if isinstance(cause, node.BlockFailed) else f"{type(cause).__name__}: {first[:WORDS]}"


@ray.remote(max_retries=0, num_returns="streaming")
def run_block(block: dict[str, Any], inputs: dict[str, Any]) -> Iterator[Parcel]:
    """On a node, in Ray's own copy of the code there."""

    def fetch(file: InputFile) -> bytes:
        content: bytes = ray.get(inputs[file.sha256])
        return content

    yield from node.run(Block.from_json(block), Path(os.getcwd()), fetch)
