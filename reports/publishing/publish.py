"""python -m reports publish RESULTS: a report with its raw trials, checksums, rules and citation, in one folder.

The folder holds the page, a few pictures and the archive of the raw trials. All other files of a report can be built
from that archive (`python -m reports`).

RESULTS may also be a publication: it is then published again from its archive, under its name. The measurements, their
commit and their dates stay as they were. The report is built by the current code, and published today.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from workloads.command_line import CommandLine
from workloads.datasets import file_digest
from workloads.temporary import temporary_folder

from .. import export, load
from ..checking.completeness import find_obstacles
from ..load import ReportError, Stored
from . import archive, publication, published_files
from . import index as published_index
from .archive import ARCHIVE, CHECKSUMS, format_checksums
from .citation import Credit
from .contents import INPUTS, RESULTS, build_texts, format_inputs, write_report

INTO = Path(__file__).parents[2] / "published"
UNFINISHED = ".publishing-"
REPLACED = f"{UNFINISHED}old-"  # followed by the name: kept until the new one is in place
LARGE_BYTES = 5_000_000


@dataclass(frozen=True)
class Published:
    """A published folder. `fresh`: False if the same publication already existed. `warnings`: a line each."""

    folder: Path
    fresh: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Copied:
    """Results as published. `obstacles` say why they should not be published; `left_out` are files not copied."""

    stored: Stored
    left_out: list[str]
    obstacles: list[str]


def build_parser() -> CommandLine:
    """Return the parser of `python -m reports publish`."""
    parser = CommandLine(prog="python -m reports publish", description="Publish a report on stored results.")
    parser.add_argument("results", type=Path, metavar="RESULTS",
                        help="the folder that python -m runner wrote, or a published one, to publish it again "
                        f"from its {ARCHIVE}")  # fmt: skip
    parser.add_argument("--into", type=Path, metavar="DIR", default=INTO,
                        help="the folder of published reports (default: published)")  # fmt: skip
    parser.add_argument("--name", help="the publication's folder (default: <date>-<machine>)")
    parser.add_argument("--anyway", action="store_true",
                        help="publish even what would be refused; report, index and citation then say why")  # fmt: skip
    parser.add_argument("--replace", action="store_true", help="replace another publication of this name")
    parser.add_argument("--author", action="append", default=[], dest="authors",
                        help='who measured: "Family, Given", or the name of a group; repeat for each. '
                        "A publication that is published again keeps its authors")  # fmt: skip
    parser.add_argument("--title", help="the title in citations (default: what was measured)")
    parser.add_argument("--doi", help="the publication's DOI, such as 10.5281/zenodo.1234567")
    parser.add_argument("--url", help="where the publication can be read")
    return parser


def main(arguments: list[str]) -> int:
    """Run the command. Returns exit code 0, or 2 if nothing was published, with one line on stderr."""
    options = build_parser().parse_args(arguments)
    credit = Credit(options.authors, options.title, options.doi, options.url)
    try:
        published = publish(options.results, options.into, credit, options.name, options.anyway, options.replace)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    for warning in published.warnings:
        print(f"reports: {warning}", file=sys.stderr)
    size = sum(path.stat().st_size for path in published.folder.iterdir())
    verb = "Published" if published.fresh else "Published before, nothing changed"
    print(f"{verb}: {published.folder} ({size / 1e6:.1f} MB)")
    print(f"Index: {options.into / published_index.INDEX}", flush=True)
    return 0


def publish(
    results: Path, into: Path, credit: Credit, name: str | None = None, anyway: bool = False, replace: bool = False
) -> Published:
    """Publish all or nothing: the folder is built next to its destination and renamed.

    Raises ReportError if `results` hold nothing to report on. Raises it if they have obstacles, unless `anyway`, and if
    another publication has the name, unless `replace`. Raises it if `into` cannot be written, and as `Credit.checked`.
    """
    if name is not None and not publication.NAME.fullmatch(name):
        raise ReportError(f"--name {name}: use lower case letters, digits and single hyphens")
    with temporary_folder("batchwise-") as stage:
        packed = archive.find_archive(results)
        published = publication.read_folder(packed.parent) if packed else None
        name = name or _name_again(packed, published)
        credit = credit.checked(published)
        source = archive.unpack(packed, stage / "unpacked") if packed else results
        copied = _copied(source, results, stage)
        if copied.obstacles and not anyway:
            why = "; ".join(copied.obstacles)
            raise ReportError(f"{results}: not fit to be published: {why}. Run the trials again, or add --anyway")
        try:
            into.mkdir(parents=True, exist_ok=True)
            with _lock(into) as warnings:
                published_index.refuse_other(into)
                name = name or _name(copied.stored, into)
                fresh = _place(copied, stage, into / name, replace, credit, packed if published else None)
                warnings += published_index.write(into)
                warnings += [f"published with a known fault: {each}" for each in copied.obstacles]
        except OSError as error:
            raise ReportError(
                f"{into}: cannot be written: {error.strerror}; name another folder with --into"
            ) from error
    if copied.left_out:
        warnings.append(f"left out because no report reads it: {', '.join(copied.left_out)}")
    return Published(into / name, fresh, (*warnings, *_large(into / name)))


def _name_again(packed: Path | None, published: publication.Publication | None) -> str | None:
    """Return the name of a publication that is published again; None if it is none.

    Raises ReportError where its folder has another name: the other publication would be replaced.
    """
    if packed is None or published is None:
        return None
    folder = packed.resolve().parent.name
    if not publication.NAME.fullmatch(published.name) or published.name != folder:
        called = ascii(published.name)[:80]
        raise ReportError(f"{packed.parent}: its {publication.FILE} calls it {called}; name the new one with --name")
    return published.name


def _copied(source: Path, results: Path, stage: Path) -> Copied:
    """Copy `source` to RESULTS in `stage`. Raises ReportError, naming `results`, if there is nothing to report."""
    before = load.read_all(source)
    left_out = published_files.copy(source, stage / RESULTS)
    with chdir(stage):
        stored = load.read_all(RESULTS)
        if not stored.results:
            raise ReportError(f"{results}: none of its results can be read; run the trials again")
        lost = len(before.folders) - len(stored.folders)
        reasons = ["a run is still writing into the folder"] if before.in_use else []
        reasons += [f"{lost} of its trials left out because their folders are links or hold links"] if lost else []
        return Copied(stored, left_out, [*reasons, *list_obstacles(stored, RESULTS)])


def _place(copied: Copied, stage: Path, folder: Path, replace: bool, credit: Credit, packed: Path | None) -> bool:
    """Build the publication next to `folder` and rename it; False if the same one already exists.

    `packed` is the archive of a publication that is published again: it is kept as it is.
    """
    marks = (f"Published with known faults: {'; '.join(copied.obstacles)}.",) if copied.obstacles else ()
    part = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder.parent))
    try:
        facts = _fill(part.resolve(), stage, copied.stored, folder.name, marks, packed)
        facts = msgspec.structs.replace(
            facts, authors=list(credit.authors), given_title=credit.title, doi=credit.doi, url=credit.url
        )
        earlier = publication.read_folder(folder)  # publishing the same again keeps the date
        _seal(part, facts, earlier.published_day if earlier else None)
        if earlier and not _is_same(part, folder):
            _seal(part, facts)
        return _put(part, folder, replace)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def list_obstacles(stored: Stored, folder: Path) -> list[str]:
    """List a sentence without its full stop for each kind of obstacle; none if the results are complete and intact.

    `folder` is the copy to be published, `stored` what was read from it.
    """
    return [each.sentence for each in (*find_obstacles(stored, folder), *published_files.find_private_files(folder))]


def today() -> str:
    """Return today's date in ISO 8601, UTC."""
    return datetime.now(UTC).date().isoformat()


@contextmanager
def _lock(into: Path) -> Iterator[list[str]]:
    """Lock the folder `into` for one publisher, and clean up.

    With the lock held, anything unfinished was left by a process that was killed. Publications about to be replaced are
    put back, with a line each. The rest is removed.
    """
    lock = os.open(into, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        put_back = []
        for left in into.glob(f"{UNFINISHED}*"):
            target = into / left.name.removeprefix(REPLACED)
            if left.name.startswith(REPLACED) and not target.exists():
                left.rename(target)
                put_back.append(f"{target}: restored because its replacement was killed")
            else:
                shutil.rmtree(left)
        yield put_back
    finally:
        os.close(lock)


def _name(stored: Stored, into: Path) -> str:
    """Return <date>-<machine>, with the study if that name belongs to another study."""
    short, long = publication.propose_names(stored)
    earlier = publication.read_folder(into / short)
    if earlier:
        return short if earlier.studies == publication.build_publication(stored, short).studies else long
    return long if (into / short).exists() else short


def _fill(
    out: Path, stage: Path, stored: Stored, name: str, marks: tuple[str, ...], packed: Path | None
) -> publication.Publication:
    """Write report, archive and inputs; returns the publication's facts for `_seal`.

    `out` is absolute. The report is built in the copy's folder, so that its paths are the archive's and none is this
    machine's.
    """
    if packed:
        shutil.copyfile(packed, out / ARCHIVE)
    with chdir(stage):
        said = write_report(out, marks)
        if not packed:
            archive.pack(RESULTS, out / ARCHIVE)
    export.write_text(out / INPUTS, format_inputs(stored))
    return publication.build_publication(stored, name, said, marks)


def _seal(out: Path, facts: publication.Publication, day: str | None = None) -> None:
    """Write the files that depend on the publishing date (today if None), and the checksums of all files."""
    facts = msgspec.structs.replace(facts, published_day=day or today())
    for file, text in build_texts(facts, file_digest(out / ARCHIVE, "sha256")).items():
        export.write_text(out / file, text)
    export.write_text(out / CHECKSUMS, format_checksums(out))
    out.chmod(0o755)  # mkdtemp makes it private


def _is_same(part: Path, target: Path) -> bool:
    """True if the target has the same checksums, and exactly the files they list, unchanged."""
    sums, before = (part / CHECKSUMS).read_text(encoding="utf-8"), target / CHECKSUMS
    return before.is_file() and before.read_text(encoding="utf-8") == sums == format_checksums(target)


def _put(part: Path, target: Path, replace: bool) -> bool:
    """Rename `part` to `target`; False if the same one already exists. Raises ReportError if another one does."""
    if target.exists():
        if _is_same(part, target):
            return False
        if not replace:
            raise ReportError(
                f"{target}: another publication has this name, or this one was changed; add --replace, "
                "or give another --name"
            )
        if not (target / publication.FILE).is_file():
            raise ReportError(f"{target}: is no publication, and would be lost; give another --name, or --into")
        old = target.with_name(f"{REPLACED}{target.name}")
        target.rename(old)
        try:
            part.rename(target)
        except BaseException:
            old.rename(target)
            raise
        shutil.rmtree(old)
    else:
        part.rename(target)
    return True


def _large(folder: Path) -> list[str]:
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    if sum(sizes.values()) <= LARGE_BYTES:
        return []
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    names = ", ".join(f"{name} {sizes[name] / 1e6:.1f} MB" for name in largest)
    return [f"{folder}: {sum(sizes.values()) / 1e6:.1f} MB, large for a repository; the largest: {names}"]
