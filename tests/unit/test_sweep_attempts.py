"""Attempts at a sweep's trials: none that was measured is lost, and a trial ends as it would on one machine."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import make_spec
from test_attempts import SPEC, plan, runs, session_of
from test_attempts import quiet as quiet  # a fixture

from runner.cluster.node import Parcel
from runner.cluster.sweep import Over, Sweep
from runner.gate.judge import Gate
from runner.request.block import TrialBlock
from workloads.own_names import name_node
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status

OK, FAILED, CONTENDED = Status.OK, Status.FAILED, Status.CONTENDED


class Node:
    """A node that runs blocks one after the other; `ends` are those of a trial's attempts, by framework."""

    def __init__(self, folder: Path, ends: dict[str, Sequence[Status]]) -> None:
        self.folder, self.ends = folder, ends
        self.ran: Counter[str] = Counter()
        self.arriving: deque[tuple[TrialBlock, Parcel | Over]] = deque()

    def slots(self) -> int:
        return 1

    def hosts(self) -> dict[str, str]:
        return {name_node("node17"): "node17"}

    def submit(self, block: TrialBlock) -> None:
        self.arriving.extend((block, self.run(spec)) for spec in block.trials)
        self.arriving.append((block, Over()))

    def run(self, spec: TrialSpec) -> Parcel:
        name = spec.cell.framework
        status = self.ends[name][self.ran[name]]
        self.ran[name] += 1
        folder = self.folder / str(self.ran[name]) / spec.id
        folder.mkdir(parents=True)
        (folder / "samples.csv").write_text(f"of {self.ran[name]}")
        reason = None if status is OK else f"attempt {self.ran[name]}"
        machine = {"node": name_node("node17")}
        result = TrialResult(spec, status, reason, "2026-01-01T00:00:00+00:00", 1.0, machine=machine)
        return Parcel.pack(result.to_json(), {}, folder, self.folder / spec.probe_id)

    def arrival(self) -> tuple[TrialBlock, Parcel | Over]:
        return self.arriving.popleft()


def spec_of(framework: str) -> TrialSpec:
    return make_spec(framework=framework, epochs=1, inputs=SPEC.inputs)


def swept(tmp_path: Path, ends: dict[str, Sequence[Status]], *retried: Status) -> tuple[list[TrialResult], str]:
    """(results, what was printed) of a sweep whose one block has a trial of each framework."""
    specs = [spec_of(framework) for framework in ends]
    results = tmp_path / "results"
    results.mkdir()
    opened, printed = session_of(results, specs, retry=frozenset(retried))
    node: Any = Node(tmp_path / "node", ends)
    found = Sweep(opened, plan(*specs), node).run()
    assert not node.arriving
    return found, printed.getvalue()


def aside(tmp_path: Path, results: str = "results") -> dict[str, str]:
    """{folder: the attempt in it} of all attempts that were put aside."""
    return {path.parent.name: path.read_text() for path in tmp_path.glob(f"{results}/attempts/*/samples.csv")}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("status", [FAILED, CONTENDED, Status.TIMEOUT])
def test_the_other_trials_of_a_block_arrive_while_its_first_is_run_again(tmp_path: Path, status: Status) -> None:
    ends: dict[str, Sequence[Status]] = {"numpy": (status, OK), "pytorch": (OK,), "mxnet": (OK,)}
    found, printed = swept(tmp_path, ends, status)
    assert [(each.spec.cell.framework, each.status) for each in found] == [(name, OK) for name in ends]
    assert "is rejected" not in printed and "sent out again" not in printed
    first = found[0].spec.id
    assert aside(tmp_path) == {f"{first}-1": "of 1"}
    assert (tmp_path / "results" / "trials" / first / "samples.csv").read_text() == "of 2"


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("ends", "last"),
    [
        ((CONTENDED, FAILED, OK), 3),
        ((CONTENDED, FAILED, FAILED, FAILED, FAILED), 1),
        ((FAILED, CONTENDED, OK), 3),
        ((FAILED, FAILED, FAILED, CONTENDED, FAILED, FAILED, FAILED, FAILED), 4),
    ],
)
def test_a_trial_that_is_disturbed_and_run_again_ends_in_a_sweep_as_on_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: Sequence[Status], last: int
) -> None:
    """Its result is the attempt `last`; all others are kept."""
    (found,), _ = swept(tmp_path, {"numpy": ends}, FAILED)
    told = [(end, None if end is OK else f"attempt {number}") for number, end in enumerate(ends, start=1)]
    ran = runs(monkeypatch, *told)
    local, spec = tmp_path / "local", spec_of("numpy")
    local.mkdir()
    opened, _ = session_of(local, [spec], retry=frozenset({FAILED}))
    (expected,) = opened.run(plan(spec))
    assert (found.status, found.reason) == (expected.status, expected.reason) == told[last - 1]
    assert len(ran) == len(ends) and aside(tmp_path, "results") == aside(tmp_path, "local")
    assert (tmp_path / "results" / "trials" / spec.id / "samples.csv").read_text() == f"of {last}"


@pytest.mark.usefixtures("quiet")
def test_an_attempt_that_was_put_aside_is_not_judged_with_the_trials_that_arrive_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is gone, so a changed verdict could not be stored."""

    def judge(_: Gate, trials: Iterable[TrialResult]) -> list[TrialResult]:
        judged = list(trials)
        return [replace(each, reason=f"one of {len(judged)}") for each in judged]

    monkeypatch.setattr(Gate, "judge", judge)
    found, _ = swept(tmp_path, {"numpy": (FAILED, OK), "pytorch": (OK,)}, FAILED)
    assert [(each.status, each.reason) for each in found] == [(OK, "one of 2")] * 2


@pytest.mark.usefixtures("quiet")
def test_a_nodes_host_is_printed_once_and_not_stored(tmp_path: Path) -> None:
    _, printed = swept(tmp_path, {"numpy": (OK,), "pytorch": (OK,)})
    assert printed.count("node17") == 1 and f"{name_node('node17')} is the host node17\n" in printed
    stored = [path.read_text() for path in (tmp_path / "results").rglob("result.json")]
    assert len(stored) == 2 and "node17" not in "".join(stored)
