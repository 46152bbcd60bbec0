"""The output of a command: a closed pipe (`| head -1`, a closed terminal) does not end the work."""

from __future__ import annotations

import io
import os
import sys

NAMES = {1: "stdout", 2: "stderr"}


class _Lasting(io.FileIO):
    """Drops what cannot be written, and everything that follows, from this process and those that it starts."""

    def write(self, content: object) -> int:
        try:
            return super().write(content)  # type: ignore[arg-type]
        except OSError:
            _to_nowhere(self.fileno())
            return len(memoryview(content))  # type: ignore[arg-type]


def keep_on() -> None:
    """Let this process's standard output and error outlast their readers, unless they are redirected, as in a test.

    Characters that the encoding lacks are written with backslashes.
    """
    for number, name in NAMES.items():
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: the next file that is opened would take its number
            _to_nowhere(number)
        elif not _is_of(stream, number):
            continue
        raw = _Lasting(number, "w", closefd=False)
        encoding = stream.encoding if stream else "utf-8"
        lasting = io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=True)
        setattr(sys, name, lasting)


def _is_of(stream: io.TextIOBase, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, ValueError):
        return False


def _to_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere == number:
        os.set_inheritable(number, True)
        return
    os.dup2(nowhere, number)
    os.close(nowhere)
