"""What ends a command from outside: Ctrl-C, SIGTERM, a terminal that goes."""

from __future__ import annotations

import os
import signal

EXIT_INTERRUPTED = 130


def at_once() -> None:
    """While a command reads its modules it has nothing to keep: Ctrl-C ends it without a traceback.

    OpenBLAS that is refused a thread raises SIGINT, as if somebody had pressed Ctrl-C. In our own programs numpy and
    scipy have next to nothing to compute, so they get one thread. Workers are given their threads one by one.
    """
    os.putenv("OPENBLAS_NUM_THREADS", "1")  # of this process's libraries and children: what the caller said stays known
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def in_order() -> None:
    """Each raises KeyboardInterrupt; SIGHUP not where nohup has it ignored, SIGINT not where a shell has."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
