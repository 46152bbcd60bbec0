"""Commands that end with this process, whatever ends it: no moment of their lives is without an owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workloads import lifeline

KILLED = 1  # the exit code of ours that stands for a signal
ENDING_S = 60.0  # for a study that is interrupted to end by itself
GRACE_S = 2.0  # for a process to end by itself, once it is to
SHIM = (sys.executable, "-I", "-S", str(Path(lifeline.__file__).resolve()))


class Owned(subprocess.Popen[Any]):
    """A command that leads a session and a group of processes of its own, out of reach of the terminal's Ctrl-C.

    It waits for `go`. Its group is killed by the kernel when this object, or this process, is gone.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        """Options are those of Popen. Raises OSError."""
        descriptor, held = os.pipe()
        self.lifeline = os.fdopen(held, "wb", buffering=0)
        line = [*SHIM, str(os.getpid()), str(descriptor), *command]
        try:
            super().__init__(line, pass_fds=(descriptor,), start_new_session=True, **options)
        finally:
            os.close(descriptor)

    def go(self) -> None:
        """Let it begin."""
        with suppress(BrokenPipeError):  # it has ended already
            self.lifeline.write(b"\n")

    def end(self) -> int:
        """Kill what is left of its group, and reap it; its exit code."""
        end_group(self)
        self.lifeline.close()
        return int(self.returncode)


def end_group(process: subprocess.Popen[Any]) -> None:
    """Kill what is left of the process's group, and reap it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(command: Sequence[str], timeout_s: float | None = None, **options: Any) -> subprocess.CompletedProcess[Any]:
    """As subprocess.run, with the options of Popen. Raises OSError, TimeoutExpired."""
    process = Owned(command, **options)
    with process:
        try:
            process.go()
            output, errors = process.communicate(timeout=timeout_s)
        finally:
            process.end()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
