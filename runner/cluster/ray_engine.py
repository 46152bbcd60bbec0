"""Blocks as tasks of a Ray cluster. The code travels as Ray's working directory, each input once a node."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from runner.cluster import node
from runner.cluster.block import Block
from runner.cluster.engine import EngineUnavailable, Over, Wanted
from runner.cluster.ship import Parcel
from runner.machine import description
from runner.project import Project
from workloads.records.job import InputFile

CODE = ("workloads", "adapters", "runner")  # what a node needs of the project
LONGEST_NAME = 100
WORDS = 200  # characters of a reason that is Ray's


class RayEngine:
    """One driver's. What runs ends with it."""

    def __init__(
        self,
        address: str,
        project: Project,
        results: Path,
        wanted: Wanted,
        node_id: str | None = None,
        task: Any = None,
    ) -> None:
        """`address`: "auto" or HOST:PORT; `node_id`: where all blocks run; `task`: in place of `run_block`. Raises
        EngineUnavailable.
        """
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
        self.results, self.task, self.node_id = results, task or run_block, node_id
        self.wanted = {"CPU": wanted.threads, **({"GPU": wanted.gpus} if wanted.gpus else {})}
        self.arrivals: SimpleQueue[tuple[Block, Parcel | Over]] = SimpleQueue()
        self.inputs: dict[str, Any] = {}
        if not self._fitting():
            ray.shutdown()
            what = f"{wanted.threads} CPUs" + (" and a GPU" if wanted.gpus else "")
            who = f"no node {node_id} of it" if node_id else "no node"
            raise EngineUnavailable(f"--ray {address}: {who} has {what} for a trial: give --threads or --device")

    def slots(self) -> int:
        """Of the nodes that are alive just now."""
        return max(1, self._fitting())

    def _fitting(self) -> int:
        """Blocks that these nodes have CPUs, and GPUs if they want one, for."""
        return sum(self._fit(each) for each in self._nodes())

    def _fit(self, node: dict[str, Any]) -> int:
        return min(int(node["Resources"].get(name, 0) // count) for name, count in self.wanted.items())

    def _nodes(self) -> list[dict[str, Any]]:
        """Those that are alive, of which blocks may run."""
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        return [each for each in nodes if each["Alive"] and self.node_id in (None, each["NodeID"])]

    def node_types(self) -> dict[str, str]:
        """{type, as the name of a folder: the first node of it}, of those that can run a block. A type is what reports
        hold apart: GPUs, processor, cores. Raises EngineUnavailable.
        """
        fitting = [each for each in self._nodes() if self._fit(each)]
        asked = [computer.options(scheduling_strategy=on(each["NodeID"])).remote() for each in fitting]
        found: dict[str, str] = {}
        try:
            for each, told in zip(fitting, ray.get(asked), strict=True):
                found.setdefault(folder_name(told), each["NodeID"])
        except RayError as error:
            raise EngineUnavailable(f"--per-node-type: {said(error)}") from error
        return found

    def submit(self, block: Block) -> None:
        """As a task, which Ray's dashboard shows by the block's name."""
        inputs = {sha256: self._put(file) for sha256, file in block.inputs.items()}
        where = {"scheduling_strategy": on(self.node_id)} if self.node_id else {}
        running = self.task.options(
            num_cpus=self.wanted["CPU"], num_gpus=self.wanted.get("GPU", 0), name=block.name, **where
        ).remote(block.to_json(), inputs)
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


def folder_name(words: str) -> str:
    """No two for the same words, and no word's end cut off where it fits."""
    name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{sha256(words.encode()).hexdigest()[:8]}"


def on(node_id: str) -> NodeAffinitySchedulingStrategy:
    """There and nowhere else."""
    return NodeAffinitySchedulingStrategy(node_id, soft=False)


@ray.remote(num_cpus=0, max_retries=0)
def computer() -> str:
    """What a node is, in words."""
    gpus = Counter(gpu.name for gpu in description.gpus())
    named = [f"{count} {name}" for name, count in sorted(gpus.items())]
    return " ".join([*named, description.cpu_model() or "unknown processor", f"{description.cores()} cores"])


@ray.remote(max_retries=0, num_returns="streaming")
def run_block(block: dict[str, Any], inputs: dict[str, Any]) -> Iterator[Parcel]:
    """On a node, in Ray's own copy of the code there."""

    def fetch(file: InputFile) -> bytes:
        content: bytes = ray.get(inputs[file.sha256])
        return content

    yield from node.run(Block.from_json(block), Path(os.getcwd()), fetch)
