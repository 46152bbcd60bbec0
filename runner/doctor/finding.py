"""Findings of checks."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.records.record import Word


class State(Word):
    """Status of a check."""

    OK = "ok"
    WARNING = "warning"  # runs finish, but figures may be worse than necessary
    PROBLEM = "problem"  # a run would fail
    UNKNOWN = "unknown"  # this machine does not report it


@dataclass(frozen=True)
class Finding:
    """Row of the table; `advice` says what to do, "" where there is nothing to do."""

    name: str
    state: State
    text: str
    advice: str = ""


def mib(size_bytes: int) -> str:
    """Format bytes as "1,234 MiB"."""
    return f"{size_bytes / 2**20:,.0f} MiB"
