"""The processes of the ranks after the first, as their leader and as each of them sees it.

Each executes the methods that its leader, the worker, sends through its standard input, and ends with it. If the worker
dies, the kernel kills it (prctl), and no process is left.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from adapters.base import Adapter
from workloads.heap import settle_heap
from workloads.lifeline import die_with_parent

OUT_OF_MEMORY = 77  # exit code of a rank that ran out of it


class Others:
    """All ranks but the first, which makes this: they import the framework meanwhile."""

    def __init__(self, devices: int) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="ranks-")  # the worker's temporary files end with it
        self.meeting = str(Path(self.folder.name) / "meeting")
        command = [sys.executable, "-m", "adapters.pytorch.data_parallel", str(os.getpid())]
        self.processes = [
            subprocess.Popen([*command, str(rank), str(devices), self.meeting], stdin=subprocess.PIPE)
            for rank in range(1, devices)
        ]

    def tell(self, verb: str, *arguments: Any) -> None:
        """Send each of them its next call. Raises BrokenPipeError if one has ended."""
        told = pickle.dumps((verb, arguments), protocol=pickle.HIGHEST_PROTOCOL)
        for process in self.processes:
            assert process.stdin
            process.stdin.write(told)
            process.stdin.flush()

    def out_of_memory(self) -> bool:
        """True if one of them ran out of memory; to be called for an error that this may have caused."""
        ends = []
        for process in self.processes:
            try:
                ends.append(process.wait(1.0))
            except subprocess.TimeoutExpired:
                continue
        return OUT_OF_MEMORY in ends


def obey(parent: int, make: Callable[[], Adapter]) -> None:
    """Run the leader's calls on the adapter that `make` makes, until it sends no more."""
    die_with_parent(parent)
    settle_heap()  # like the worker, the first rank, before it opens its adapter
    adapter = make()

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        traceback.print_exception(kind, error, trace)
        os._exit(OUT_OF_MEMORY if adapter.out_of_memory(error) else 1)

    sys.excepthook = end  # the leader tells the two apart
    told = io.BufferedReader(io.FileIO(sys.stdin.fileno()))
    while told.peek(1):
        verb, arguments = pickle.load(told)
        getattr(adapter, verb)(*arguments)
