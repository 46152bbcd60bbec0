"""The worker that asks an imported network's source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import make_spec
from each import for_each
from planted_imports import NETWORK, OPTIMIZER, SOURCE
from test_source_proof import IMAGES, LABELS, ORDER, SEED, WEIGHTS, Module, Verbs, opened

from adapters.shared import PROBED, make_checked, without_layers
from adapters.worker import first_probe, source_voter
from adapters.worker.source_voter import SourceVoter
from workloads.datasets import Images, Split
from workloads.records.job import Job, Kind
from workloads.records.network import OwnCode
from workloads.records.source_map import Mask, SourceMap
from workloads.spec import OptimizerSpec


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


class Making(Module):
    """Makes the model of the code first, of which only the number of logits counts."""

    def build_model(self, make_model: Callable[[int], Any], own: OwnCode, optimizer: OptimizerSpec, seed: int) -> int:
        make_checked(make_model, own, (int, np.ndarray), lambda logits: np.zeros((PROBED, logits)))
        assert without_layers(own).loss == ("binary-cross-entropy" if own.outputs == 1 else "softmax-cross-entropy")
        return super().build_model(make_model, own, optimizer, seed)


def make_one_logit(classes: int) -> int:
    assert classes == 2
    return 1


@for_each("classes, logits, make", [(10, 11, lambda classes: classes + 1), (2, 1, make_one_logit), (4, None, int)])
def test_a_function_is_called_with_the_classes_of_its_import_whatever_its_logits_are(
    classes: int, logits: int | None, make: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = opened(Making())
    monkeypatch.setattr(Verbs, "maker", lambda *_: lambda classes: make(classes))
    source = replace(SOURCE, code=replace(SOURCE.code, classes=classes, logits=logits))
    voter = SourceVoter(adapter, Verbs(adapter), source, Path("net.py"))
    assert voter.facts((NETWORK, OPTIMIZER, WEIGHTS, SEED), IMAGES).parameters == NETWORK.parameter_count


def test_a_map_from_before_logits_were_counted_is_read() -> None:
    stored = SOURCE.to_json()
    del stored["code"]["logits"]
    assert SourceMap.from_json(stored).code.outputs == SOURCE.code.classes


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
