"""CUDA_VISIBLE_DEVICES on the command line: what is planned, said and refused. Every form: `test_chosen_cards.py`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, run_runner
from stand_in import UUID, UUID_B, write_trace

PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
NONE_LEFT = "leaves none of this machine's 2 GPU(s): the CPU is used"


@pytest.fixture(scope="module")
def cards(library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables under which the driver lists two different cards."""
    folder = tmp_path_factory.mktemp("trace")
    return {
        "LD_LIBRARY_PATH": str(library),
        "NVML_TRACE": str(write_trace(folder / "trace.csv", [(0, {})])),
        "NVML_TRACE_B": str(write_trace(folder / "trace-b.csv", [(0, {})])),
        "NVML_DEVICES": "2",
        "NVML_PID_FILE": str(folder / "pid"),
    }


def plan(cards: dict[str, str], device: str, folder: Path, *more: str, **said: str) -> subprocess.CompletedProcess[str]:
    words = ("--plan", *TINY, "--framework", "numpy", "--batch-size", "8", "--device", device, *more)
    environment: dict[str, Any] = cards | said  # or its values could be the paths and numbers of other arguments
    return run_runner(*words, "--results", folder / "results", **environment)


@pytest.mark.parametrize(
    ("device", "said", "planned"),
    [
        ("cuda:1", {**PCI, "CUDA_VISIBLE_DEVICES": "1,0"}, UUID),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "GPU-9999"}, UUID_B),
        ("cpu", {"CUDA_VISIBLE_DEVICES": "MIG-1"}, "cpu"),
    ],
)
def test_devices_count_in_the_callers_list(
    device: str, said: dict[str, str], planned: str, cards: dict[str, str], tmp_path: Path
) -> None:
    done = plan(cards, device, tmp_path, **said)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if "batch     8" in line)
    assert f" {planned} " in line and not done.stderr


@pytest.mark.parametrize("said", ["", "7,0"])
def test_without_a_gpu_in_the_callers_list_auto_is_the_cpu_aloud_and_cuda_is_refused(
    said: str, cards: dict[str, str], tmp_path: Path
) -> None:
    done = plan(cards, "auto", tmp_path, CUDA_VISIBLE_DEVICES=said, **PCI)
    assert done.returncode == 0 and " cpu " in done.stdout
    assert done.stderr == f"runner: CUDA_VISIBLE_DEVICES={said!r} {NONE_LEFT}\n"
    refused(plan(cards, "cuda:0", tmp_path, CUDA_VISIBLE_DEVICES=said, **PCI), "leaves no GPU")


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stdout + done.stderr
    for word in (*words, "CUDA_VISIBLE_DEVICES"):
        assert word in done.stderr


@pytest.mark.parametrize(
    ("device", "said", "word"),
    [
        (UUID, "MIG-8f2c", "MIG slice"),
        (UUID, UUID_B, "does not list it"),
        ("auto", "1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"),  # two different cards: CUDA puts the fastest first
    ],
)
def test_a_list_that_cannot_be_followed_or_is_contradicted_is_refused_in_one_line(
    device: str, said: str, word: str, cards: dict[str, str], tmp_path: Path
) -> None:
    refused(plan(cards, device, tmp_path, CUDA_VISIBLE_DEVICES=said), word)


def test_a_card_in_mig_mode_is_refused_in_one_line(cards: dict[str, str], tmp_path: Path) -> None:
    done = plan(cards, UUID, tmp_path, "--devices", "2", NVML_MIG="1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"MIG mode is on for {UUID_B}" in done.stderr and "cannot be measured" in done.stderr
    assert plan(cards, "cpu", tmp_path, NVML_MIG="01").returncode == 0


def test_what_follows_an_entry_that_names_no_gpu_is_not_visible_and_that_is_said(
    cards: dict[str, str], tmp_path: Path
) -> None:
    done = plan(cards, "auto", tmp_path, CUDA_VISIBLE_DEVICES="1,5,0", **PCI)
    assert f" {UUID_B} " in done.stdout and "'5' is not a GPU here" in done.stderr
    refused(plan(cards, "cuda:1", tmp_path, CUDA_VISIBLE_DEVICES="1,5,0", **PCI), "leaves 1 GPU(s)")
