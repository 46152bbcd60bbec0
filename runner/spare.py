"""A sampler that waits to be asked: the next worker need not wait for the sampler's imports."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runner.owned import GRACE_S, end_group
from workloads.program import build_environment

Sampling = subprocess.Popen[str]


class Spare:
    """Keeps at most one spare sampler, which ends with the `with` block, or with this process. It is made when a worker
    has ended: its imports run during the gate's work, never during a worker's.
    """

    def __init__(self) -> None:
        self._waiting: Sampling | None = None

    def __enter__(self) -> Spare:
        return self

    def __exit__(self, *_: object) -> None:
        if spare := self.take():
            end_sampler(spare, GRACE_S)

    def make(self, command: Sequence[str], folder: Path) -> None:
        """Start a spare unless one waits. If it cannot be started, the start of the next worker says why."""
        if self._waiting is None:
            with suppress(OSError):
                self._waiting = start_sampler(command, folder, subprocess.DEVNULL)

    def take(self) -> Sampling | None:
        """Take the waiting spare; None if there was none, or it has died."""
        spare, self._waiting = self._waiting, None
        if spare is None or spare.poll() is None:
            return spare
        end_sampler(spare, GRACE_S)
        return None


def start_sampler(command: Sequence[str], folder: Path, errors: int) -> Sampling:
    """Start a sampler by this command in this folder, a project's root, without the caller's Python settings. It
    waits on its standard input. Raises OSError.
    """
    return subprocess.Popen(
        command, cwd=folder, env=build_environment(os.environ, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=errors, text=True, start_new_session=True,
    )  # fmt: skip


def end_sampler(sampling: Sampling, grace_s: float) -> None:
    """Close the sampler's input, at which it ends; after `grace_s` seconds it is killed."""
    assert sampling.stdin and sampling.stdout
    with suppress(BrokenPipeError):
        sampling.stdin.close()
    try:
        sampling.wait(grace_s)
    except subprocess.TimeoutExpired:
        end_group(sampling)
    sampling.stdout.close()
