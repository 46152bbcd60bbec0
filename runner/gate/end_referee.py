"""The referee of trials' ends: a separate process, which a run asks about one trial after the other."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from runner.owned import Owned
from runner.project import Project
from workloads.records.stored import without_unknown

COMMAND = (sys.executable, "-m", "adapters.numpy.end_referee")


class EndReferee:
    """Asks the referee. One that has answered waits for the next question, so it need not import again, and ends with
    the `with` block. One that failed is never asked again.
    """

    def __init__(self, project: Project) -> None:
        """Start nothing yet; the referee is a program of this project."""
        self.project = project
        self._waiting: _Referee | None = None

    def __enter__(self) -> EndReferee:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if waiting := self._taken():
            waiting.end()

    def ask(self, folder: Path, timeout_s: float) -> dict[str, Any]:
        """Return its answer about the end of this folder's trial. Raises OSError, SubprocessError, ValueError."""
        referee = self._taken() or _started(self.project)
        try:
            answer = referee.answer(folder, timeout_s)
            self._waiting = referee
            return answer
        finally:
            if self._waiting is not referee:
                referee.end()

    def _taken(self) -> _Referee | None:
        """Return the waiting referee; None if there was none, or it has died."""
        waiting, self._waiting = self._waiting, None
        if waiting is None or waiting.process.poll() is None:
            return waiting
        waiting.end()
        return None


@dataclass(frozen=True)
class _Referee:
    process: Owned
    errors: IO[bytes]  # its standard error

    def answer(self, folder: Path, timeout_s: float) -> dict[str, Any]:
        """Return its answer about this folder. Raises SubprocessError, ValueError."""
        assert self.process.stdin and self.process.stdout
        with suppress(BrokenPipeError):  # it has ended, and does not answer
            print(json.dumps(str(folder.absolute())), file=self.process.stdin, flush=True)
        if not select.select([self.process.stdout], [], [], timeout_s)[0]:
            raise subprocess.TimeoutExpired(COMMAND, timeout_s)
        line = self.process.stdout.readline()
        if not line:
            raise ValueError(self._why())
        return without_unknown(json.loads(line))

    def _why(self) -> str:
        """Return why it ended without an answer: the last line of its output."""
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {code}"

    def end(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.end()
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def _started(project: Project) -> _Referee:
    """Start a referee. Raises OSError."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
    try:
        process = Owned(
            COMMAND, cwd=project.root, env=os.environ | project.import_variables, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
    except OSError:
        errors.close()
        raise
    process.go()
    return _Referee(process, errors)
