"""The sampler's owner, the runner, watched through standard input by a thread that no driver can block."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import psutil

from workloads.lifeline import die_with_parent

END_S = 15.0  # the runner, if it lives, waits for less


class Owner:
    """The runner: it sends the worker's process id, and the end of sampling.

    If standard input closes without that line, the runner has died: then the rest of the worker is killed. From either
    event on this process has END_S to end in order. Afterwards it ends, even if a driver does not answer.
    """

    def __init__(self, family: Callable[[], list[psutil.Process]]) -> None:
        """Listen from now on; `family` are the worker and its descendants as last known."""
        self.over = threading.Event()
        self.family = family
        self.pid: int | None = None
        self._answered = threading.Event()
        die_with_parent(os.getppid(), signal.SIGCONT)  # it must not stay stopped for ever
        threading.Thread(target=self._listen, daemon=True).start()

    def worker(self) -> int | None:
        """Return the worker's process id; blocks until it is known, None if there is none."""
        self._answered.wait()
        return self.pid

    def _listen(self) -> None:
        first = read_line().strip()
        self.pid = int(first) if first.isdigit() else None
        self._answered.set()
        last = read_line() if self.pid else first
        faulthandler.dump_traceback_later(END_S, exit=True)
        if not last and self.pid:
            kill(self.pid, self.family())
        self.over.set()


def read_line() -> str:
    """Read a line of standard input, past Python's buffers. This process may end while a thread waits in here."""
    read = b""
    while not read.endswith(b"\n") and (byte := os.read(0, 1)):
        read += byte
    return read.decode(errors="replace")


def kill(leader: int, family: list[psutil.Process]) -> None:
    """Kill a worker's group, and members of its family that left the group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for process in family:
        with suppress(psutil.Error):  # gone, or its id belongs to another by now
            process.kill()
