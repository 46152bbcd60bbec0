"""Runs on two devices may share a results folder: the start of one takes nothing from the other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
from conftest import PROJECT
from rich.console import Console

from runner import blocks
from runner.__main__ import lock_request, train
from runner.request import cli, inputs, parser
from runner.request.cli import Request
from runner.stable import STABLE_FILE
from workloads.records.batch_answers import ANSWERS_FILE
from workloads.records.files import write_json


class Begun(Exception):
    """The run is about to write its data."""


@pytest.fixture
def request_here(tmp_path: Path) -> Request:
    words = ["--framework", "numpy", "--device", "cpu", "--threads", "1", "--results", str(tmp_path)]
    return cli.build_request(parser.run_parser().parse_args(words), PROJECT)


@pytest.mark.parametrize("start", [train, blocks.measure])
def test_a_run_that_starts_leaves_a_file_that_another_is_writing(
    start: Callable[[Request, Console], object],
    request_here: Request,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flush = os.fsync

    def begin(*_: object) -> None:
        raise Begun

    def flush_while_another_starts(descriptor: int) -> None:
        with suppress(Begun), lock_request(request_here) as held:
            start(held, Console(file=StringIO()))
        flush(descriptor)

    for name in ("write_data", "write_all_data"):
        monkeypatch.setattr(inputs, name, begin)
    monkeypatch.setattr(os, "fsync", flush_while_another_starts)
    write_json(tmp_path / STABLE_FILE, {"stable": True})
    assert json.loads((tmp_path / STABLE_FILE).read_text()) == {"stable": True}


def test_what_a_killed_run_left_half_written_goes_with_the_next_that_holds_the_file(
    request_here: Request, tmp_path: Path
) -> None:
    for name in (STABLE_FILE, ANSWERS_FILE):
        (tmp_path / f"{name}.part").write_text("{")
    with lock_request(request_here, STABLE_FILE):
        assert [path.name for path in tmp_path.glob("*.part")] == [f"{ANSWERS_FILE}.part"]
