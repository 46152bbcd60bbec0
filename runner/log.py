"""A worker's log: what it prints, with a bound to what that may cost of disk and memory."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

HEAD_BYTES = TAIL_BYTES = 2**20
READ_BYTES = 2**16
SETTLED_S = 1.0


class CappedLog:
    """A file of its first and its last bytes, with a line between that says how many are left out.

    What is written to `fileno()` goes through a pipe. The first bytes are in the file at once, the last when this is
    left: a runner that is killed leaves the first. It ends when it is left, whoever still holds the pipe.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self.name = str(path)
        self.total = 0  # bytes
        self._tail = bytearray()
        self._file = path.open("wb", buffering=0)
        self._output, self._input = os.pipe()
        self._stopped, self._stop = os.pipe()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._follow, name="log", daemon=True)

    def fileno(self) -> int:
        """Where a process writes."""
        return self._input

    def __enter__(self) -> CappedLog:
        """Follow it."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.write(self._stop, b"\n")
        self._thread.join()
        for descriptor in (self._input, self._output, self._stop, self._stopped):
            os.close(descriptor)
        with self._file:
            self._write(self.end())

    def settle(self) -> None:
        """Returns when all that was written so far has been read, or after SETTLED_S."""
        until_s = time.monotonic() + SETTLED_S
        while time.monotonic() < until_s:
            with self._lock:
                if not self._waiting():
                    return
            time.sleep(0.005)

    def end(self) -> bytes:
        """What stands behind the head."""
        left_out = self.total - HEAD_BYTES - len(self._tail)
        line = b"\n[%d bytes are left out here]\n" % left_out if left_out > 0 else b""
        return line + bytes(self._tail)

    def last(self) -> str:
        """What was printed last."""
        self.settle()
        with self._lock:
            return bytes(self._tail).decode(errors="replace") or Path(self.name).read_text("utf-8", "replace")

    def _waiting(self) -> int:
        """Bytes that are in the pipe."""
        return int(struct.unpack("i", fcntl.ioctl(self._output, termios.FIONREAD, b"\0" * 4))[0])

    def _follow(self) -> None:
        stopped = False
        while not stopped:
            ready, _, _ = select.select([self._output, self._stopped], [], [])
            stopped = self._stopped in ready
            with self._lock:
                # At the end no more than there is by then: a process that nobody ended may write on.
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
        """What a full disk does not take is lost, and nothing but that: the worker prints on, and its trial counts."""
        with suppress(OSError):
            while content:
                content = content[self._file.write(content) or 0 :]


def last_lines(path: Path, most_bytes: int = 2**16) -> list[str]:
    """Of a text file; its first may be half a line. Raises OSError."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - most_bytes))
        return file.read(most_bytes).decode(errors="replace").splitlines()
