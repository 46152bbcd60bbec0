"""How a network of the catalogue differs from the one that it is called by."""

from __future__ import annotations

from workloads.networks import WORKLOADS
from workloads.records.job import Task

REFERENCE = "difference from its reference"  # part of a condition


def reference(task: Task) -> dict[str, str]:
    """{part of the condition: its words}; empty where the network differs in nothing, or is none of the catalogue's."""
    differs = WORKLOADS[task.workload].differs if task.workload in WORKLOADS and not task.own_code else ""
    return {REFERENCE: differs} if differs else {}
