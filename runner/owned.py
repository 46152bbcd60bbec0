"""Commands that end with this process, however it ends: at no moment are they without an owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from workloads import lifeline

KILLED = 1  # our exit code after a signal
ENDING_S = 60.0  # time for an interrupted study to end
GRACE_S = 2.0  # time for a process to end after it was told to
SHIM = (sys.executable, "-I", "-S", str(Path(lifeline.__file__).resolve()))


class Owned(subprocess.Popen[Any]):
    """A command that leads its own session and process group, out of reach of the terminal's Ctrl-C.

    It waits for `go`. The kernel kills its group when this object, or this process, is gone.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        """Start the command, with the options of Popen. Raises OSError."""
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
        """Kill what is left of its group, and reap it; return its exit code."""
        end_group(self)
        self.lifeline.close()
        return int(self.returncode)


def end_group(process: subprocess.Popen[Any]) -> None:
    """Kill what is left of the process's group, and reap it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def hold(command: Sequence[str], **options: Any) -> Iterator[Owned]:
    """Yield the command at work, with the options of Popen; what is left of it after the block is killed.

    Raises OSError.
    """
    with Owned(command, **options) as process:
        try:
            process.go()
            yield process
        finally:
            process.end()


def run(command: Sequence[str], timeout_s: float | None = None, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command like subprocess.run, with the options of Popen. Raises OSError, TimeoutExpired."""
    with hold(command, **options) as process:
        output, errors = process.communicate(timeout=timeout_s)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
