"""Signals that end a command from outside: Ctrl-C, SIGTERM, a closed terminal."""

from __future__ import annotations

import os
import signal

EXIT_INTERRUPTED = 130


def at_once() -> None:
    """Let Ctrl-C end the command without a traceback while it reads its modules, when it has nothing to keep.

    OpenBLAS raises SIGINT if it is refused a thread, as if somebody had pressed Ctrl-C. In our programs numpy and scipy
    have almost nothing to compute, so they get one thread. Workers are given their threads separately.
    """
    os.putenv("OPENBLAS_NUM_THREADS", "1")  # for this process's libraries and children: the caller's value stays known
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def in_order() -> None:
    """Let each signal raise KeyboardInterrupt, except SIGHUP if nohup ignores it and SIGINT if a shell does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
