"""Blocks of trials that are handed out together, how they travel, and which cores they have."""

from __future__ import annotations

import hashlib
import io
import os
import selectors
import subprocess
import sys
import tarfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import make_spec

from runner.cluster import node
from runner.cluster.node import Damaged, Parcel
from runner.machine import locks
from runner.request.block import TrialBlock, build_blocks
from workloads.own_names import find_own_homes, find_own_hosts, name_node
from workloads.processor_time import list_hyperthreads
from workloads.records.files import EVENTS_FILE, LOGS
from workloads.records.job import Draw, InputFile
from workloads.records.result import TrialResult
from workloads.records.status import Status

SPEC = make_spec(threads=1)


def parcel(tmp_path: Path) -> Parcel:
    folder, probe = tmp_path / "node" / SPEC.id, tmp_path / "node" / SPEC.probe_id
    for each in (folder, probe):
        each.mkdir(parents=True)
        (each / "events.jsonl").write_text(f"{each.name}\n")
    result = TrialResult(SPEC, Status.FAILED, "made up", "2026-11-25T00:00:00+00:00", 1.0)
    return Parcel.pack(result.to_json(), {}, folder, probe)


def test_frameworks_of_a_batch_size_and_repeat_are_one_block_and_no_other_trial_is_in_it() -> None:
    specs = [
        make_spec(framework=framework, batch_size=size, repeat=repeat, seed=repeat)
        for repeat in (0, 1)
        for size in (32, 64)
        for framework in ("pytorch", "mxnet@tuned")
    ]
    others = make_spec(framework="pytorch", epochs=3)
    found = build_blocks([*specs, others], "abc")
    assert [[spec.cell.framework for spec in block.trials] for block in found] == [["pytorch", "mxnet@tuned"]] * 4 + [
        ["pytorch"]
    ]
    assert sorted(spec.id for block in found for spec in block.trials) == sorted(s.id for s in [*specs, others])


def test_a_block_is_the_same_behind_its_way_as_json() -> None:
    block = TrialBlock(
        (SPEC, replace(SPEC, draw=Draw(1, 1), inputs={"order": InputFile("inputs/o.npy", "0" * 64)})), None
    )
    back = TrialBlock.from_json(block.to_json())
    assert back == block and [spec.id for spec in back.trials] == [spec.id for spec in block.trials]


def test_a_parcel_arrives_whole_in_its_place(tmp_path: Path) -> None:
    sent, results = parcel(tmp_path), tmp_path / "results"
    results.mkdir()
    with node.arriving(sent, results) as found:
        node.place(found[node.TRIAL], results / "trials" / sent.trial)
        node.keep_probe(found[node.PROBE], results, sent.probe)
    assert (results / "trials" / SPEC.id / "events.jsonl").read_text() == f"{SPEC.id}\n"
    assert (node.probe_folder(results, SPEC.probe_id) / "events.jsonl").is_file()
    assert sent.read_result().reason == "made up"
    assert sorted(path.name for path in results.iterdir()) == ["probes", "trials"]


def test_each_nodes_answer_to_a_probe_is_kept_once(tmp_path: Path) -> None:
    """A check looks for the answer that a trial was judged by; those of unlike machines differ in their last digits."""
    for number, answer in enumerate(("of one", "of another", "of one", "of another")):
        (arrived := tmp_path / str(number)).mkdir()
        (arrived / EVENTS_FILE).write_text(answer)
        node.keep_probe(arrived, tmp_path / "results", SPEC.probe_id)
        assert not arrived.exists()
    kept = {path.name: (path / EVENTS_FILE).read_text() for path in (tmp_path / "results" / "probes").iterdir()}
    assert kept == {SPEC.probe_id: "of one", f"{SPEC.probe_id}-1": "of another"}


def test_logs_of_a_node_arrive_without_its_host_and_its_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that publishes them does not know these names."""
    monkeypatch.setenv("HOME", "/cluster/people/ann")
    monkeypatch.setattr("socket.gethostname", lambda: "node17.cluster.example.org")
    find_own_homes.cache_clear()
    find_own_hosts.cache_clear()
    try:
        folder, probe, results = tmp_path / "node" / SPEC.id, tmp_path / "node" / SPEC.probe_id, tmp_path / "results"
        results.mkdir()
        for each in (folder, probe):
            each.mkdir(parents=True)
            for log in LOGS:
                (each / log).write_text("/cluster/people/ann/x.py on node17, node17.cluster.example.org\n")
            (each / "events.jsonl").write_text("{}\n")
        result = TrialResult(SPEC, Status.FAILED, "made up", "2026-11-25T00:00:00+00:00", 1.0)
        with node.arriving(Parcel.pack(result.to_json(), {}, folder, probe), results) as found:
            for each in found.values():
                assert sorted(path.name for path in each.iterdir()) == sorted(["events.jsonl", *LOGS])
                assert {(each / log).read_text() for log in LOGS} == {"~/x.py on HOST, HOST\n"}
        assert len(found) == 2
    finally:
        find_own_homes.cache_clear()
        find_own_hosts.cache_clear()


def test_the_reason_of_a_block_that_failed_names_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "node17.cluster.example.org")
    monkeypatch.setattr("socket.gethostname", lambda: "node17.cluster.example.org")
    find_own_hosts.cache_clear()
    try:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        (tmp_path / "runner").mkdir()
        (tmp_path / "runner" / "__init__.py").touch()
        (tmp_path / "runner" / "cluster.py").write_text("raise SystemExit('no GPU on node17')")
        with pytest.raises(node.BlockFailed) as raised:
            list(node.run(TrialBlock((SPEC,), None), tmp_path, lambda file: b""))
        assert str(raised.value) == f"{name_node('node17.cluster.example.org')}: exit code 1: no GPU on HOST"
        assert not list(tmp_path.rglob("*node17*")), "its folder there is in paths that logs name"
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        monkeypatch.setattr("os.path.expanduser", lambda path: path)
        with pytest.raises(node.BlockFailed, match=r"^node-[0-9a-f]{8}: this user has no home directory"):
            node.find_node_folder()
    finally:
        find_own_hosts.cache_clear()


@pytest.mark.parametrize("change", ["content", "name", "result", "path", "link"])
def test_what_was_changed_on_the_way_is_refused_and_nothing_of_it_is_stored(tmp_path: Path, change: str) -> None:
    sent, results = parcel(tmp_path), tmp_path / "results"
    results.mkdir()
    if change == "content":
        sent = replace(sent, content=sent.content[:-1] + b"x")
    elif change == "name":
        sent = replace(sent, trial="../../x")
    elif change == "result":
        sent = replace(sent, trial=make_spec(seed=7).id)
    else:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as packed:
            member = tarfile.TarInfo("../outside" if change == "path" else "trial/link")
            member.type, member.linkname = (tarfile.REGTYPE, "") if change == "path" else (tarfile.SYMTYPE, "/etc")
            packed.addfile(member, io.BytesIO())
        content = buffer.getvalue()
        sent = replace(sent, content=content, sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(Damaged) as raised, node.arriving(sent, results):
        sent.read_result()
    assert "\n" not in str(raised.value)
    assert not list(results.iterdir()) and not (tmp_path / "outside").exists()


def test_an_input_travels_once_a_node_and_is_checked_when_it_arrives(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    content, asked = b"order", []
    file = InputFile("inputs/order.npy", hashlib.sha256(content).hexdigest())

    def fetch(wanted: InputFile) -> bytes:
        asked.append(wanted)
        return content

    for _ in range(2):
        node.bring(file, tmp_path, fetch)
    assert asked == [file] and (tmp_path / file.path).read_bytes() == content
    with pytest.raises(node.BlockFailed, match="sha256 expected"):
        node.bring(replace(file, path="inputs/other.npy", sha256="1" * 64), tmp_path, fetch)
    assert not (tmp_path / "inputs/other.npy").exists()


HOLDER = """
import sys, time
from runner.machine import locks
with locks.free_cores(1) as cores:
    print(*cores, flush=True)
    sys.stdin.readline()
"""


def test_two_blocks_on_one_machine_never_have_the_same_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A core's hyperthreads are one core: each block takes the first that is free."""
    monkeypatch.setenv(locks.SPACE_VARIABLE, str(tmp_path))
    threads = sorted(os.sched_getaffinity(0))
    allowed = sorted({min({core, *list_hyperthreads((core,))} & {*threads}) for core in threads})
    holders = [
        subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(len(allowed) + 1)
    ]
    try:
        taken: list[tuple[subprocess.Popen[str], int]] = []
        with selectors.DefaultSelector() as waiting:
            for each in holders:
                assert each.stdout
                waiting.register(each.stdout, selectors.EVENT_READ, each)
            while len(taken) < len(allowed):
                for key, _ in waiting.select(30):
                    taken.append((key.data, int(key.data.stdout.readline())))
                    waiting.unregister(key.fileobj)
            assert sorted(core for _, core in taken) == allowed
            assert not waiting.select(1), "one more than there are cores has to wait"
            first, core = taken[0]
            first.communicate("\n", timeout=30)
            [(key, _)] = waiting.select(30)
            assert int(key.data.stdout.readline()) == core
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def test_the_other_hyperthread_of_a_held_core_is_not_free_to_another_block(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(locks.SPACE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(locks, "list_hyperthreads", lambda cores: tuple(core ^ 4 for core in cores))  # 0 and 4, 1 and 5
    with ExitStack() as first, ExitStack() as second:
        assert locks._taken(first, range(8), 3) == [0, 1, 2]
        assert locks._taken(second, range(8), 8) == [3, 7], "both threads of a core that nobody else has"


def test_more_cores_than_there_are_is_no_endless_wait() -> None:
    with pytest.raises(locks.InUse, match="--threads"), locks.free_cores(len(os.sched_getaffinity(0)) + 1):
        pass
