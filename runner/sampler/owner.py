"""The sampler's owner, the runner, watched through standard input by a thread that no driver can hold up."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import psutil

from workloads.lifeline import die_with_parent

END_S = 15.0  # the runner, where it lives, waits for less


class Owner:
    """The runner: it tells the worker's process id, and that sampling is over.

    Standard input that closes without that word is the runner's death: then what is left of the worker is killed. From
    either on this process has END_S to end in order; behind them it ends, also where a driver does not answer.
    """

    def __init__(self, family: Callable[[], list[psutil.Process]]) -> None:
        """Listens from here on; `family` are the worker and its descendants as last known."""
        self.over = threading.Event()
        self.family = family
        self.pid: int | None = None
        self._answered = threading.Event()
        die_with_parent(os.getppid(), signal.SIGCONT)  # it must not stand still for ever
        threading.Thread(target=self._listen, daemon=True).start()

    def worker(self) -> int | None:
        """Its process id; blocks until it is told, None where there is none."""
        self._answered.wait()
        return self.pid

    def _listen(self) -> None:
        first = line().strip()
        self.pid = int(first) if first.isdigit() else None
        self._answered.set()
        last = line() if self.pid else first
        faulthandler.dump_traceback_later(END_S, exit=True)
        if not last and self.pid:
            kill(self.pid, self.family())
        self.over.set()


def line() -> str:
    """Read a line of standard input, past Python's buffers. This process may end while a thread waits in here."""
    read = b""
    while not read.endswith(b"\n") and (byte := os.read(0, 1)):
        read += byte
    return read.decode(errors="replace")


def kill(leader: int, family: list[psutil.Process]) -> None:
    """A worker's group, and of its family what has left that."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for process in family:
        with suppress(psutil.Error):  # gone, or its id is another's by now
            process.kill()
