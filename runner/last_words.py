"""What a worker's log says of its end: the line that tells most, and whether it was refused a thread."""

from __future__ import annotations

import re
import resource
from collections.abc import Sequence

from runner.machine import cgroups

# What libraries say that are refused a thread: pthread_create(3) and fork(2) give EAGAIN. OpenBLAS then raises SIGINT,
# OpenMP's library ends the process, TensorFlow aborts, Python raises RuntimeError. EAGAIN's own words are said of a
# locked file, too: they count with a word of a thread in the line, or alone, as C++ and what passes its error on say.
REFUSED_THREAD = re.compile(
    r"pthread_create\W.*failed|pthread_create failed|[Tt]hread creation failed|can't start new thread|"
    r"(?:[Tt]hread|fork|clone).*Resource temporarily unavailable|"
    r"Resource temporarily unavailable.*(?:[Tt]hread|fork|clone)|"
    r"(?:^|what\(\):|(?:Runtime|MXNet)Error:)\s*Resource temporarily unavailable\s*(?:$|;)"
)
# Stacks of Python, C and faulthandler, and Python's word for SIGINT, which says no more than the signal.
NOT_TELLING = re.compile(
    r"\s(?!\s*what\(\))|Traceback |Current thread |Thread 0x|Extension modules: |KeyboardInterrupt$|"
    r"\*\*\* .*stack trace.* \*\*\*$|@ +0x|#\d+ "
)


def telling_line(lines: Sequence[str]) -> str | None:
    """Last line that is no part of a stack, or the first that says that a thread was refused; None: there is none."""
    return refused_thread(lines) or next((line for line in reversed(lines) if not NOT_TELLING.match(line)), None)


def refused_thread(lines: Sequence[str]) -> str | None:
    """First line that says that a library got no thread; None where none does."""
    return next((line for line in lines if REFUSED_THREAD.search(line)), None)


def thread_limits() -> str:
    """Limits on the threads of this process and of its workers, in words; empty where there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    pids = cgroups.process_limit()
    limits = [] if pids is None else [f"{pids} in its control group (pids.max)"]
    limits += [] if soft == resource.RLIM_INFINITY else [f"{soft} of its user (ulimit -u, RLIMIT_NPROC)"]
    return " and ".join(limits)
