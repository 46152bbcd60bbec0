"""Text that programs of ours print, and archives of others that they unpack."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import ROOT

from workloads.unpacking import extract_all

SAY = "from workloads import program; program.outlast_readers(plain={}); print('a\\x1b[2J\\x9b2J\\tb\\nc')"


@pytest.mark.parametrize(
    ("plain", "printed"), [(True, "a\ufffd[2J\ufffd2J\tb\nc\n"), (False, "a\x1b[2J\x9b2J\tb\nc\n")]
)
def test_a_program_that_prints_what_others_stored_sends_no_control_characters(plain: bool, printed: str) -> None:
    words = [sys.executable, "-c", SAY.format(plain)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", env={"PYTHONUTF8": "1"})
    assert done.stdout == printed, done.stderr


def packed(*members: tuple[str, bytes, int]) -> tarfile.TarFile:
    """Members: (name, kind, mode)."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, kind, mode in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.linkname = kind, mode, "/etc/passwd"
            member.size = 3 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"abc"))
    content.seek(0)
    return tarfile.open(fileobj=content)


def test_plain_files_are_unpacked_without_tarfiles_filter(tmp_path: Path) -> None:
    extract_all(
        packed(("a", tarfile.DIRTYPE, 0o700), ("a/b/c.sh", tarfile.REGTYPE, 0o4777), ("a/d", tarfile.REGTYPE, 0o600)),
        tmp_path,
    )
    found = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o7777 for path in tmp_path.rglob("*")}
    assert (tmp_path / "a" / "d").read_bytes() == b"abc"
    assert found["a/b/c.sh"] == 0o755 and found["a/d"] == 0o644 and {*found} == {"a", "a/b", "a/b/c.sh", "a/d"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../a", tarfile.REGTYPE),
        ("/a", tarfile.REGTYPE),
        ("a/../../b", tarfile.REGTYPE),
        ("a", tarfile.SYMTYPE),
        ("a", tarfile.LNKTYPE),
        ("a", tarfile.FIFOTYPE),
        ("a", tarfile.CHRTYPE),
    ],
)
def test_links_devices_and_paths_that_lead_out_are_not_unpacked(name: str, kind: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    with pytest.raises(tarfile.TarError, match="is not a plain file inside its folder"):
        extract_all(packed((name, kind, 0o644)), folder)
    assert not list(folder.iterdir()) and [*tmp_path.iterdir()] == [folder]
