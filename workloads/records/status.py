"""The ending of a trial."""

from __future__ import annotations

from .record import Word


class Status(Word):
    """The ending of a trial. `ok` enters the tables; every other status carries a reason.

    A trial that `diverged` was measured whole, but a loss was not a number. Its speed and memory are shown with a mark,
    its accuracy is not. For a `contended` trial, tables show what other processes cannot change (`disturbance`).
    """

    OK = "ok"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported"
    CONTENDED = "contended"
    UNVERIFIED = "unverified"
    DIVERGED = "diverged"
    SKIPPED = "skipped"  # not run, because a smaller batch size of the same framework ran out of memory


FINDINGS = (Status.OK, Status.OUT_OF_MEMORY, Status.DIVERGED)  # the question has an answer: not tried again
EXPECTED = (*FINDINGS, Status.SKIPPED)  # nothing went wrong
COMPLETED = (Status.OK, Status.CONTENDED, Status.UNVERIFIED, Status.DIVERGED)  # it came to its end
UNMEASURED = (Status.FAILED, Status.TIMEOUT, Status.UNSUPPORTED, Status.SKIPPED)  # no figure is available
HARMLESS = (*EXPECTED, Status.CONTENDED)  # exit code 0: other processes are no fault of a run
