"""Children that cannot outlive the process that started them, by the kernel of Linux: prctl(2), fcntl(2).

python -I -S lifeline.py OWNER DESCRIPTOR COMMAND...: becomes COMMAND once its owner, the process that started it, has
told it to go by a byte through a pipe; when the other end of that is closed, as it is when the owner dies in whatever
manner, the kernel kills the whole group of processes that this one leads. Without a byte, it ends. COMMAND has the pipe
open, too.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path

SET_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG
SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
CANNOT_START = 127  # exit code, as of a shell that cannot start a command
ATTENDED = "--attended"  # of a worker in a container: its standard input is the pipe
# At this a worker writes the stack of every thread; no framework uses it.
STACKS = getattr(signal, "SIGRTMAX", signal.SIGTERM)


def die_with_parent(parent: int, deadly: int = signal.SIGKILL) -> None:
    """From here on this process gets the signal when the thread that started it ends; at once where `parent`, a process
    id, is not its parent any more. Other systems than Linux have no such thing: then nothing happens.
    """
    if _prctl(SET_SIGNAL_AT_PARENTS_DEATH, deadly) and os.getppid() != parent:
        os.kill(os.getpid(), deadly)


def adopt(orphans: bool) -> None:
    """Whether processes below this one whose parents have ended become its children, or those of the system."""
    _prctl(SET_CHILD_SUBREAPER, int(orphans))


def bind_group(descriptor: int) -> None:
    """The kernel kills this process's group when the other end of the pipe is closed, or something comes through it;
    for as long as any process has this end open.
    """
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([descriptor], [], [], 0)[0]:  # it was closed before the kernel had been told to look
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None).prctl
    call.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return int(call(option, value, 0, 0, 0)) == 0


def start_time(pid: int) -> int | None:
    """Of a living process, in ticks since the machine was started: with its id it stands for this process alone."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[19]) if fields[0] not in "ZX" else None
    return None


def main(owner: int, descriptor: int, command: list[str]) -> None:
    """Returns where it is not to go."""
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
