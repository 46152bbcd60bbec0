"""A seeded selection of `fuzz.py`, and each fault that it found, as a test."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from fuzz import Fault, read
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated
from readers import NAMES, reader
from real_files import probed

from workloads.records.stored import parse_result, refuse_evidence
from workloads.setting_words import describe_optimizer

EXAMPLES = 40


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_give_what_can_be_used_or_one_line(name: str) -> None:
    of = reader(name)

    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.sampled_from(of.texts), st.integers(0, 2**32))
    def holds(text: Any, seed: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of sums that are not numbers; such a figure is refused
            read(of, mutated(text, Random(seed)))

    holds()


def _set(*path: str | int, to: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("result", _set("wall_s", to=10**400)),
        ("result", _set("y\n" * 20_000, to=1)),
        ("result", _set("figures", "y\n" * 20_000, to=1)),
        ("result", _set("spec", "cell", "framework", to="y" * 20_000)),
        ("result", _set("schema_version", to="a\nb")),
        ("result", _set("started_at", to="y" * 20_000)),
        ("result", _set("spec", "placement", "threads", to=0)),
        ("result", _set("spec", "cell", "framework", to="../../x")),
        ("result", _set("spec", "task", "workload", to="../../x")),
        ("result", _set("spec", "inputs", to={"order": {"path": "../../x", "sha256": ""}})),
        ("result", _set("evidence", to={"loss": 1})),
        ("result", _set("evidence", "losses", to=[])),
        ("result", _set("end", to={"steps": 1})),
        ("result", _set("facts", to={"packages": ["a"]})),
        ("result", _set("epochs", to=[{"train_s": "a"}])),
        ("network", _set("layers", 0, "filters", to="y" * 20_000)),
        ("network", _set("layers", 0, "filters", to=10**400)),
        ("meter", _set("clocks", to=[{"monotonic_ns": None, "epoch_ns": 1}])),
        ("meter", _set("gpu", to={"metrics": {"power_mw": None}})),
        ("stable", _set("cells", to=[None])),
        ("answers", _set("frameworks", 0, "noise", "cautions", to=["/etc/passwd"])),
    ],
)
def test_what_was_found_is_refused_with_one_line(name: str, change: Callable[[Any], None]) -> None:
    of = reader(name)
    data = json.loads(json.dumps(probed().to_json()) if name == "result" else of.texts[0].content)
    change(data)
    assert read(of, json.dumps(data).encode()) is True


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("result", _set("evidence", "sizes", to={"dense.weight": None})),
        ("result", _set("evidence", "gradients", "", to=[1.0, 2.0])),
        ("answers", _set("conditions", "train_images", to=10**400)),
    ],
)
def test_what_no_table_can_show_is_left_out_of_it(name: str, change: Callable[[Any], None]) -> None:
    of = reader(name)
    data = json.loads(json.dumps(probed().to_json()) if name == "result" else of.texts[0].content)
    change(data)
    assert read(of, json.dumps(data).encode()) is False


def test_evidence_that_is_nested_without_end_is_one_reason() -> None:
    nested: Any = []
    for _ in range(sys.getrecursionlimit()):
        nested = [nested]
    with pytest.raises(ValueError, match=r"result\.json: "):
        refuse_evidence({"odd": nested}, "result.json")


def windowed(segments: list[list[int]]) -> bytes:
    """Events of a window from 1 to 5 ns."""
    ended = {"event": "window_ended", "t_ns": 5, "steps": 1, "images": 1, "segments": segments}
    return b'{"event": "window_started", "t_ns": 1}\n' + json.dumps(ended).encode() + b"\n"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("events", b'{"event": "started", "t_ns": 1}\nx\n', "events.jsonl: line 2: "),
        ("events", b"[1]\n", "events.jsonl: line 1: no event"),
        ("events", b"[" * 5000 + b"\n", "events.jsonl: line 1: nested without end"),
        ("events", b'{"event": "started", "t_ns": 5}\n{"event": "built", "t_ns": 4}\n', "line 2: t_ns 4 is earlier"),
        (
            "events",
            b'{"event": "window_ended", "t_ns": 5, "steps": 1, "images": 1, "segments": [[1, 5]]}\n' * 2,
            "before it began",
        ),
        (
            "events",
            b'{"event": "window_ended", "t_ns": 5, "steps": 1, "images": 1, "segments": [[1, 5]]}\n',
            "before it began",
        ),
        ("events", windowed([]), "line 2: "),
        ("events", windowed([[1, 3], [2, 4]]), "line 2: segments of the window that do not follow one another"),
        ("events", windowed([[2, 2]]), "line 2: segments of the window that do not follow one another"),
        ("events", windowed([[0, 3]]), "line 2: segments of the window that do not follow one another"),
        ("events", windowed([[2, 6]]), "line 2: segments of the window that do not follow one another"),
        ("samples", b"t_ns\n1\n", "samples.csv: line 1: no column cpu_s"),
        ("meter", b"\xff", "meter.json: "),
    ],
)
def test_the_line_and_the_reason_are_named(name: str, content: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        reader(name).read(content)


def test_events_that_a_kill_cut_short_are_left_out() -> None:
    whole = b'{"event": "started", "t_ns": 1}\n'
    torn = whole + b'{"event": "memory_told", "ba'
    assert len(reader("events").read(torn)) == 1
    assert len(reader("events").read(torn + whole)) == 2  # another worker wrote after it


def test_a_reader_that_raises_anything_else_is_a_fault() -> None:
    of = reader("stable")
    with pytest.raises(Fault, match="KeyError"):
        read(type(of)(of.texts, lambda content: {"b": 1}["a"]), b"")
    with pytest.raises(Fault, match="no line"):
        read(type(of)(of.texts, _refuse), b"")


def _refuse(_: bytes) -> None:
    raise ValueError("two\nlines")


def test_a_setting_that_a_file_leaves_out_is_its_default_in_words_too() -> None:
    data = json.loads(json.dumps(probed().to_json()))
    del data["spec"]["task"]["optimizer"]["momentum"]
    optimizer = parse_result(json.dumps(data).encode()).spec.task.optimizer
    assert describe_optimizer(optimizer) == describe_optimizer(probed().spec.task.optimizer)
