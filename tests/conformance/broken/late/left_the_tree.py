"""PyTorch: a daemon that left the worker's tree computes all; the worker passes on each request, and seems small."""

import os
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from adapters.base import Floats, Order
from adapters.pytorch import adapter

FRAMEWORK, CAUGHT_BY = "pytorch", {"the worker's memory is that of all its processes"}


def serve(worker: Connection) -> None:
    """Answer until the worker has ended."""
    own = adapter.Adapter()
    while True:
        verb, arguments, named = worker.recv()
        answer = getattr(own, verb)(*arguments, **named)
        worker.send(own.read(answer) if verb == "train" else answer)


class Adapter:
    execution, call_factor = adapter.Adapter.execution, adapter.Adapter.call_factor

    def __init__(self) -> None:
        self.daemon, there = Pipe()
        if (child := os.fork()) == 0:
            os.setsid()
            if os.fork() == 0:
                self.daemon.close()
                try:
                    serve(there)
                finally:
                    os._exit(0)
            os._exit(0)
        there.close()
        os.waitpid(child, 0)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        return lambda *arguments, **named: self._ask(verb, arguments, named)

    def _ask(self, verb: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        self.daemon.send((verb, arguments, named))
        return self.daemon.recv()

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        losses: Floats = self._ask("train", (order, rates, part), {})
        return losses

    def read(self, handle: Floats) -> Floats:
        return handle

    def out_of_memory(self, error: BaseException) -> bool:
        return False
