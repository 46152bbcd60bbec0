"""The worker that asks an imported network's source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import make_spec
from planted_imports import NETWORK, OPTIMIZER, SOURCE
from test_source_proof import IMAGES, LABELS, ORDER, SEED, WEIGHTS, Module, Verbs, opened

from adapters.worker import first_probe, source_voter
from adapters.worker.source_voter import SourceVoter
from workloads.datasets import Images, Split
from workloads.records.job import Job, Kind
from workloads.records.source_map import Mask


@dataclass
class OneModule(Verbs):
    """A user's file whose function returns the same module at each call: what was stopped stays so."""

    adapter: Module
    stopped: bool = False

    def stop_masks(self) -> None:
        self.stopped = True
        super().stop_masks()

    def list_masks(self, images: Images) -> list[Mask]:
        return [] if self.stopped else super().list_masks(images)


def test_a_module_that_is_made_once_tells_its_masks_before_they_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = opened(Module())
    verbs, task = OneModule(adapter), (NETWORK, OPTIMIZER, WEIGHTS, SEED)
    prepared = SimpleNamespace(
        images=lambda epoch: IMAGES, train=Split(IMAGES, LABELS), order=ORDER[None], own=("net.py", SOURCE.code),
        task=task,
    )  # fmt: skip
    voter = SourceVoter(adapter, verbs, SOURCE, Path("net.py"))
    monkeypatch.setattr(first_probe, "prepare", lambda *_: prepared)
    monkeypatch.setattr(source_voter, "open_voter", lambda *_: (voter, task))
    written: dict[str, Any] = {}
    events = SimpleNamespace(write=lambda event, **fields: written.update(fields))
    first_probe.run(adapter, Job(Kind.PROBE, make_spec()), tmp_path, events)  # type: ignore[arg-type]
    assert verbs.stopped and len(written["source"]["masks"]) == len(Verbs(adapter).list_masks(IMAGES)) > 0
