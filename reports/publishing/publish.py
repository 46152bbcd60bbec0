"""python -m reports publish RESULTS: a report with its raw trials, checksums, rules and citation, in one folder."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import build, files, load
from ..load import ReportError, Stored
from . import archive, citation, publication
from . import index as published_index
from .obstacles import obstacles

INTO = Path(__file__).parent.parent / "published"
ARCHIVE, CHECKSUMS, INPUTS = "results.tar.xz", "SHA256SUMS", "inputs.sha256"
UNFINISHED = ".publishing-"
REPLACED = f"{UNFINISHED}old-"  # and the name: kept until the new one is in its place
LARGE_BYTES = 5_000_000
RESULTS = Path("results")  # as the report names them, and the archive's one folder


@dataclass(frozen=True)
class Published:
    """`fresh`: False where the very same publication was there already. `warnings`: a line each."""

    folder: Path
    fresh: bool
    warnings: tuple[str, ...]


def main(arguments: list[str]) -> int:
    """Exit code: 0, or 2 where nothing was published, with one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m reports publish", description="Publish a report on stored results."
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="the folder that python -m runner wrote")
    parser.add_argument("--into", type=Path, metavar="DIR", default=INTO,
                        help="the folder of published reports (default: reports/published)")  # fmt: skip
    parser.add_argument("--name", help="the publication's folder (default: <date>-<machine>)")
    parser.add_argument("--anyway", action="store_true",
                        help="publish what is refused otherwise; report, index and citation then say why")  # fmt: skip
    parser.add_argument("--replace", action="store_true", help="put it in place of another publication of this name")
    told = parser.parse_args(arguments)
    try:
        done = publish(told.results, told.into, told.name, told.anyway, told.replace)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    for warning in done.warnings:
        print(f"reports: {warning}", file=sys.stderr)
    size = sum(path.stat().st_size for path in done.folder.iterdir())
    print(f"{'Published' if done.fresh else 'Published before, nothing changed'}: {done.folder} ({size / 1e6:.1f} MB)")
    print(f"Index: {told.into / published_index.INDEX}", flush=True)
    return 0


def publish(
    results: Path, into: Path, name: str | None = None, anyway: bool = False, replace: bool = False
) -> Published:
    """All or nothing: the folder is made beside its place and renamed.

    Raises ReportError: `results` hold nothing to report on or, without `anyway`, are not fit to be published; another
    publication has the name, without `replace`; or `into` cannot be written.
    """
    if name is not None and not publication.NAME.fullmatch(name):
        raise ReportError(f"--name {name}: use lower case letters, digits and single hyphens")
    before = load.read(results)
    with tempfile.TemporaryDirectory(prefix="batchwise-") as stage:
        left_out = archive.copy(results, Path(stage) / RESULTS)
        found = ["a run is still writing into the folder"] if before.in_use else []
        with chdir(stage):
            stored = load.read(RESULTS)
            if not stored.results:
                raise ReportError(f"{results}: none of its results can be read; run the trials anew")
            lost = len(before.folders) - len(stored.folders)
            found += [f"{lost} of its trials left out, for their folders are links or hold links"] if lost else []
            found += obstacles(stored, RESULTS)
        if found and not anyway:
            told = "; ".join(found)
            raise ReportError(f"{results}: not fit to be published: {told}. Run the trials anew, or say --anyway")
        marks = (f"Published although not fit to be: {'; '.join(found)}.",) if found else ()
        try:
            into.mkdir(parents=True, exist_ok=True)
            with _alone(into) as warnings:
                name = name or _name(stored, into)
                part = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=into))
                try:
                    _fill(part.resolve(), Path(stage), stored, name, marks)
                    fresh = _put(part, into / name, replace)
                finally:
                    shutil.rmtree(part, ignore_errors=True)
                warnings += published_index.write(into)
        except OSError as error:
            raise ReportError(
                f"{into}: cannot be written: {error.strerror}; name another folder with --into"
            ) from error
    if left_out:
        warnings.append(f"left out, for no report reads it: {', '.join(left_out)}")
    return Published(into / name, fresh, (*warnings, *_large(into / name)))


@contextmanager
def _alone(into: Path) -> Iterator[list[str]]:
    """One at a time, by a lock on the folder itself; so whatever is unfinished there was left by a killed one: what it
    was about to replace is put back, with a line each, the rest removed."""
    lock = os.open(into, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        put_back = []
        for left in into.glob(f"{UNFINISHED}*"):
            place = into / left.name.removeprefix(REPLACED)
            if left.name.startswith(REPLACED) and not place.exists():
                left.rename(place)
                put_back.append(f"{place}: put back, for its replacement was killed")
            else:
                shutil.rmtree(left)
        yield put_back
    finally:
        os.close(lock)


def _name(stored: Stored, into: Path) -> str:
    """<date>-<machine>, with the study where that name is another study's."""
    short, long = publication.names(stored)
    studies = publication.of(stored, short, (), ()).studies
    try:
        return short if publication.read(into / short / publication.FILE).studies == studies else long
    except ValueError:
        return long if (into / short).exists() else short


def _fill(out: Path, stage: Path, stored: Stored, name: str, marks: tuple[str, ...]) -> None:
    """Everything of a publication. `out` is absolute: the report is made where the results' copy lies, so that every
    path in it is the archive's, and none is of this machine."""
    with chdir(stage):
        report = build.report([RESULTS])
        files.write(report, out, files.FORMATS, marks)
        (out / files.LIST_FILE).unlink()  # for the next report into the same folder; none is written into this one
        archive.pack(RESULTS, out / ARCHIVE)
    facts = publication.of(stored, name, report.summary.findings, marks)
    inputs = sorted({(file.path, file.sha256) for result in stored.results for file in result.spec.inputs.values()})
    told = {
        publication.FILE: publication.text(facts),
        INPUTS: "".join(f"{sha256}  {path}\n" for path, sha256 in inputs),
        "CITATION.cff": citation.cff(facts, ARCHIVE, _sha256(out / ARCHIVE)),
        "citation.bib": citation.bibtex(facts),
    }
    for file, text in told.items():
        (out / file).write_text(text, encoding="utf-8", errors="replace", newline="\n")
    sums = "".join(f"{_sha256(path)}  {path.name}\n" for path in sorted(out.iterdir()))
    (out / CHECKSUMS).write_text(sums, encoding="utf-8", newline="\n")
    out.chmod(0o755)  # it was made for its owner's eyes alone


def _put(part: Path, place: Path, replace: bool) -> bool:
    """Rename `part` to `place`; False where the same is there already. Raises ReportError where another is."""
    if place.exists():
        before = place / CHECKSUMS
        if before.is_file() and before.read_bytes() == (part / CHECKSUMS).read_bytes() and _whole(place):
            return False
        if not replace:
            raise ReportError(
                f"{place}: another publication has this name, or this one was changed; say --replace, or --name another"
            )
        old = place.with_name(f"{REPLACED}{place.name}")
        place.rename(old)
        try:
            part.rename(place)
        except BaseException:
            old.rename(place)
            raise
        shutil.rmtree(old)
    else:
        part.rename(place)
    return True


def _whole(folder: Path) -> bool:
    """Whether every file is there as its checksum says, and no other."""
    lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    told = {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines)}
    there = {path.name: _sha256(path) for path in folder.iterdir() if path.name != CHECKSUMS and path.is_file()}
    return told == there


def _large(folder: Path) -> list[str]:
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    if sum(sizes.values()) <= LARGE_BYTES:
        return []
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    told = ", ".join(f"{name} {sizes[name] / 1e6:.1f} MB" for name in largest)
    return [f"{folder}: {sum(sizes.values()) / 1e6:.1f} MB, much for a repository; the largest: {told}"]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
