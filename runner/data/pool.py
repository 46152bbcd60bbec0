"""Process many pictures in several processes, with a progress bar."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from runner.machine import allotment
from workloads import lifeline
from workloads.datasets import DataError

CHUNK = 32  # pictures per task
FEW = 200  # with fewer pictures, other processes take longer to start than to work

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def bar(console: Console) -> Progress:
    """Return a progress bar for pictures, or for the images of an array."""
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                    console=console, transient=True, disable=not console.is_terminal)  # fmt: skip


def in_order(
    work: Callable[[Sequence[Item]], list[Answer]], items: Sequence[Item], title: str, console: Console
) -> list[Answer]:
    """Return what `work` answers for each item; it gets some of them at a time.

    Raises what `work` raises, and DataError where a process died.
    """
    chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
    answers: list[list[Answer]] = [[] for _ in chunks]
    with bar(console) as progress:
        task = progress.add_task(title, total=len(items))
        if len(items) < FEW:
            for number, chunk in enumerate(chunks):
                answers[number] = work(chunk)
                progress.advance(task, len(chunk))
            return [answer for each in answers for answer in each]
        # "spawn", because the progress bar has a thread, which a fork would not copy.
        pool = ProcessPoolExecutor(allotment.threads(), get_context("spawn"), _of_the_runner, (os.getpid(),))
        try:
            numbers: dict[Future[list[Answer]], int] = {pool.submit(work, chunk): n for n, chunk in enumerate(chunks)}
            for future in as_completed(numbers):
                number = numbers[future]
                answers[number] = future.result()
                progress.advance(task, len(chunks[number]))
        except BrokenProcessPool as error:
            raise DataError(f"{title}: a process died, for want of memory or of a damaged picture") from error
        finally:
            pool.shutdown(cancel_futures=True)
    return [answer for each in answers for answer in each]


def _of_the_runner(runner: int) -> None:
    """Leave Ctrl-C to the runner, which ends its processes; they end with it in any case."""
    lifeline.die_with_parent(runner)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
