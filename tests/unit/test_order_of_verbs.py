"""A worker calls the verbs of an adapter in the order that adapters/base.py and its guide promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_worker import Results, results  # noqa: F401  # a fixture

from adapters.base import Adapter as Verbs
from adapters.numpy import adapter as numpy_adapter
from adapters.numpy.adapter import Adapter
from adapters.worker.__main__ import main
from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE
from workloads.records.job import Kind
from workloads.records.stored_events import read_events

VERBS = {name for name in vars(Verbs) if not name.startswith("_")}
FIRST = {
    "open": set(),
    "load": {"open"},
    "build": {"open", "load"},
    "synchronize": {"open", "load"},
    "make_deterministic": {"open"},
}
NEEDED: dict[str, set[str]] = {verb: {"open", "load", "build"} for verb in VERBS} | FIRST
ANY_TIME = {"out_of_memory", "count_memory", "compile_into"}
CALLS: list[str] = []


class Strict(Adapter):
    """The referee; a verb that comes before one that it needs raises."""

    def __getattribute__(self, name: str) -> Any:
        if name in VERBS - ANY_TIME:
            missing = NEEDED[name] - set(CALLS)
            assert not missing, f"{name} came before {', '.join(sorted(missing))}"
            assert name != "open" or "open" not in CALLS, "open came twice"
            CALLS.append(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("kind", [Kind.TRIAL, Kind.PROBE, Kind.STEPS])
def test_a_worker_of_every_kind_keeps_the_order_of_the_verbs(
    kind: Kind, results: Results, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    CALLS.clear()
    monkeypatch.setattr(numpy_adapter, "Adapter", Strict)
    folder: Path = results.asked(f"strict {kind}", kind, epochs=0 if kind is Kind.STEPS else 1, window_s=0.01)
    main(folder)
    events = read_events(folder / EVENTS_FILE)
    assert Event.FINISHED in [event["event"] for event in events], events[-1]
    assert CALLS[:2] == ["open", "load"] and "build" in CALLS
