"""A device, and a results folder for it, belong to one run at a time; the kernel says so, no file does."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from filelock import FileLock

from runner.__main__ import EXIT_BAD_INPUT, main
from runner.machine import locks
from runner.machine.locks import SPACE_VARIABLE, InUse, LockRefused

HOLDS = """
import sys
from pathlib import Path
from runner.machine import locks
with {call}:
    print("held", flush=True)
    input()
"""
GPU = "GPU-00000000-1111-2222-3333-444444444444"


@contextmanager
def another_run(call: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds what the call of `locks` says."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS.format(call=call)], cwd=ROOT, env=os.environ | environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_core_or_gpu_that_another_process_holds_is_refused_with_the_process_and_free_once_that_is_killed() -> None:
    with another_run(f"locks.device('cpu', [3, 4]), locks.device('{GPU}', [4])") as run:
        with pytest.raises(InUse, match=rf"^core 4 is in use by another run \(process {run.pid}\); .*--threads"):
            ExitStack().enter_context(locks.device("cpu", [4, 5]))
        with pytest.raises(InUse, match=rf"^GPU {GPU} is in use by another run \(process {run.pid}\); .*--device"):
            ExitStack().enter_context(locks.device(GPU, [5]))
        with locks.device("cpu", [5]), locks.device("GPU-2", [4]):  # what is left
            pass
        run.kill()
        run.wait()
        with locks.device("cpu", [3, 4]), locks.device(GPU, [4]):
            pass


def test_every_core_that_other_runs_hold_is_named_at_once_and_others_are_advised_only_while_one_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locks, "list_usable_cores", lambda: {0, 1, 2, 3, 4, 9})
    with another_run("locks.device('cpu', [1, 2, 3, 9])") as run, another_run("locks.device('cpu', [0])") as other:
        first = f"core 0 is in use by another run (process {other.pid})"
        told = f"{first}; cores 1-3, 9 are in use by another run (process {run.pid}); wait for them"
        with pytest.raises(InUse, match=rf"^{re.escape(told)} or run this one on other cores \(taskset.*--threads\)$"):
            ExitStack().enter_context(locks.device("cpu", [4, 3]))
        with locks.device("cpu", [4]):  # as it was
            pass
    monkeypatch.setattr(locks, "list_usable_cores", lambda: {0, 1})
    with another_run("locks.device('cpu', [0, 1])") as run:
        told = f"cores 0, 1 are in use by another run (process {run.pid}); wait for it"
        for asked in ([0], [1]):
            with pytest.raises(InUse, match=rf"^{re.escape(told)}$"):
                ExitStack().enter_context(locks.device("cpu", asked))
        assert locks.describe_held([0, 7], [GPU]) == [f"core 0 is in use by another run (process {run.pid})"]


def test_what_a_refused_run_had_got_by_then_is_free_again() -> None:
    with another_run("locks.device('cpu', [4])"):
        with pytest.raises(InUse):
            ExitStack().enter_context(locks.device("cpu", [3, 4]))
        with locks.device("cpu", [3]):
            pass


def test_runs_of_two_lock_spaces_do_not_see_each_other_and_the_holder_is_named_each_time() -> None:
    with another_run("locks.device('cpu', [3])", **{SPACE_VARIABLE: "x" * 500}), locks.device("cpu", [3]):
        pass
    with another_run("locks.device('cpu', [3])") as run:
        for _ in range(300):
            with pytest.raises(InUse, match=rf"\(process {run.pid}\)"):
                ExitStack().enter_context(locks.device("cpu", [3]))


def test_a_folder_is_shared_by_runs_on_two_devices_and_refused_for_one(tmp_path: Path) -> None:
    with another_run(f"locks.folder(Path('{tmp_path}'), 'cpu', 'stable.json')") as run:
        with locks.folder(tmp_path, GPU):
            pass
        with pytest.raises(InUse, match=rf"{tmp_path}, for cpu, is in use .*\(process {run.pid}\)"):
            ExitStack().enter_context(locks.folder(tmp_path, "cpu"))
        with pytest.raises(InUse, match=r"for stable\.json, is in use"):
            ExitStack().enter_context(locks.folder(tmp_path, GPU, "stable.json"))


def test_a_removed_lock_file_lets_nobody_in(tmp_path: Path) -> None:
    with another_run(f"locks.folder(Path('{tmp_path}'), 'cpu')"):
        for file in tmp_path.glob(".lock*"):
            file.unlink()
        with pytest.raises(InUse):
            ExitStack().enter_context(locks.folder(tmp_path, "cpu"))


def test_a_run_that_only_the_shared_disk_shows_is_refused_by_its_lock_file(tmp_path: Path) -> None:
    """Such a run is on another machine or in another container: its names are not seen here."""
    with (
        another_run(f"locks.folder(Path('{tmp_path}'), 'cpu')", **{SPACE_VARIABLE: "another machine"}),
        pytest.raises(InUse, match=re.escape(f"{tmp_path}, for cpu, is in use by another run that is not visible")),
    ):
        ExitStack().enter_context(locks.folder(tmp_path, "cpu"))


@pytest.mark.parametrize(
    ("held", "asked", "refused"),
    [
        ("shard=(1, 2)", {"shard": (2, 2)}, False),
        ("shard=(1, 2)", {"shard": (1, 2)}, True),
        ("shard=(1, 2)", {"shard": (2, 3)}, True),
        ("shard=(1, 2)", {}, True),
        ("", {"shard": (1, 2)}, True),
    ],
)
def test_shards_of_one_plan_share_a_folder_between_machines_and_with_nothing_else(
    held: str, asked: dict[str, Any], refused: bool, tmp_path: Path
) -> None:
    for count in (2, 3):
        with locks.folder(tmp_path, "cpu", shard=(1, count)):  # lock files of earlier runs refuse nobody
            pass
    call = f"locks.folder(Path('{tmp_path}'), 'cpu', {held})"
    with another_run(call, **{SPACE_VARIABLE: "another machine"}), ExitStack() as stack:
        if refused:
            with pytest.raises(InUse, match="is in use by another run that is not visible from here"):
                stack.enter_context(locks.folder(tmp_path, "cpu", **asked))
        else:
            stack.enter_context(locks.folder(tmp_path, "cpu", **asked))


def test_two_shards_on_one_machine_and_device_refuse_each_other(tmp_path: Path) -> None:
    with (
        another_run(f"locks.folder(Path('{tmp_path}'), 'cpu', shard=(1, 2))") as run,
        pytest.raises(InUse, match=rf"\(process {run.pid}\)"),
    ):
        ExitStack().enter_context(locks.folder(tmp_path, "cpu", shard=(2, 2)))


WAITS = """
from pathlib import Path
from runner.machine import locks
with locks.wait_for_file(Path({path!r}), "the data: another run writes it", "go elsewhere"):
    print("held", flush=True)
"""


def test_a_lock_file_that_another_process_holds_is_waited_for_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with another_run(f"locks.wait_for_file(Path('{path}'), 'the data', 'go elsewhere')") as run:
        command = [sys.executable, "-c", WAITS.format(path=str(path))]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as waiting:
            assert waiting.stderr and waiting.stdout
            assert waiting.stderr.readline() == f"the data: another run writes it (lock: {path}); waiting\n"
            assert waiting.poll() is None
            run.kill()
            assert waiting.stdout.read() == "held\n" and waiting.stderr.read() == ""


def test_a_lock_file_of_another_user_is_bad_input_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(lock: Any, **_: float) -> None:
        Path(lock.lock_file).touch()
        raise PermissionError(errno.EACCES, "Permission denied", lock.lock_file)

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with pytest.raises(LockRefused, match=r"/\.lock-cpu cannot be written: name another --results$"):
        ExitStack().enter_context(locks.folder(tmp_path, "cpu"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(LockRefused, match=r"/mine belongs to another user: go elsewhere$"):
        ExitStack().enter_context(locks.wait_for_file(tmp_path / "mine", "the data", "go elsewhere"))
    words = ["--framework", "numpy", "--device", "cpu", "--threads", "1", "--results", str(tmp_path)]
    assert main(words) == EXIT_BAD_INPUT
    assert f"runner: {tmp_path}/.lock-cpu belongs to another user: name another --results\n" in capsys.readouterr().err


@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, "No locks available"), NotImplementedError("no flock")])
def test_a_file_system_without_locks_is_bad_input_that_says_so(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with pytest.raises(LockRefused, match=r"/\.lock-cpu is on a file system without locks: name another --results$"):
        ExitStack().enter_context(locks.folder(tmp_path, "cpu"))
    with pytest.raises(LockRefused, match=r"/mine is on a file system without locks: go elsewhere$"):
        ExitStack().enter_context(locks.wait_for_file(tmp_path / "mine", "the data", "go elsewhere"))
