"""Children that cannot outlive the process that started them, by the Linux kernel: prctl(2), fcntl(2).

python -I -S lifeline.py OWNER DESCRIPTOR COMMAND...: becomes COMMAND once its owner, the process that started it, sends
a byte through a pipe. The other end of the pipe closes at the latest when the owner dies. The kernel then kills the
whole process group that this process leads. Without a byte, it ends. COMMAND inherits the open pipe.
"""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import os
import select
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

SET_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG
SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
CANNOT_START = 127  # exit code, like that of a shell that cannot start a command
ATTENDED = "--attended"  # for a worker in a container: its standard input is the pipe
# On this signal a worker writes the stack of every thread; no framework uses it.
STACKS = getattr(signal, "SIGRTMAX", signal.SIGTERM)


def die_with_parent(parent: int, deadly: int = signal.SIGKILL) -> None:
    """Signal this process when the thread that started it ends; at once if `parent`, a process id, is no longer its
    parent. Systems other than Linux do not support this: then nothing happens.
    """
    if _prctl(SET_SIGNAL_AT_PARENTS_DEATH, deadly) and os.getppid() != parent:
        os.kill(os.getpid(), deadly)


def adopt(orphans: bool) -> None:
    """Choose whether descendants whose parents have ended become children of this process, or of the system."""
    _prctl(SET_CHILD_SUBREAPER, int(orphans))


def begin(by_standard_input: bool) -> None:
    """Begin a worker: from now on a signal shows its stacks. By standard input: return when a line comes; its end ends
    this process, and with it the container whose first process it is.
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


def bind_group(descriptor: int) -> None:
    """Let the kernel kill this process's group when the other end of the pipe is closed, or something comes through
    it. This holds for as long as any process has this end open.
    """
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([descriptor], [], [], 0)[0]:  # it was closed before the kernel was told to watch it
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None).prctl
    call.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return int(call(option, value, 0, 0, 0)) == 0


def start_time(pid: int) -> int | None:
    """Return the start time of a living process, in ticks since boot: with its id it identifies this process."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[19]) if fields[0] not in "ZX" else None
    return None


def main(owner: int, descriptor: int, command: list[str]) -> None:
    """Run the command once the owner sends a byte; return if it never does."""
    die_with_parent(owner)
    if not os.read(descriptor, 1):
        return
    bind_group(descriptor)
    adopt(True)  # kept by COMMAND: what leaves its parent stays below it, where its processor time is counted
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"cannot be started: {error.strerror}", file=sys.stderr)
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
