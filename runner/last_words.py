"""The end of a worker's log: its most informative line, and whether the worker was refused a thread."""

from __future__ import annotations

import re
import resource
from collections.abc import Sequence

from runner.machine import cgroups

# Messages of libraries that are refused a thread: pthread_create(3) and fork(2) give EAGAIN. OpenBLAS then raises
# SIGINT, OpenMP's library ends the process, TensorFlow aborts, Python raises RuntimeError. EAGAIN's own message also
# appears for a locked file: it counts if the line names a thread, or alone, as C++ and its callers print it.
REFUSED_THREAD = re.compile(
    r"pthread_create\W.*failed|pthread_create failed|[Tt]hread creation failed|can't start new thread|"
    r"(?:[Tt]hread|fork|clone).*Resource temporarily unavailable|"
    r"Resource temporarily unavailable.*(?:[Tt]hread|fork|clone)|"
    r"(?:^|what\(\):|(?:Runtime|MXNet)Error:)\s*Resource temporarily unavailable\s*(?:$|;)"
)
# Stacks of Python, C and faulthandler, and Python's message for SIGINT, which says no more than the signal.
NOT_TELLING = re.compile(
    r"\s(?!\s*what\(\))|Traceback |Current thread |Thread 0x|Extension modules: |KeyboardInterrupt$|"
    r"\*\*\* .*stack trace.* \*\*\*$|@ +0x|#\d+ "
)


def telling_line(lines: Sequence[str]) -> str | None:
    """Return the last line that is not part of a stack, or the first about a refused thread; None: there is none."""
    return refused_thread(lines) or next((line for line in reversed(lines) if not NOT_TELLING.match(line)), None)


def refused_thread(lines: Sequence[str]) -> str | None:
    """Return the first line that says that a library got no thread; None if none does."""
    return next((line for line in lines if REFUSED_THREAD.search(line)), None)


def thread_limits() -> str:
    """Return the limits on the threads of this process and of its workers, as text; empty if there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    pids = cgroups.process_limit()
    limits = [] if pids is None else [f"{pids} in its control group (pids.max)"]
    limits += [] if soft == resource.RLIM_INFINITY else [f"{soft} of its user (ulimit -u, RLIMIT_NPROC)"]
    return " and ".join(limits)
