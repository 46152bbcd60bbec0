"""python -m reports submit RESULTS: pack results into one file for others to verify, after the check that they make."""

from __future__ import annotations

import os
import sys
from contextlib import chdir
from pathlib import Path

from workloads.command_line import CommandLine
from workloads.datasets import file_digest
from workloads.temporary import temporary_folder

from .. import export, load
from ..load import ReportError
from ..publishing import archive, publication, published_files
from ..publishing.archive import CHECKSUMS
from ..publishing.contents import RESULTS
from .labels import ENDING, Label
from .verification import Submission, verify_submission


def build_parser() -> CommandLine:
    """Return the parser of `python -m reports submit`."""
    parser = CommandLine(
        prog="python -m reports submit", description="Pack results into one file, for others to verify."
    )
    parser.add_argument("results", type=Path, metavar="RESULTS",
                        help="the folder that python -m runner wrote, or a publication")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help=f"a new file that ends in {ENDING} (default: <date>-<machine>{ENDING})")  # fmt: skip
    return parser


def main(arguments: list[str]) -> int:
    """Run the command. Returns exit code 0, or 2 if nothing was written, with one line on stderr."""
    options = build_parser().parse_args(arguments)
    try:
        file, seen, left_out = submit(options.results, options.out)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    if left_out:
        print(f"reports: left out because no report reads it: {', '.join(left_out)}", file=sys.stderr)
    print(f"Packed: {file} ({file.stat().st_size / 1e6:.1f} MB, {seen.subject})")
    print(f"sha256: {file_digest(file, 'sha256')}")
    print(f"Its trials are {Label.CLAIMED} until someone runs them again: python -m tools.verify_submission {file}")
    print("It holds no code. Read the logs in it (trials/*/log.txt) before you send it.", flush=True)
    return 0


def submit(results: Path, out: Path | None = None) -> tuple[Path, Submission, list[str]]:
    """Pack and verify; return (the file, what was verified, paths that were left out).

    Raises ReportError, before anything is written, for results that the other side would refuse, and if `out` exists.
    """
    if out is not None and (out.name == archive.ARCHIVE or not out.name.endswith(ENDING)):
        raise ReportError(f"--out {out}: must end in {ENDING} and not be {archive.ARCHIVE}, as of publications")
    with temporary_folder("batchwise-") as stage:
        packed = archive.find_archive(results)
        source = archive.unpack(packed, stage / "unpacked") if packed else results
        stored = load.read_all(source)
        if stored.in_use:
            raise ReportError(f"{results}: a run is still writing into it; submit it when the run has ended")
        if not stored.results:
            raise ReportError(f"{results}: none of its results can be read; run the trials again")
        out = out or Path(f"{publication.propose_names(stored)[0]}{ENDING}")
        if out.exists():
            raise ReportError(f"--out {out}: already exists; name a new file")
        left_out = published_files.copy(source, stage / RESULTS, searches=False)
        export.write_text(stage / RESULTS / CHECKSUMS, archive.format_checksums(stage / RESULTS))
        archive.pack(stage / RESULTS, stage / f"packed{ENDING}")
        seen = verify_submission(stage / f"packed{ENDING}")
        with chdir(stage):
            lines = seen.findings + [each.sentence for each in published_files.find_private_files(RESULTS)]
        if lines:
            more = f"; and {len(lines) - 1} more" if len(lines) > 1 else ""
            again = "; run the trials again" if seen.findings else ""  # it would take no name out of a file
            raise ReportError(f"{results}: would be refused: {' '.join(lines[0].split())}{more}{again}")
        place(stage / f"packed{ENDING}", out)
    return out, seen, left_out


def place(packed: Path, out: Path) -> None:
    """Copy the file to its place, whole or not at all. Raises ReportError."""
    part = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(packed.read_bytes())
        try:
            os.link(part, out)  # never replaces a file that was made in the meantime
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links, such as exFAT
            part.rename(out)
    except OSError as error:
        raise ReportError(f"--out {out}: cannot be written: {error.strerror}; name another file") from error
    finally:
        part.unlink(missing_ok=True)
