"""Published folders and archives as sides of a comparison, including those of strangers."""

from __future__ import annotations

import io
import lzma
import random
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from test_report_compare import LATER, folders, repeats, run

from reports.load import ReportError
from reports.publishing import archive


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which archives are unpacked."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def published(results: Path) -> Path:
    folder = results.parent / "published" / results.name
    folder.mkdir(parents=True)
    archive.pack(results, folder / archive.ARCHIVE)
    return folder


def test_a_published_folder_or_its_archive_is_compared_as_the_results_folder_it_was_made_of(
    tmp_path: Path, temporary: Path
) -> None:
    a, b = folders(tmp_path, repeats([100, 101, 102]), repeats([90, 91, 92], **LATER))
    folder = published(b)
    expected = run(a, b, "--fail-on-regression", "5%")
    for side in (folder, folder / archive.ARCHIVE):
        ran = run(a, side, "--fail-on-regression", "5%")
        assert (ran.returncode, ran.stderr) == (expected.returncode, expected.stderr)
        assert ran.stdout == expected.stdout.replace(f"B: {b}", f"B: {side}")
    assert list(temporary.iterdir()) == []


def test_an_unreadable_result_in_an_archive_is_named_by_the_archive(tmp_path: Path, temporary: Path) -> None:
    a, b = folders(tmp_path, repeats([100, 101, 102]), repeats([90, 91, 92], **LATER))
    path = min(b.glob("trials/*/result.json"))
    path.write_text("{")
    packed = published(b) / archive.ARCHIVE
    assert f"{packed / path.relative_to(b)}: left out: not whole JSON" in run(a, packed).stderr


def tar_xz(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    with tarfile.open(path, "w:xz") as made:
        for info, content in members:
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))


def leading_out(path: Path) -> None:
    tar_xz(path, (tarfile.TarInfo("results/../../escaped"), b"x"))


def linked_out(path: Path) -> None:
    link = tarfile.TarInfo("results/trials")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    tar_xz(path, (link, b""))


def log(trial: str = "trials/a", folder: str = "results", file: str = "log.txt") -> tarfile.TarInfo:
    return tarfile.TarInfo(f"{folder}/{trial}/{file}")


def two_folders(path: Path) -> None:
    tar_xz(path, (log(folder="one"), b""), (log(folder="two"), b""))


def too_large(path: Path) -> None:
    tar_xz(path, (log(), bytes(50_000)))


def too_many(path: Path) -> None:
    tar_xz(path, *((log(f"trials/{number}"), b"") for number in range(20)))


def twice(path: Path) -> None:
    tar_xz(path, (log(), b""), (log(), b""))


def with_code(path: Path) -> None:
    tar_xz(path, (log(), b""), (log(file="model.py"), b""))


def without_trials(path: Path) -> None:
    tar_xz(path, (log("probes/a"), b""))


def long_header(path: Path) -> None:
    """A name that is larger than any file may be; tarfile reads it whole before it returns the member."""
    tar_xz(path, (log(), b""), (log("trials/" + "a" * 30_000), b""))


def chained_headers(path: Path) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type = tarfile.GNUTYPE_LONGNAME
    tar_xz(path, *((header, b"") for _ in range(2_000)))


def cut(path: Path) -> None:
    too_large(path)
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path.write_bytes(b""), "not the archive of a results folder"),
        (lambda path: path.write_bytes(b"PK\3\4 no archive"), "not the archive of a results folder"),
        (lambda path: path.write_bytes(lzma.compress(b"no archive")), "not the archive of a results folder"),
        (cut, "it is cut short"),
        (leading_out, "results/../../escaped is not a results file"),
        (linked_out, "results/trials is not a plain file"),
        (with_code, "results/trials/a/model.py is not a results file"),
        (twice, "results/trials/a/log.txt is contained twice"),
        (two_folders, "it holds 2 folders, not one"),
        (too_large, "it holds more than 40,000 bytes"),
        (too_many, "it holds more than 10 files"),
        (long_header, "or a file of it 25,000"),
        (chained_headers, "not the archive of a results folder"),
        (without_trials, "no result.json found"),
    ],
)
def test_a_bad_archive_is_one_line_with_exit_code_2_and_nothing_is_left_of_it(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], told: str
) -> None:
    if make not in (cut, long_header, chained_headers):
        monkeypatch.setattr(archive, "MOST_BYTES", 40_000)
    if make is long_header:
        monkeypatch.setattr(archive, "MOST_MEMBER_BYTES", 25_000)
    monkeypatch.setattr(archive, "MOST_FILES", 10)
    path = tmp_path / "stranger.tar.xz"
    make(path)
    ran = run(path, path)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert str(path) in ran.stderr and told in ran.stderr
    assert make is leading_out or str(temporary) not in ran.stderr
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "escaped").exists()


def test_an_archive_that_was_changed_since_it_was_published_is_refused(tmp_path: Path, temporary: Path) -> None:
    a, b = folders(tmp_path, repeats([100]), repeats([90], **LATER))
    folder = published(b)
    (folder / "SHA256SUMS").write_bytes(b"\xff\n" + b"0" * 64 + b"  results.tar.xz\n")
    ran = run(a, folder)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "changed since it was published" in ran.stderr


def test_no_bytes_of_an_archive_do_more_than_be_refused(tmp_path: Path) -> None:
    """Bytes change in the packed or in the unpacked archive: a checksum of xz hides the second."""
    results, _ = folders(tmp_path, repeats([100]), repeats([90]))
    archive.pack(results, tmp_path / "packed")
    packed = (tmp_path / "packed").read_bytes()
    whole, drawn = lzma.decompress(packed), random.Random(7)
    for case in range(120):
        content = bytearray(packed if case % 4 == 0 else whole)
        for _ in range(drawn.randint(1, 8)):
            content[drawn.randrange(min(len(content), 3000))] = drawn.randrange(256)
        (tmp_path / "mutated").write_bytes(content if case % 4 == 0 else lzma.compress(bytes(content), preset=0))
        stage = tmp_path / "stage"
        stage.mkdir()
        with suppress(ReportError):
            assert archive.unpack(tmp_path / "mutated", stage).parent == stage
        shutil.rmtree(stage)
