"""overhead.json: what the command overhead ever measured in a results folder, by conditions; nothing is replaced.

Schema 2 is a list of measurements in the order in which they were last added to, each with its conditions, its rows and
what failed, in the order of time: of a cell that was measured again the last row counts. Schema 1 was one measurement.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner.machine import description
from workloads.records.files import set_aside, write_json

SCHEMA_VERSION = 2
UNREADABLE = "overhead.json.unreadable-{number}"

Measurement = dict[str, Any]  # "conditions", "rows", "failed"


class OverheadFile:
    """The file, written anew with every entry; `current` is the measurement that is added to."""

    def __init__(self, path: Path, conditions: dict[str, Any]) -> None:
        """What cannot be read is kept under another name (`set_aside`). Raises OSError."""
        self.path = path
        self.set_aside: Path | None = None
        try:
            self.measurements = stored(path)
        except ValueError:
            self.measurements, self.set_aside = [], set_aside(path, UNREADABLE)
        before = {"load_average_before": description.load_average(), "frameworks": {}}
        same = [each for each in self.measurements if conditions.items() <= each["conditions"].items()]
        new: Measurement = {"conditions": conditions | before, "rows": [], "failed": []}
        self.current = same[-1] if same else new

    def store_row(self, cell: dict[str, Any], figures: dict[str, Any], facts: dict[str, Any]) -> None:
        """Of a cell that was measured; `facts` are its framework's: of another version it is another measurement."""
        framework = cell["framework"]
        if self.current["conditions"]["frameworks"].get(framework, facts) != facts:
            conditions = self.current["conditions"] | {"frameworks": {}}
            self.current = {"conditions": conditions, "rows": [], "failed": []}
        self.current["conditions"]["frameworks"][framework] = facts
        self._store("rows", cell | figures)

    def store_failure(self, cell: dict[str, Any], reason: str) -> None:
        """Of a cell that was not measured."""
        self._store("failed", cell | {"reason": reason})

    def _store(self, kind: str, entry: dict[str, Any]) -> None:
        self.current[kind].append(entry | {"measured_at": datetime.now(UTC).isoformat()})
        self.measurements = [*(each for each in self.measurements if each is not self.current), self.current]
        write_json(self.path, {"schema_version": SCHEMA_VERSION, "measurements": self.measurements})


def stored(path: Path) -> list[Measurement]:
    """Return the measurements of the file; none without a file. Raises ValueError for what is no such file, OSError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except RecursionError as error:
        raise ValueError("nested without end") from error
    if not isinstance(content, dict) or content.get("schema_version") != SCHEMA_VERSION:
        raise ValueError("of no known schema version")
    measurements = content.get("measurements")
    if not isinstance(measurements, list):
        raise ValueError("without measurements")
    return [_measurement(each) for each in measurements]


def _measurement(data: Any) -> Measurement:
    """Raises ValueError."""
    kinds = {"conditions": dict, "rows": list, "failed": list}
    measurement: Measurement = {key: data.get(key) for key in kinds} if isinstance(data, dict) else {}
    if not all(isinstance(measurement.get(key), kind) for key, kind in kinds.items()):
        raise ValueError("a measurement without its parts")
    if not isinstance(measurement["conditions"].setdefault("frameworks", {}), dict):
        raise ValueError("frameworks that are none")
    return measurement
