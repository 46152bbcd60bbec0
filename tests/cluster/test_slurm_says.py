"""What is made of what Slurm says of a partition, and of a job that it does not take. `sinfo` is a script here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import PROJECT, make_spec

from runner.cluster.block import Block
from runner.cluster.engine import EngineUnavailable, Over, Wanted
from runner.cluster.ship import Parcel
from runner.cluster.slurm_partition import Partition, minutes, room_of, told_of
from runner.storage import CannotGoOn
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status

slurm_engine = pytest.importorskip("runner.cluster.slurm_engine", reason="submitit is not installed")


@pytest.mark.parametrize(
    ("said", "limit_min"),
    [("infinite", None), ("30:00", 30), ("1:30:00", 90), ("2-00:30:00", 2910), ("n/a", None), ("", None)],
)
def test_a_limit_of_time_is_read_as_slurm_writes_it(said: str, limit_min: int | None) -> None:
    assert minutes(said) == limit_min


@pytest.mark.parametrize(
    ("cpus", "gres", "room"),
    [
        ("64", "(null)", (64, 0)),
        ("64+", "gpu:4", (64, 4)),
        ("8", "gpu:a100:4(S:0-1)", (8, 4)),
        ("8", "gpu:a100:2(S:0),gpu:v100:1,nvme:1", (8, 3)),
        ("?", "gpu", (0, 0)),
    ],
)
def test_a_nodes_cpus_and_gpus_are_read(cpus: str, gres: str, room: tuple[int, int]) -> None:
    assert room_of([cpus, "infinite", gres]) == room


def says(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, exit_code: int = 0) -> None:
    script = folder / "sinfo"
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {exit_code}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


NODES = "4|1-00:00:00|gpu:a100:2(S:0)\n16|1-00:00:00|(null)"


@pytest.mark.parametrize(
    ("wanted", "slots"), [(Wanted(4), 5), (Wanted(8), 2), (Wanted(1, 1), 2), (Wanted(4, 1), 1), (Wanted(2, 1), 2)]
)
def test_blocks_are_reckoned_by_node(
    wanted: Wanted, slots: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(tmp_path, monkeypatch, NODES)
    assert told_of("long", wanted) == Partition(slots, 24 * 60)


@pytest.mark.parametrize(
    ("text", "wanted", "reason"),
    [
        (NODES, Wanted(32), "no node has 32 CPUs for a trial"),
        (NODES, Wanted(8, 1), "no node has 8 CPUs and a GPU"),
        ("", Wanted(1), "knows no such partition"),
    ],
)
def test_what_no_node_can_run_is_one_line(
    text: str, wanted: Wanted, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(tmp_path, monkeypatch, text)
    with pytest.raises(EngineUnavailable, match=reason) as raised:
        told_of("long", wanted)
    assert "\n" not in str(raised.value)


class Taken:
    """A job that has not ended."""

    job_id = "1"

    def done(self, force_check: bool = False) -> bool:
        return False

    def cancel(self, check: bool = True) -> None:
        pass


def blocks() -> list[Block]:
    return [Block((make_spec(threads=1, batch_size=size),), None) for size in (8, 16)]


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_engine, "CLUSTER", "local")


@pytest.mark.usefixtures("local")
def test_a_job_that_is_one_too_many_waits_until_another_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, submitted = [1], list[str]()

    def submit(executor: object, function: object, block: dict[str, object], *arguments: object) -> object:
        if len(submitted) >= most[0]:
            raise slurm_engine.FailedJobError("sbatch: error: QOSMaxSubmitJobPerUserLimit")
        submitted.append(Block.from_json(block).name)
        job = Taken()
        job.paths = type("Paths", (), {"result_pickle": tmp_path / f"result-{len(submitted)}"})  # type: ignore[attr-defined]
        return job

    monkeypatch.setattr(slurm_engine.submitit.AutoExecutor, "submit", submit)
    engine = slurm_engine.SlurmEngine("long", PROJECT, tmp_path, Wanted(1))
    first, second = blocks()
    engine.submit(first)
    engine.submit(second)
    assert submitted == [first.name] and list(engine.waiting) == [second]
    most[0] = 2
    monkeypatch.setattr(Taken, "done", lambda self, force_check=False: True)
    ended, over = engine.arrival()
    assert ended is first and isinstance(over, Over) and "ended without a word" in (over.reason or "")
    assert submitted == [first.name, second.name] and not engine.waiting
    engine.close()


@pytest.mark.usefixtures("local")
def test_where_no_job_is_taken_at_all_the_run_ends_with_slurms_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(*arguments: object) -> object:
        raise slurm_engine.FailedJobError("sbatch: error: invalid account\nmore")

    monkeypatch.setattr(slurm_engine.submitit.AutoExecutor, "submit", submit)
    engine = slurm_engine.SlurmEngine("long", PROJECT, tmp_path, Wanted(1))
    with pytest.raises(CannotGoOn, match="sbatch: error: invalid account") as raised:
        engine.submit(blocks()[0])
    assert "\n" not in str(raised.value)
    engine.close()
    assert not list((tmp_path / "jobs").glob("*/*"))


def left(results: Path, spec: TrialSpec, began: str, device: str = "cpu") -> Path:
    """A parcel of a driver that was killed."""
    folder = results / "node" / spec.id
    folder.mkdir(parents=True, exist_ok=True)
    result = TrialResult(spec, Status.FAILED, "made up", began, 1.0)
    parcel = Parcel.of(result.to_json(), {}, folder, results / "node" / spec.probe_id)
    path = results / "jobs" / device / "earlier" / "job" / f"{spec.id}=1.parcel"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(parcel.to_bytes())
    return path


@pytest.mark.usefixtures("local")
def test_of_what_a_killed_driver_left_only_what_it_had_not_stored_is_taken_in(tmp_path: Path) -> None:
    stored, attempt, new = (make_spec(threads=1, batch_size=size) for size in (8, 16, 32))
    paths = [left(tmp_path, spec, "2026-11-25T10:00:00+00:00") for spec in (stored, attempt, new)]
    for spec, room in ((stored, f"trials/{stored.id}"), (attempt, f"attempts/{attempt.id}-1")):
        (tmp_path / room).mkdir(parents=True)
        result = TrialResult(spec, Status.FAILED, "made up", "2026-11-25T10:00:00+00:00", 1.0)
        (tmp_path / room / "result.json").write_text(json.dumps(result.to_json()))
    other = left(tmp_path, new, "2026-11-25T11:00:00+00:00", "cuda")
    broken = paths[0].with_name("broken=1.parcel")
    broken.write_bytes(b"[" * 100_000)
    (paths[0].parent / "folder=1.parcel").mkdir()
    engine = slurm_engine.SlurmEngine("long", PROJECT, tmp_path, Wanted(1))
    assert list(engine.kept) == [new.id]
    assert [path.exists() for path in paths] == [False, False, True]
    assert other.exists() and broken.exists(), "nothing else is touched"
    engine.close()
    assert paths[2].exists()
