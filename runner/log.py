"""A worker's log: its output, with a limit on disk and memory, its most informative line, refused threads."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import select
import struct
import termios
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from workloads import control_groups

HEAD_BYTES = TAIL_BYTES = 2**20
READ_BYTES = 2**16
SETTLED_S = 1.0

# Messages of libraries that are refused a thread: pthread_create(3) and fork(2) give EAGAIN. OpenBLAS then raises
# SIGINT, OpenMP's library ends the process, TensorFlow aborts, Python raises RuntimeError. EAGAIN's own message also
# appears for a locked file: it counts if the line names a thread, or alone, as C++ and its callers print it.
REFUSED_THREAD = re.compile(
    r"pthread_create\W.*failed|pthread_create failed|[Tt]hread creation failed|can't start new thread|"
    r"(?:[Tt]hread|fork|clone).*Resource temporarily unavailable|"
    r"Resource temporarily unavailable.*(?:[Tt]hread|fork|clone)|"
    r"(?:^|what\(\):|(?:Runtime|MXNet)Error:)\s*Resource temporarily unavailable\s*(?:$|;)"
)
# Stacks of Python, C and faulthandler, and Python's message for SIGINT, which says no more than the signal.
NOT_TELLING = re.compile(
    r"\s(?!\s*what\(\))|Traceback |Current thread |Thread 0x|Extension modules: |KeyboardInterrupt$|"
    r"\*\*\* .*stack trace.* \*\*\*$|@ +0x|#\d+ "
)


class CappedLog:
    """A file of the first and the last bytes of an output, with a line between that says how many are left out.

    What is written to `fileno()` goes through a pipe. The first bytes are in the file at once, the last ones after the
    block: a runner that is killed leaves the first. The log ends with the block, even if a process still holds the
    pipe.
    """

    def __init__(self, path: Path) -> None:
        """Open the file and the pipe. Raises OSError."""
        self.name = str(path)
        self.total = 0  # bytes
        self._tail = bytearray()
        self._file = path.open("wb", buffering=0)
        self._output, self._input = os.pipe()
        self._stopped, self._stop = os.pipe()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._follow, name="log", daemon=True)

    def fileno(self) -> int:
        """Return the descriptor that a process writes to."""
        return self._input

    def __enter__(self) -> CappedLog:
        """Start to follow the output."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._stop, b"\n")
        self._thread.join()
        for descriptor in (self._input, self._output, self._stop, self._stopped):
            os.close(descriptor)
        with self._file:
            self._write(self.end())

    def settle(self) -> None:
        """Return when everything written so far has been read, or after SETTLED_S."""
        until_s = time.monotonic() + SETTLED_S
        while time.monotonic() < until_s:
            with self._lock:
                if not self._waiting():
                    return
            time.sleep(0.005)

    def end(self) -> bytes:
        """Return what follows the head."""
        left_out = self.total - HEAD_BYTES - len(self._tail)
        line = b"\n[%d bytes are left out here]\n" % left_out if left_out > 0 else b""
        return line + bytes(self._tail)

    def last(self) -> str:
        """Return the last output."""
        self.settle()
        with self._lock:
            return bytes(self._tail).decode(errors="replace") or Path(self.name).read_text("utf-8", "replace")

    def _waiting(self) -> int:
        """Number of bytes in the pipe."""
        return int(struct.unpack("i", fcntl.ioctl(self._output, termios.FIONREAD, b"\0" * 4))[0])

    def _follow(self) -> None:
        stopped = False
        while not stopped:
            ready, _, _ = select.select([self._output, self._stopped], [], [])
            stopped = self._stopped in ready
            with self._lock:
                # At the end, read only what the pipe holds by then: a process that was not ended may go on writing.
                for _ in range(-(-self._waiting() // READ_BYTES)):
                    self._take(os.read(self._output, READ_BYTES))

    def _take(self, chunk: bytes) -> None:
        head = chunk[: max(0, HEAD_BYTES - self.total)]
        self._write(head)
        self._tail += chunk[len(head) :]
        self.total += len(chunk)
        if len(self._tail) > TAIL_BYTES + READ_BYTES:
            del self._tail[:-TAIL_BYTES]

    def _write(self, content: bytes) -> None:
        """Write to the file. Bytes that a full disk does not take are lost, but the worker and its trial go on."""
        with suppress(OSError):
            while content:
                content = content[self._file.write(content) or 0 :]


def read_last_lines(path: Path) -> list[str]:
    """Return the last lines of a text file; the first of them may be half a line. Raises OSError."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - READ_BYTES))
        return file.read(READ_BYTES).decode(errors="replace").splitlines()


def find_telling_line(lines: Sequence[str]) -> str | None:
    """Return the last line that is not part of a stack, or the first about a refused thread; None: there is none."""
    return find_refused_thread(lines) or next((line for line in reversed(lines) if not NOT_TELLING.match(line)), None)


def find_refused_thread(lines: Sequence[str]) -> str | None:
    """Return the first line that says that a library got no thread; None if none does."""
    return next((line for line in lines if REFUSED_THREAD.search(line)), None)


def describe_thread_limits() -> str:
    """Return the limits on the threads of this process and of its workers, as text; empty if there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    pids = control_groups.process_limit()
    limits = [] if pids is None else [f"{pids} in its control group (pids.max)"]
    limits += [] if soft == resource.RLIM_INFINITY else [f"{soft} of its user (ulimit -u, RLIMIT_NPROC)"]
    return " and ".join(limits)
