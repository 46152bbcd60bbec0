"""The worker's events.jsonl, and the sign of life between two events."""

from __future__ import annotations

import json
import os
import re
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from adapters.worker import refused_memory
from workloads.records.events import Event
from workloads.records.files import without_nan

BEAT_S = 1.0
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # a terminal's codes of style


class EventLog:
    """Appends one JSON line per event; each has left the process before the next piece of work starts."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", encoding="utf-8")
        self.beat_due_s = 0.0

    def beat(self, now_s: float) -> None:
        """Show that something was done: touch the file, at most once in BEAT_S; `now_s` is of the monotonic clock."""
        if now_s >= self.beat_due_s:
            self.beat_due_s = now_s + BEAT_S
            with suppress(OSError):  # it is only a sign
                os.utime(self.file.fileno())

    def write(self, event: Event, t_ns: int | None = None, **data: Any) -> None:
        """Write one line; `t_ns` is of the monotonic clock, None = now. A value that is not a number becomes null."""
        line = {"event": event, "t_ns": time.monotonic_ns() if t_ns is None else t_ns, **data}
        self.file.write(json.dumps(without_nan(line), allow_nan=False) + "\n")
        self.file.flush()

    def write_answer(
        self, event: Event, ask: Callable[[], dict[str, Any]], ran_out: Callable[[Exception], bool] | None = None
    ) -> None:
        """Write one line with the answer of `ask`, or with the reason why it is unknown: earlier measurements stay.

        `ran_out` says of an error whether it is one of memory; the line then reports this as well.
        """
        try:
            self.write(event, **ask())
        except Exception as error:  # noqa: BLE001  # whatever a framework raises
            traceback.print_exc()
            memory = {"out_of_memory": True} if ran_out is not None and ran_out(error) else {}
            self.write(event, reason=in_a_line(error), **memory)


def in_a_line(error: BaseException) -> str:
    """Return its type and one line of its message: the one with a refused size, a traceback's last, else the first."""
    text = COLOURS.sub("", str(error))  # Keras prints some messages in bold
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    last = lines[0].startswith("Traceback")
    line = next(filter(refused_memory.says_size, lines), lines[-1 if last else 0])
    return f"{type(error).__name__}: {line}"
