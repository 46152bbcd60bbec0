"""The reader of a run's output may go at any time: the run goes on. A terminal that is gone ends it as Ctrl-C does."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from conftest import PATIENT, ROOT, TINY, by_cell, run_runner
from copied import add_framework, copy_project
from installed import pin, wheel
from rich.console import Console

from runner.__main__ import make_report
from runner.project import Project
from runner.request.block import Shard

NUMPY = (
    *(*TINY, *PATIENT, "--framework", "numpy", "--device", "cpu", "--isolation", "here"),
    *("--batch-size", "256", "512", "--epochs", "1", "--window", "0.3"),
)
ENDLESS = ("--epochs", "100000")  # minutes


def command(results: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "runner", *NUMPY, *more, "--results", str(results)]


def exit_code(results: Path) -> int:
    """Exit code of a finished run whose two trials are both there: another process may have been on the cores."""
    statuses = [result["status"] for result in by_cell(results).values()]
    assert len(statuses) == 2 and {*statuses} <= {"ok", "contended"}
    return 0


def test_a_reader_that_has_seen_enough_changes_neither_the_run_nor_its_report(tmp_path: Path) -> None:
    """Closes the pipe of both streams as `| head -1` does; the report's process has the same output."""
    with subprocess.Popen(
        command(tmp_path), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as run:
        assert run.stdout
        run.stdout.readline()
        run.stdout.close()
        assert run.wait(300) == exit_code(tmp_path)
    assert (tmp_path / "report" / "report.html").is_file() and (tmp_path / "report" / "report.md").is_file()


def test_output_that_is_closed_or_full_from_the_start_changes_nothing(tmp_path: Path, lean: Path) -> None:
    for streams in (">&- 2>&-", "> /dev/full 2>&1"):
        done = subprocess.run(
            ["bash", "-c", f'"$@" {streams}', "bash", *command(tmp_path / streams.split()[-1])], cwd=lean, timeout=300
        )
        assert done.returncode == exit_code(tmp_path / streams.split()[-1])
    refused = subprocess.run(["bash", "-c", '"$@" >&- 2>&-', "bash", *command(tmp_path, "--epochs", "0")], cwd=lean)
    assert refused.returncode == 2


def running_worker(runner: psutil.Process, within_s: float = 60) -> psutil.Process:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        for child in runner.children():
            with suppress(psutil.NoSuchProcess):  # the gate's have ended by now
                words = child.cmdline()
                if "adapters.worker" in words and "/trials/" in words[-1]:
                    return child
        time.sleep(0.05)
    raise AssertionError("no worker")


@pytest.mark.parametrize("ignored", [False, True], ids=["terminal", "nohup"])
def test_a_terminal_that_goes_ends_the_run_as_ctrl_c_does_but_for_nohup(
    tmp_path: Path, lean: Path, ignored: bool
) -> None:
    words = command(tmp_path, *(() if ignored else ENDLESS))
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(lean)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
        os.execv(words[0], words)
    worker = running_worker(psutil.Process(pid))
    os.close(terminal)  # the kernel sends SIGHUP to the session's leader; what is written from here on is an error
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == (exit_code(tmp_path) if ignored else 130)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    assert ignored or not by_cell(tmp_path)


def test_the_report_of_a_run_names_its_folder_as_it_was_given(tmp_path: Path) -> None:
    """No page holds the folders above it, which the user may not want to show."""
    (tmp_path / "compare" / "trials" / "unfinished").mkdir(parents=True)  # also the name of a command of reports
    done = run_runner(*NUMPY, "--results", "compare", cwd=tmp_path)
    assert done.returncode == exit_code(tmp_path / "compare"), done.stdout + done.stderr
    page = (tmp_path / "compare" / "report" / "report.html").read_text()
    assert "compare/trials/unfinished" in page and str(tmp_path) not in page
    assert "All tables here: python -m reports ./compare --tables" in done.stdout


@pytest.mark.parametrize(
    ("results", "typed"), [("compare", "./compare"), ("my results", "'./my results'"), ("/a b", "'/a b'")]
)
def test_the_command_that_makes_the_report_later_can_be_typed_as_it_is_printed(
    results: str, typed: str, tmp_path: Path
) -> None:
    """`compare` is also a command of reports. A shard makes no report, and neither does an image."""
    for root, shard in ((ROOT, Shard(1, 2)), (tmp_path, None)):
        text = io.StringIO()
        request: Any = SimpleNamespace(results=Path(results), shard=shard, project=Project.at(root))
        assert make_report(request, Console(file=text, highlight=False, markup=False, soft_wrap=True)) == 0
        assert text.getvalue().endswith(f": python -m reports {typed}\n")


def begin_making(folder: Path) -> subprocess.Popen[str]:
    """Start to make the environment of a framework of one package, in a copy of the project, where pip installs it."""
    project, wheels = copy_project(folder / "project"), folder / "wheels"
    add_framework(project / "adapters", "mine", smoke='"import asked"')
    wheels.mkdir()
    pin(Project.at(project), "mine", wheel(wheels, "asked", "1.0"))
    (folder / "uv").write_text("#!/bin/sh\nexit 2\n")
    (folder / "uv").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    places = {"PYTHONPATH": str(project), "PATH": path, "PIP_FIND_LINKS": str(wheels), "PIP_NO_INDEX": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "runner.environments", "cpu", "mine"],
        cwd=project,
        env=os.environ | places,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_reader_that_has_seen_enough_does_not_keep_an_environment_from_being_made(tmp_path: Path) -> None:
    """`make setup | head -1` closes the pipe so."""
    with begin_making(tmp_path) as making:
        assert making.stdout and making.stderr and "making" in making.stdout.readline()
        making.stdout.close()
        said = making.stderr.read()
        assert (making.wait(300), said) == (0, "")
    assert (tmp_path / "project" / ".envs" / "mine-cpu" / ".complete").is_file()


def test_ctrl_c_ends_the_making_of_environments_in_one_line(tmp_path: Path) -> None:
    with begin_making(tmp_path) as making:
        assert making.stdout and "making" in making.stdout.readline()
        making.send_signal(signal.SIGINT)
        _, said = making.communicate(timeout=60)
    assert (making.returncode, said) == (130, "\nenvironments: interrupted; the same command continues\n")
    assert not (tmp_path / "project" / ".envs" / "mine-cpu" / ".complete").exists()
