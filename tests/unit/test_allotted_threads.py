"""Threads that the caller's environment leaves: respected, or contradicted aloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.machine import allotment, description
from runner.request.parser import BadInput
from runner.request.placement import list_notes, place_study
from workloads.study import Study
from workloads.study_file import read

QUICK = Path(__file__).parents[2] / "workloads" / "studies" / "quick.toml"


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "count_cores", lambda: 8)
    for name in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"):
        monkeypatch.delenv(name, raising=False)


def threads(asked: int | None, folder: Path) -> tuple[int, list[str]]:
    """(the threads of a trial, the lines that are printed)."""
    study = study_of(asked)
    return place_study(study, [], None, "venv", folder).threads, list(list_notes(study, []))


def study_of(asked: int | None) -> Study:
    return read(QUICK).changed(threads=asked, device="cpu")


@pytest.mark.parametrize(
    ("wished", "allotted", "left", "said"),
    [
        (None, None, 8, None),
        ("3", None, 3, "OMP_NUM_THREADS=3"),
        ("4,2", None, 4, "OMP_NUM_THREADS=4"),
        (None, "2", 2, "SLURM_CPUS_PER_TASK=2"),
        ("3", "2", 2, "SLURM_CPUS_PER_TASK=2"),
        ("16", None, 8, None),
        ("0", "many", 8, None),  # OpenMP also ignores such a value
    ],
)
def test_the_default_is_the_least_of_what_is_left_and_that_is_said(
    wished: str | None, allotted: str | None, left: int, said: str | None, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    for name, value in (("OMP_NUM_THREADS", wished), ("SLURM_CPUS_PER_TASK", allotted)):
        if value is not None:
            monkeypatch.setenv(name, value)
    expected = [] if said is None else [f"{said}: trials use {left} of 8 cores"]
    assert threads(None, tmp_path) == (left, expected)
    assert allotment.count_threads() == left


def test_more_threads_than_the_callers_wish_are_taken_aloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads(4, tmp_path) == (4, ["--threads 4 overrides OMP_NUM_THREADS=2"])
    assert threads(1, tmp_path) == (1, [])


def test_more_threads_than_slurm_gives_are_refused_but_for_trials_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")
    assert threads(2, tmp_path) == (2, [])
    with pytest.raises(BadInput, match="--threads 3: SLURM_CPUS_PER_TASK=2; ask Slurm for more"):
        threads(3, tmp_path)
    assert place_study(study_of(3), [], None, "venv", tmp_path, elsewhere=True).threads == 3
    assert list(list_notes(study_of(None), [], elsewhere=True)) == []
