"""A library that is refused a thread raises SIGINT, as Ctrl-C does: the consequences, from worker to tables."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, TINY, by_cell, run_runner
from copied import add_framework
from limited import control_group

# What OpenBLAS 0.3 prints before it raises SIGINT (driver/others/blas_server.c).
OPENBLAS = (
    "OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2: Resource temporarily unavailable",
    "OpenBLAS blas_thread_init: ensure that your address space and process count limits are big enough (ulimit -a)",
    "OpenBLAS blas_thread_init: RLIMIT_NPROC 96364 current, 96364 max",
)


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    """(results folder, what was printed, exit code) of a framework whose libraries are refused a thread."""
    adapters, results = tmp_path_factory.mktemp("adapters"), tmp_path_factory.mktemp("results")
    add_framework(adapters, "threaded", label='"threaded"')
    (adapters / "threaded" / "adapter.py").write_text(
        "import signal\nfrom adapters.numpy import adapter\n\n"
        "class Adapter(adapter.Adapter):\n    def build(self, *arguments):\n"
        + "".join(f"        print({line!r})\n" for line in OPENBLAS)
        + "        signal.raise_signal(signal.SIGINT)\n"
    )
    done = run_runner(
        *TINY, "--adapters", adapters, "--framework", "threaded", "--device", "cpu", "--isolation", "here",
        "--batch-size", 32, "--epochs", 1, "--window", 0.3, "--threads", 1, "--results", results,
    )  # fmt: skip
    return results, done.stdout + done.stderr, done.returncode


def test_a_worker_that_raises_sigint_itself_is_a_failed_trial_and_nobodys_interruption(
    raised: tuple[Path, str, int],
) -> None:
    results, printed, code = raised
    assert code == 1 and "interrupted" not in printed
    (result,) = by_cell(results).values()
    assert result["status"] == "failed"
    assert result["reason"].startswith(f"the worker was killed by SIGINT; its last output: {OPENBLAS[0]}; last event: ")
    assert "it was refused a thread (threads and processes: " in result["reason"]


def test_tables_and_page_have_the_workers_words_beside_the_signal(raised: tuple[Path, str, int]) -> None:
    results, printed, _ = raised
    (result,) = by_cell(results).values()
    assert result["reason"] in printed
    assert OPENBLAS[0] in (results / "report" / "report.html").read_text()
    (row,) = csv.DictReader((results / "report" / "trials.csv").read_text().splitlines())
    assert row["reason"] == result["reason"]


@pytest.fixture
def one_process() -> Iterator[Path]:
    """A control group of this kernel that allows one process with one thread."""
    with control_group(["pids"], {"pids.max": "1"}) as group:
        yield group


@pytest.mark.parametrize(("program", "code"), [(["runner", "--list"], 0), (["reports", "nowhere"], 2)])
def test_our_own_programs_start_where_no_thread_is_to_be_had(one_process: Path, program: list[str], code: int) -> None:
    """They used to end with exit code 130: numpy's OpenBLAS wants a thread for each core."""
    enter = "import os, sys; open(sys.argv[1], 'w').write('0'); os.execv(sys.argv[2], sys.argv[2:])"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", enter, str(one_process / "cgroup.procs"), sys.executable, "-m", *program],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "OpenBLAS" not in done.stderr
