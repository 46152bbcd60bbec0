"""Frameworks that are the referee with one line changed."""

from __future__ import annotations

from pathlib import Path

from copied import add_framework

DOUBLED = "doubled", "optimizer = replace(optimizer, learning_rate=2 * optimizer.learning_rate)"


def add_mistaken(adapters: Path, name: str, build: str) -> None:
    """Add the referee with one changed line, which changes what it is asked to build."""
    add_framework(adapters, name, label=f'"{name}"')
    (adapters / name / "adapter.py").write_text(
        f"""\
from dataclasses import replace
from adapters.numpy import adapter

class Adapter(adapter.Adapter):
    def build(self, workload, optimizer, weights, seed):
        {build}
        super().build(workload, optimizer, weights, seed)
"""
    )
