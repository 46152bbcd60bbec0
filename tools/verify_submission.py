"""python -m tools.verify_submission FILE: check a submission, run some of its cells again, and label its trials.

A line for each finding and each trial. Exit code: 0 nothing found, 1 something found, 2 no submission. Labels are
written next to FILE, for `python -m reports site`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from reports.load import ReportError
from reports.publishing.archive import ARCHIVE
from reports.submitting.agreement import compare_rerun, draw_cells
from reports.submitting.labels import ENDING, Label, find_file, keep_stronger, write_labels
from reports.submitting.verification import Submission, verify_submission
from tools.submission_rerun import CannotRun, run_again
from workloads import program
from workloads.command_line import CommandLine
from workloads.datasets import file_digest
from workloads.records.result import TrialResult
from workloads.records.status import Status

CELLS = 3  # run again, unless asked otherwise
UNSEEN = (
    "Not seen: raw samples that were edited together with all that follows from them. Only a trial that was run again "
    "is more than claimed."
)


def build_parser() -> CommandLine:
    """Return the parser."""
    parser = CommandLine(
        prog="python -m tools.verify_submission", description="Check a submission, and label its trials."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the file that python -m reports submit wrote")
    parser.add_argument("--rerun", type=int, default=CELLS, metavar="N",
                        help=f"cells to run again here, drawn by the checksum of FILE (default: {CELLS})")  # fmt: skip
    parser.add_argument("--keep-labels", action="store_true", help="keep labels next to FILE where they are stronger: "
                        "give it only if an earlier verification of yours wrote them")  # fmt: skip
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    options = build_parser().parse_args(arguments)
    file: Path = options.file
    try:
        if options.rerun < 0:
            raise ReportError(f"--rerun {options.rerun}: is a number of cells, 0 or more")
        if file.name == ARCHIVE:
            raise ReportError(f"{file}: no labels are read next to a file of this name, a publication's; rename it")
        if not file.is_file():
            raise ReportError(f"{file}: no such file; give one of python -m reports submit")
        return _verify(file, options.rerun, options.keep_labels)
    except (ReportError, OSError) as error:
        print(f"verify_submission: {error}", file=sys.stderr)
        return 2


def _verify(file: Path, cells: int, keep_labels: bool) -> int:
    """Check, run again, label; return the exit code. Raises ReportError, OSError."""
    if not os.access(file.parent, os.W_OK):
        raise ReportError(f"{file.parent}: cannot be written: labels are stored next to the file; copy it elsewhere")
    seen = verify_submission(file)
    labels = {result.spec.id: Label.CLAIMED for result in seen.results}
    if not seen.findings and cells:
        rerun_cells(seen, labels, file, cells)
    if not seen.findings and keep_labels:
        labels = keep_stronger(file, labels)
    for line in seen.findings:
        print(line)
    for trial, label in sorted(labels.items()):
        print(f"{trial}: {label}")
    print(f"{file}: {seen.subject}: {len(seen.findings) or 'nothing'} found")
    if seen.findings:
        find_file(file).unlink(missing_ok=True)  # labels of an earlier verification, which found less
        return 1
    print(f"Labels: {write_labels(file, labels)}\n{UNSEEN}")
    return 0


def rerun_cells(seen: Submission, labels: dict[str, Label], file: Path, count: int) -> None:
    """Run the drawn cells again, and set their labels; disagreements become findings."""
    trials = {result.spec.id: result for result in seen.results if result.status is Status.OK}
    folder = file.with_name(f"{file.name.removesuffix(ENDING)}.rerun")
    for name in draw_cells(trials, file_digest(file, "sha256"), count):
        print(f"{name}: runs again", flush=True)
        labels[name] = _rerun(trials[name], folder / name, seen)


def _rerun(submitted: TrialResult, folder: Path, seen: Submission) -> Label:
    """Run a trial again; return its label."""
    name = submitted.spec.id
    try:
        agreement = compare_rerun(submitted, run_again(submitted, folder))
    except CannotRun as error:
        print(f"{name}: not run again: {error}")
        return Label.CLAIMED
    seen.findings += [f"{name}: {line}" for line in agreement.findings]
    if agreement.note:
        print(f"{name}: {agreement.note}")
    return agreement.label


if __name__ == "__main__":
    program.outlast_readers(plain=True)
    sys.exit(main())
