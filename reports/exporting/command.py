"""python -m reports export RESULTS --to mlflow|mllog: stored trials in the tools that people use."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

from workloads.command_line import CommandLine
from workloads.words import format_count

from .. import export, load
from ..load import ReportError, Stored
from ..publishing import archive
from ..trial_rows import list_rows
from . import mllog

MLFLOW, MLLOG = "mlflow", "mllog"
MISSING = ".venv/bin/python -m pip install --no-deps --require-hashes -r requirements-mlflow.txt"
# MLflow sends its makers word of its use, waits minutes for a server that is not there, and prints two lines for each
# run; the caller's own variables count more.
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def build_parser() -> CommandLine:
    """Return the parser of `python -m reports export`."""
    parser = CommandLine(
        prog="python -m reports export", description="Export stored trials to MLflow or as MLPerf logs."
    )
    parser.add_argument("results", type=Path, metavar="RESULTS",
                        help="a folder that python -m runner wrote, or a publication")  # fmt: skip
    parser.add_argument("--to", choices=(MLFLOW, MLLOG), required=True,
                        help="mlflow: a run per trial (needs requirements-mlflow.txt); "
                             "mllog: a log per trial, in the form of MLPerf Training's logs")  # fmt: skip
    parser.add_argument("--tracking-uri", metavar="URI",
                        help="for mlflow: the server, such as http://localhost:5000 "
                             "(default: MLFLOW_TRACKING_URI)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="DIR", help="for mllog: the folder for the logs, TRIAL.log")
    return parser


def main(arguments: list[str]) -> int:
    """Run the command. Returns exit code 0, or 2 if nothing can be exported, with one line on stderr."""
    options = build_parser().parse_args(arguments)
    try:
        write = _choose(options.to, options.tracking_uri, options.out)
        said: list[str] = []

        def read_and_write(folder: Path) -> Stored:
            """Export while an archive is unpacked."""
            stored = load.read(folder)
            said.append(write(stored))
            return stored

        for item in archive.read_stored(options.results, read_and_write).unreadable:
            print(f"reports: {item.path}: left out: {item.reason}", file=sys.stderr)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    print(*said, sep="\n", flush=True)
    return 0


def _choose(target: str, uri: str | None, out: Path | None) -> Callable[[Stored], str]:
    """Return what writes the trials and says what it wrote. Raises ReportError for options that do not fit."""
    if target == MLLOG:
        if uri is not None:
            raise ReportError("--tracking-uri: only --to mlflow uses it; omit it")
        if out is None:
            raise ReportError("--out is missing: name the folder for the logs")
        return lambda stored: _write_logs(stored, out)
    if out is not None:
        raise ReportError("--out: only --to mllog uses it; omit it")
    if not (uri or os.environ.get("MLFLOW_TRACKING_URI")):
        raise ReportError("--tracking-uri is missing: name the server, such as http://localhost:5000")
    if importlib.util.find_spec("mlflow") is None:
        raise ReportError(f"--to mlflow: this Python has no mlflow: {MISSING}")
    os.environ.update(QUIET | os.environ)
    to_mlflow = importlib.import_module(".to_mlflow", __package__)
    return lambda stored: str(to_mlflow.export(stored, uri))


def _write_logs(stored: Stored, out: Path) -> str:
    """Write TRIAL.log of each trial; those without epochs are reported on stderr. Raises ReportError."""
    count = 0
    try:
        out.mkdir(parents=True, exist_ok=True)
        for row in list_rows(stored):
            if not row.shown:
                continue
            try:
                export.write_text(out / f"{row.trial}.log", mllog.build_log(row))
                count += 1
            except ValueError as error:
                print(f"reports: {row.trial}: left out: {error}", file=sys.stderr)
    except OSError as error:
        raise ReportError(f"--out {out}: cannot be written: {error.strerror}; name another folder") from error
    return f"{format_count(count, 'log')}: {out}"
