"""Checks before each trial: free space for it, and that everything that the run needs is still there."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import PROJECT, ROOT, make_spec, varied

from runner.environments import watch
from runner.environments.code import code_digest
from runner.launch import Local, Packages, Unavailable
from runner.project import Project
from runner.storage import CannotGoOn, Storage, estimate_needed_bytes
from workloads.records.job import ROOMS, InputFile, Kind

MIB = 2**20
SPEC = make_spec(inputs={"order": InputFile("inputs/order.npy", "0"), "weights": InputFile("inputs/weights.npz", "0")})
UNAVAILABLE = Unavailable("no such environment")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    (folder / "inputs").mkdir(parents=True)
    (folder / "inputs" / "order.npy").write_bytes(b"")
    (folder / "inputs" / "weights.npz").write_bytes(bytes(3 * MIB))
    return folder


def finish(results: Path, name: str, size: int, *, result: bool = True) -> None:
    (results / "trials" / name).mkdir(parents=True)
    (results / "trials" / name / "log.txt").write_bytes(os.urandom(size))
    if result:
        (results / "trials" / name / "result.json").write_text("{}")


def disk(monkeypatch: pytest.MonkeyPatch, free: int, files: int = 1000) -> None:
    status = SimpleNamespace(f_bavail=free // 4096, f_frsize=4096, f_files=10_000, f_favail=files)
    monkeypatch.setattr("runner.storage.os.statvfs", lambda _: status)


def test_a_first_trial_is_given_a_floor_and_later_ones_what_the_largest_finished_one_took(results: Path) -> None:
    floor = estimate_needed_bytes(results, SPEC)
    assert 12 * MIB < floor < 40 * MIB  # four copies of the weights, log, samples of its time limit, result
    finish(results, "unfinished", 50 * MIB, result=False)
    assert estimate_needed_bytes(results, SPEC) == floor
    finish(results, "small", MIB)
    finish(results, "large", 2 * MIB)
    assert 12 * MIB + 1.5 * 2 * MIB <= estimate_needed_bytes(results, SPEC) <= 12 * MIB + 1.5 * 2.1 * MIB < floor


def test_the_logits_of_all_evaluations_need_four_bytes_for_each_image_epoch_and_class(results: Path) -> None:
    (results / "inputs" / "labels.npy").write_bytes(bytes(4 * 1000))
    evaluated = replace(SPEC, inputs=SPEC.inputs | {"test_labels": InputFile("inputs/labels.npy", "0")})
    assert (
        estimate_needed_bytes(results, evaluated) - estimate_needed_bytes(results, SPEC)
        == 4 * 1000 * 10 * SPEC.passes.epochs
    )


def test_a_trial_that_would_not_fit_is_not_begun(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(results)
    finish(results, "large", 2 * MIB)
    disk(monkeypatch, 20 * MIB)
    storage.need(SPEC, None)
    disk(monkeypatch, 14 * MIB)
    with pytest.raises(CannotGoOn, match=rf"^{results}: 14\.0 MiB are free, the next trial may need 15\.\d: free some"):
        storage.need(SPEC, None)
    disk(monkeypatch, 20 * MIB, files=5)
    with pytest.raises(CannotGoOn, match="space for 5 files"):
        storage.need(SPEC, None)


def test_what_has_gone_in_mid_run_is_named(results: Path, tmp_path: Path) -> None:
    storage = Storage(results)
    python = tmp_path / "python"
    python.touch()
    here = Local(str(python), {}, PROJECT)
    storage.whole(SPEC, here)
    python.unlink()
    with pytest.raises(CannotGoOn, match=rf"^{python}: its environment was .*; the same command makes it again;"):
        storage.whole(SPEC, here)
    with pytest.raises(CannotGoOn, match=rf"^{python}: its environment was .*; name another with --python;"):
        storage.whole(SPEC, replace(here, conditions={"interpreter": {}}))
    (results / "inputs" / "order.npy").unlink()
    with pytest.raises(CannotGoOn, match=r"inputs/order\.npy: removed during the run"):
        storage.whole(SPEC, UNAVAILABLE)
    shutil.rmtree(results)
    with pytest.raises(CannotGoOn, match=rf"^{results}: removed or moved during the run"):
        storage.need(SPEC, UNAVAILABLE)
    results.mkdir()  # another one of its name, as a trial at work may make it
    with pytest.raises(CannotGoOn, match="removed"):
        storage.need(SPEC, UNAVAILABLE)


@pytest.fixture
def code(tmp_path: Path) -> Project:
    """A copy of the code that workers run, without byte code."""
    for room in ("workloads", "adapters"):
        shutil.copytree(ROOT / room, tmp_path / "code" / room, ignore=shutil.ignore_patterns("__pycache__", "data"))
    return Project.at(tmp_path / "code")


def test_code_or_packages_that_change_in_mid_run_end_it_and_what_means_the_same_does_not(
    results: Path, tmp_path: Path, code: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, marker = Storage(results), tmp_path / ".complete"
    python = tmp_path / "python"
    for path, text in ((marker, "packages"), (python, "")):
        path.write_text(text)
    computed: list[str] = []

    def digest(project: Project, name: str) -> str:
        computed.append(name)
        return code_digest(project, name)

    monkeypatch.setattr(watch, "code_digest", digest)
    here = Local(str(python), {}, code, packages=Packages((marker,), marker.read_text))
    spec = varied(SPEC, environment=f"packages-{code_digest(code, 'numpy')}")
    adapter = code.root / "adapters" / "numpy" / "adapter.py"
    text = adapter.read_text()

    def need() -> None:
        storage.whole(spec, here)

    need()
    need()
    assert computed == ["numpy"], "digests are computed again although no file changed"
    for meaning_the_same in (f"{text}\n# a comment\n", text):
        adapter.write_text(meaning_the_same)
        need()
    (code.root / "adapters" / "pytorch" / "layers.py").write_text("of another framework")
    need()
    for changed in (f"{text}\nADDED = 1\n", f"{text}\ndef half_writ"):
        adapter.write_text(changed)
        with pytest.raises(CannotGoOn, match=rf"^{adapter}: changed during the run") as told:
            need()
        assert "\n" not in str(told.value)
    adapter.write_text(text)
    need()
    marker.write_text("other packages")
    with pytest.raises(CannotGoOn, match=rf"^{marker}: changed during the run"):
        need()
    with pytest.raises(CannotGoOn, match=r"^the code or the packages of numpy: changed"):
        Storage(results).whole(spec, here)  # between the plan and the first trial


@pytest.mark.parametrize(("kind", "aside"), [(Kind.TRIAL, "attempts/{id}-1"), (Kind.STEPS, "steps/{id}-1-1")])
def test_an_attempt_during_which_the_packages_changed_is_put_aside_and_no_result_is_made_of_it(
    kind: Kind, aside: str, tmp_path: Path
) -> None:
    python, marker = tmp_path / "python", tmp_path / ".complete"
    for path in (python, marker):
        path.write_text("other packages")
    spec, here = make_spec(), Local(str(python), {}, PROJECT, packages=Packages((marker,), marker.read_text))
    folder = tmp_path / ROOMS[kind] / (spec.id if kind is Kind.TRIAL else f"{spec.id}-1")
    folder.mkdir(parents=True)
    with pytest.raises(CannotGoOn, match="changed during the run"):
        Storage(tmp_path).whole(spec, here, folder, kind)
    assert not folder.exists() and (tmp_path / aside.format(id=spec.id)).is_dir()


def test_a_full_disk_or_quota_is_named_with_the_folder(results: Path) -> None:
    storage = Storage(results)
    storage.filled(OSError(errno.EIO, "Input/output error"))
    for number in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(CannotGoOn, match=rf"^{results}: {os.strerror(number)}: free some space"):
            storage.filled(OSError(number, os.strerror(number)))
