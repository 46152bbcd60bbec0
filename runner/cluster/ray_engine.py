"""Run blocks as tasks of a Ray cluster. The code travels as Ray's working directory, each input once per node."""

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
from runner.cluster.node import Parcel
from runner.cluster.sweep import Over
from runner.machine import description
from runner.project import Project
from runner.request.block import TrialBlock
from runner.request.parser import BadInput
from workloads.own_names import name_node
from workloads.program import interrupt_in_order
from workloads.records.job import InputFile

CODE = ("workloads", "adapters", "runner")  # the parts of the project that a node needs
LONGEST_NAME = 100
WORDS = 200  # characters kept of a reason from Ray
ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")


class RayEngine:
    """Engine of one driver. Its tasks end with it."""

    def __init__(
        self,
        address: str,
        project: Project,
        results: Path,
        wanted: dict[str, int],
        node_id: str | None = None,
        task: Any = None,
    ) -> None:
        """Connect to the cluster at `address`, "auto" or HOST:PORT.

        `wanted` is what a trial needs, by Ray's names. `node_id` is the node where all blocks run. `task` replaces
        `run_block`. Raises BadInput.
        """
        others = [f"/{path.name}" for path in project.root.iterdir() if path.name not in CODE]  # in .gitignore's format
        os.environ["RAY_IGNORE_UNHANDLED_ERRORS"] = "1"  # each is an arrival, and reported once
        try:
            ray.init(
                address=address,
                runtime_env={"working_dir": str(project.root), "excludes": [*others, "__pycache__"]},
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        except (ConnectionError, RayError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise BadInput(f"--ray {address}: {reason}; start one with `ray start --head`") from error
        interrupt_in_order()  # ray.init takes SIGTERM for itself
        self.results, self.task, self.node_id, self.wanted = results, task or run_block, node_id, wanted
        self.arrivals: SimpleQueue[tuple[TrialBlock, Parcel | Over]] = SimpleQueue()
        self.inputs: dict[str, Any] = {}
        if not self._fitting():
            ray.shutdown()
            who = f"no node {node_id}" if node_id else "no node"
            advice = "give --threads or --device"
            raise BadInput(f"--ray {address}: there is {who} with {self.needed} for a trial: {advice}")

    @property
    def needed(self) -> str:
        """Needs of a trial, in words."""
        return f"{self.wanted['CPU']} CPUs" + " and a GPU" * ("GPU" in self.wanted)

    def slots(self) -> int:
        """Return the number of blocks that the currently alive nodes can run together, at least 1."""
        return max(1, self._fitting())

    def _fitting(self) -> int:
        """Return the number of blocks for which the nodes have CPUs, and GPUs if wanted."""
        return sum(self._fit(each) for each in self._nodes())

    def _fit(self, node: dict[str, Any]) -> int:
        return min(int(node["Resources"].get(name, 0) // count) for name, count in self.wanted.items())

    def _nodes(self) -> list[dict[str, Any]]:
        """Return the alive nodes that blocks may run on."""
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        return [each for each in nodes if each["Alive"] and self.node_id in (None, each["NodeID"])]

    def list_too_small(self) -> list[str]:
        """Return the hosts of the nodes that run tasks and lack what a trial needs."""
        small = (each for each in self._nodes() if each["Resources"].get("CPU") and not self._fit(each))
        return sorted({each["NodeManagerHostname"] for each in small})

    def hosts(self) -> dict[str, str]:
        """Return {name in results: host} of all nodes, the dead ones included."""
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        return {name_node(each["NodeManagerHostname"]): each["NodeManagerHostname"] for each in nodes}

    def node_types(self) -> dict[str, str]:
        """Return {type, as a folder's name: first node of that type} of the nodes that can run a block.

        A type is what reports keep apart: GPUs, processor, cores. Raises BadInput.
        """
        fitting = [each for each in self._nodes() if self._fit(each)]
        asked = [
            describe_computer.options(scheduling_strategy=schedule_on(each["NodeID"])).remote() for each in fitting
        ]
        found: dict[str, str] = {}
        try:
            for each, told in zip(fitting, ray.get(asked), strict=True):
                found.setdefault(make_folder_name(told), each["NodeID"])
        except RayError as error:
            raise BadInput(f"--per-node-type: {format_error(error)}") from error
        return found

    def submit(self, block: TrialBlock) -> None:
        """Submit the block as a task. Ray's dashboard shows it by the block's name."""
        inputs = {sha256: self._put(file) for sha256, file in block.inputs.items()}
        where = {"scheduling_strategy": schedule_on(self.node_id)} if self.node_id else {}
        running = self.task.options(
            num_cpus=self.wanted["CPU"], num_gpus=self.wanted.get("GPU", 0), name=block.name, **where
        ).remote(block.to_json(), inputs)
        Thread(target=self._follow, args=(block, running), daemon=True).start()

    def _put(self, file: InputFile) -> Any:
        """Put the file into the object store, once per sweep."""
        if file.sha256 not in self.inputs:
            self.inputs[file.sha256] = ray.put((self.results / file.path).read_bytes())
        return self.inputs[file.sha256]

    def _follow(self, block: TrialBlock, running: Any) -> None:
        reason = None
        try:
            for reference in running:
                self.arrivals.put((block, ray.get(reference)))
        except RayError as error:  # a dead node as well as an error that a task raised
            reason = format_error(error)
        finally:
            self.arrivals.put((block, Over(reason)))

    def arrival(self) -> tuple[TrialBlock, Parcel | Over]:
        """Return the next arrival; blocks until there is one."""
        return self.arrivals.get()

    def close(self) -> None:
        """End all running tasks."""
        ray.shutdown()


def format_error(error: RayError) -> str:
    """Return the error in one line, without Ray's traceback and addresses; for a BlockFailed only its own message."""
    cause = getattr(error, "cause", None) or error
    first = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
    if isinstance(cause, node.BlockFailed):
        return first
    return f"{type(cause).__name__}: {ADDRESS.sub('IP', first)[:WORDS]}"


def make_folder_name(words: str) -> str:
    """Return a folder name for these words; one that is too long is cut and ends in a digest of the words."""
    name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{sha256(words.encode()).hexdigest()[:8]}"


def schedule_on(node_id: str) -> NodeAffinitySchedulingStrategy:
    """Return a strategy that schedules on this node and nowhere else."""
    return NodeAffinitySchedulingStrategy(node_id, soft=False)


@ray.remote(num_cpus=0, max_retries=0)
def describe_computer() -> str:
    """Return a description of the node in words."""
    gpus = Counter(gpu.name for gpu in description.list_gpus())
    named = [f"{count} {name}" for name, count in sorted(gpus.items())]
    return " ".join([*named, description.read_cpu_model() or "unknown processor", f"{description.count_cores()} cores"])


@ray.remote(max_retries=0, num_returns="streaming")
def run_block(block: dict[str, Any], inputs: dict[str, Any]) -> Iterator[Parcel]:
    """Run a block on a node, in Ray's copy of the code there."""

    def fetch(file: InputFile) -> bytes:
        content: bytes = ray.get(inputs[file.sha256])
        return content

    yield from node.run(TrialBlock.from_json(block), Path(os.getcwd()), fetch)
