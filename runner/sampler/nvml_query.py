"""One metric of the GPU's driver: the queries that may give it, and a record of how they were answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml

from workloads.records.samples import PERIOD_S

Row = dict[str, float | int | None]


class Implausible(Exception):
    """The driver's answer cannot be true; the message says why."""


class Withdrawn(Implausible):
    """No answer to this query can be trusted: it is not asked again."""


UNANSWERED = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError, Implausible)


def refusal(call: str, error: Exception) -> str:
    """Return the call and the driver's message, on one line."""
    code = f" (NVML error {error.value})" if isinstance(error, pynvml.NVMLError) else ""
    return f"{call}: {error}{code}"


@dataclass(frozen=True)
class Query:
    """One call that answers. `ask` takes NVML's handle; raises one of UNANSWERED."""

    call: str
    ask: Callable[[Any], Row]
    note: str = ""  # what a reader of the figure should know about this query
    period_s: float = 0.0  # a reading describes this period before it
    start: Callable[[Any], Any] | None = None  # the first call, if readings continue from the previous one

    @property
    def source(self) -> str:
        """The call and its note, for a figure's source."""
        return f"NVML {self.call}{', ' if self.note else ''}{self.note}"


@dataclass
class Metric:
    """One metric, probed once: the first query that is answered is used, and without one it is not asked again."""

    queries: tuple[Query, ...]
    every_s: float
    query: Query | None = None
    refusals: list[str] = field(default_factory=list)
    probe_us: float = 0.0  # the last call that the probe made
    asked_at: float = float("-inf")
    calls: int = 0
    busy_ns: int = 0
    failures: int = 0
    first_failure: dict[str, Any] | None = None
    missing: dict[str, str] = field(default_factory=dict)  # {column: why the driver's answer lacks it}

    def probe(self, handle: Any) -> None:
        """Choose the query; reasons why those before it failed go to `refusals`."""
        for query in self.queries:
            started = time.perf_counter_ns()
            try:
                (query.start or query.ask)(handle)
                self.query = query
            except UNANSWERED as error:
                self.refusals.append(refusal(query.call, error))
            self.probe_us = (time.perf_counter_ns() - started) / 1e3
            if self.query:
                break
        if self.query and self.query.start:
            self.asked_at = time.monotonic()

    def due(self, now_s: float) -> bool:
        """True if the metric is due: with every row, or once in several. Rows come late, then early."""
        waited = self.every_s <= PERIOD_S or now_s - self.asked_at >= self.every_s - PERIOD_S / 2
        return self.query is not None and waited

    def ask(self, handle: Any, out_of_turn: bool = False) -> Row:
        """Return the answer, empty after a failure, which is counted. `out_of_turn` leaves the schedule unchanged."""
        assert self.query
        if not out_of_turn:
            self.asked_at = time.monotonic()
        self.calls += 1
        started = time.perf_counter_ns()
        try:
            return self.query.ask(handle)
        except UNANSWERED as error:
            self.failures += 1
            reason = refusal(self.query.call, error)
            self.first_failure = self.first_failure or {"t_ns": time.monotonic_ns(), "reason": reason}
            if isinstance(error, Withdrawn):
                self.refusals.append(reason)
                self.query = None
            return {}
        finally:
            self.busy_ns += time.perf_counter_ns() - started

    def account(self, remark: str) -> dict[str, Any]:
        """Return the report for meter.json; `remark` is added to the reason why nothing answers."""
        return {
            "source": self.query.source if self.query else None,
            "reason": None if self.query else "; ".join([*self.refusals, *([remark] if remark else [])]),
            "tried_before": self.refusals if self.query else [],
            "period_s": self.query.period_s if self.query else None,
            "every_s": self.every_s,
            "probe_us": round(self.probe_us, 1),
            "mean_us": round(self.busy_ns / self.calls / 1e3, 1) if self.calls else None,
            "calls": self.calls,
            "failures": self.failures,
            "first_failure": self.first_failure,
            "missing": self.missing,
        }
