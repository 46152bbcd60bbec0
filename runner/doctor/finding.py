"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.records.word import Word


class State(Word):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"  # runs come to their end, figures may be worse than they need be
    PROBLEM = "problem"  # a run would fail
    UNKNOWN = "unknown"  # this machine does not tell


@dataclass(frozen=True)
class Finding:
    """One row; `advice` says what to do, "" where there is nothing."""

    name: str
    state: State
    text: str
    advice: str = ""


def mib(size_bytes: int) -> str:
    """Of bytes: "1,234 MiB"."""
    return f"{size_bytes / 2**20:,.0f} MiB"
