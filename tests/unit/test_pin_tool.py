"""tools/pin.py, with a pip that a script stands in for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tools import pin

REPORT = {
    "install": [
        {
            "metadata": {"name": "caffe", "version": "1.0"},
            "download_info": {"archive_info": {"hashes": {"sha256": "ab" * 32}}},
        }
    ]
}


def stand_in(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run this shell script in place of Python, hence of pip."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


def test_what_pip_says_is_seen_and_the_last_line_says_that_nothing_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path, "echo 'ERROR: No matching distribution found' >&2; exit 1", monkeypatch)
    with pytest.raises(SystemExit) as ended:
        pin.main(["caffe==1.0"])
    assert ended.value.code == "pin: pip found no such set; its words are above"
    assert capfd.readouterr() == ("", "ERROR: No matching distribution found\n")


def test_only_wheels_are_pinned_as_only_wheels_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    words = f'case "$*" in *--only-binary=:all:*caffe) cat {tmp_path}/report.json;; *) exit 1;; esac'
    stand_in(tmp_path, words, monkeypatch)
    pin.main(["caffe"])
    assert capsys.readouterr().out == f"caffe==1.0 --hash=sha256:{'ab' * 32}\n"
