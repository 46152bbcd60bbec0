"""The worker's events.jsonl."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from workloads.records.events import Event
from workloads.records.files import without_nan


class EventLog:
    """Appends one JSON line per event; each has left the process before the next piece of work starts."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", encoding="utf-8")

    def write(self, event: Event, t_ns: int | None = None, **data: Any) -> None:
        """One line, on disk when it returns; `t_ns` is of the monotonic clock, None = now. No number becomes null."""
        line = {"event": event, "t_ns": time.monotonic_ns() if t_ns is None else t_ns, **data}
        self.file.write(json.dumps(without_nan(line), allow_nan=False) + "\n")
        self.file.flush()
