"""The code that a framework's CPU libraries chose for this processor, as they report it.

oneDNN reports it in no call that the frameworks export, but writes it before its first primitive if ONEDNN_VERBOSE is
set. So a copy of the process (a fork: 20 to 120 ms) computes something small under that variable, and its output is
read. The process that is measured never has the variable.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ANSWER_S = 30.0  # it takes 0.1 s; on a very busy machine, more
VERBOSE = ("ONEDNN_VERBOSE", "DNNL_VERBOSE")  # the second is for versions before 2.5
ISA = re.compile(r"^(?:onednn|dnnl)_verbose,(?:v1,)?info,cpu,isa:(.+)$", re.MULTILINE)
OPENBLAS_CALLS = tuple(
    prefix + "openblas_get_corename" + suffix for prefix in ("", "scipy_") for suffix in ("", "64_", "_64_")
)


@functools.cache
def of_onednn(on: bool | None, compute: Callable[[], object]) -> dict[str, Any]:
    """Return {"onednn", "onednn_isa"}, and "onednn_isa_reason" if the instruction set is unknown. Never raises.

    `on` says whether the framework uses oneDNN (None: unknown); `compute` is something small that it computes with
    oneDNN. Call it before anything else is computed: a copy has none of the threads of its original. An answer stays
    true for the process, and is cached.
    """
    facts: dict[str, Any] = {"onednn": on, "onednn_isa": None}
    if on is False:
        return facts | {"onednn_isa_reason": "oneDNN is off"}
    try:
        written = written_by_copy(compute)
    except OSError as error:
        return facts | {"onednn_isa_reason": f"no copy of the process could be started: {error}"}
    if written is None:
        return facts | {"onednn_isa_reason": f"a copy of the process did not answer within {ANSWER_S:.0f} s"}
    isa = ISA.search(written)
    if isa is None:
        return facts | {"onednn_isa_reason": "a small computation did not use oneDNN, or it did not report it"}
    return facts | {"onednn_isa": isa.group(1).strip()}


def written_by_copy(compute: Callable[[], object]) -> str | None:
    """Return what a copy of this process writes to its standard output in `compute`; None if it takes too long.

    Raises OSError if no process can be made. An error in the copy ends the copy.
    """
    with tempfile.TemporaryFile() as written:
        if (copy := os.fork()) == 0:
            try:
                os.dup2(written.fileno(), 1)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                os.environ.update(dict.fromkeys(VERBOSE, "1"))
                compute()
                ctypes.CDLL(None).fflush(None)
            finally:
                os._exit(0)  # none of the original's endings: its buffers and handlers do not belong to the copy
        until_s = time.monotonic() + ANSWER_S
        while os.waitpid(copy, os.WNOHANG)[0] == 0:
            if time.monotonic() > until_s:
                os.kill(copy, signal.SIGKILL)
                os.waitpid(copy, 0)
                return None
            time.sleep(0.005)
        written.seek(0)
        return written.read().decode(errors="replace")


def of_openblas(folder: Path) -> dict[str, Any]:
    """Return {"openblas_core": the processor whose code it uses} of the OpenBLAS that is loaded from below `folder`."""
    for library in _loaded(folder):
        for call in OPENBLAS_CALLS:
            try:
                corename = getattr(ctypes.CDLL(library), call)
            except (OSError, AttributeError):
                continue
            corename.restype = ctypes.c_char_p
            return {"openblas_core": corename().decode(errors="replace")}
    return {"openblas_core": None, "openblas_core_reason": f"no OpenBLAS loaded from {folder.name} reports it"}


def _loaded(folder: Path) -> list[str]:
    """Return paths of this process's OpenBLAS libraries."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[5] for line in lines if "openblas" in line}
    return sorted(path for path in paths if Path(path).is_relative_to(folder.resolve()))
