"""Describe how a network of the catalogue differs from the original of the same name."""

from __future__ import annotations

from workloads.networks import WORKLOADS
from workloads.records.job import Task

REFERENCE = "difference from its reference"  # part of a condition


def reference(task: Task) -> dict[str, str]:
    """Return {part of the condition: its words}.

    Returns {} if the network does not differ, or is not in the catalogue.
    """
    differs = WORKLOADS[task.workload].differs if task.workload in WORKLOADS and not task.own_code else ""
    return {REFERENCE: differs} if differs else {}
