"""A worker's signals to the process that waits for it: it begins when told to, and shows that it is alive."""

from __future__ import annotations

import faulthandler
import os
import threading
from contextlib import suppress
from pathlib import Path

from workloads.lifeline import STACKS

PULSE_S = 1.0


def begin(by_standard_input: bool) -> None:
    """Show stacks from now on when asked to. By standard input: return when a line comes; its end ends this process,
    and with it the container whose first process it is.
    """
    faulthandler.register(STACKS, all_threads=True)
    if not by_standard_input:
        return
    owner = os.dup(0)  # code in this process finds an empty standard input, as in any other worker
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    if not os.read(owner, 1):
        os._exit(1)
    threading.Thread(target=_leave_with, args=(owner,), daemon=True).start()


def _leave_with(owner: int) -> None:
    while os.read(owner, 1):
        pass
    os._exit(1)


class Pulse:
    """The sign of life between two events: the log of events is touched, at most once in PULSE_S."""

    def __init__(self) -> None:
        """Begin without a log: there is no sign of life before there is one."""
        self.file: Path | None = None
        self.due_s = 0.0

    def beat(self, now_s: float) -> None:
        """Show that something was done; `now_s` is of the monotonic clock."""
        if now_s >= self.due_s and self.file is not None:
            self.due_s = now_s + PULSE_S
            with suppress(OSError):  # it is only a sign
                os.utime(self.file)


PULSE = Pulse()  # one per process: it has one log of events, and does its work in many places
