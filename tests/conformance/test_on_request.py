"""Frameworks that `all` leaves out, by the rungs of `make check-adapter`, up to the networks of the catalogue.

Their environments are made here: nothing else in the suite needs them.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pytest
import suite
from conftest import PROJECT, ROOT

from runner.environments.definition import is_core
from tools.check_adapter import LARGE, OPTIMIZERS, Ladder

NAMES = ("paddle",)


@pytest.mark.parametrize("name", NAMES)
def test_every_rung_holds_before_the_large_networks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_core(PROJECT, name)
    monkeypatch.syspath_prepend(ROOT / "tests" / "imports")
    rungs = list(takewhile(lambda rung: rung[0] != LARGE, Ladder(suite, name, tmp_path).rungs()))
    assert OPTIMIZERS in dict(rungs)
    for _, ask in rungs:
        ask()  # raises Fallen: what is wrong, and what to look at
