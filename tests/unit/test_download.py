"""Downloads from a real HTTP server on this machine: resumed, checked, unpacked safely."""

from __future__ import annotations

import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from runner.request.inputs import extract, fetch
from workloads.datasets import DataError, DataFile, Dataset, Split

CONTENT = bytes(range(256)) * 4096
QUIET = Console(file=io.StringIO())


class Server(http.server.ThreadingHTTPServer):
    files: dict[str, bytes]
    requests: list[tuple[str, str | None]]
    cut: int | None


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.files`, with ranges; a first request gets only `server.cut` bytes."""

    server: Server

    def do_GET(self) -> None:
        content = self.server.files.get(self.path.lstrip("/"))
        self.server.requests.append((self.path, self.headers.get("Range")))
        if content is None:
            self.send_error(404)
            return
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        cut, self.server.cut = self.server.cut, None
        self.wfile.write(content[start:cut])
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def never_read(folder: Path) -> tuple[Split, Split]:
    raise AssertionError(folder)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as found:
        found.files, found.requests, found.cut = {"data.bin": CONTENT}, [], None
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


def dataset(
    server: Server, content: bytes = CONTENT, name: str = "data.bin", files: tuple[DataFile, ...] | None = None
) -> Dataset:
    file = DataFile(name, hashlib.md5(content).hexdigest())
    return Dataset(
        "made-up", "", 1, 1, 1, never_read, files or (file,), (file,), f"http://127.0.0.1:{server.server_port}/"
    )


def test_a_download_is_what_was_served_and_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    fetch(dataset(server), tmp_path, QUIET)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert not list(tmp_path.glob("*.part"))
    fetch(dataset(server), tmp_path, QUIET)
    assert len(server.requests) == 1
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "data.bin.part").write_bytes(CONTENT)  # it was never renamed
    fetch(dataset(server), tmp_path / "whole", QUIET)
    assert (tmp_path / "whole" / "data.bin").read_bytes() == CONTENT


def test_broken_off_download_goes_on_where_it_broke_off(server: Server, tmp_path: Path) -> None:
    server.cut = 300_000
    with pytest.raises(DataError, match="run again to continue"):
        fetch(dataset(server), tmp_path, QUIET)
    have = (tmp_path / "data.bin.part").stat().st_size
    assert 0 < have <= 300_000 and not (tmp_path / "data.bin").exists()
    fetch(dataset(server), tmp_path, QUIET)
    assert server.requests[-1] == ("/data.bin", f"bytes={have}-")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_download_with_a_wrong_checksum_or_of_no_file_is_a_clear_error(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"md5 expected .* found"):
        fetch(dataset(server, content=b"something else"), tmp_path, QUIET)
    assert not list(tmp_path.glob("data*"))
    server.files.clear()
    with pytest.raises(DataError, match="404"):
        fetch(dataset(server), tmp_path / "2", QUIET)


def test_a_folder_that_cannot_be_made_is_named_with_what_to_do(server: Server, tmp_path: Path) -> None:
    """The installation belongs to root."""
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "data"
    with pytest.raises(DataError, match=rf"^{folder}: Not a directory: .* --data-dir or BATCHWISE_DATA$"):
        fetch(dataset(server), folder, QUIET)
    assert not server.requests


def archive(member: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo(member)
        info.size = 5
        tar.addfile(info, io.BytesIO(b"12345"))
    return packed.getvalue()


def test_archive_is_unpacked(server: Server, tmp_path: Path) -> None:
    server.files["data.tar.gz"] = archive("folder/inside.bin")
    inside = (DataFile("folder/inside.bin", hashlib.md5(b"12345").hexdigest()),)
    fetch(dataset(server, server.files["data.tar.gz"], "data.tar.gz", inside), tmp_path, QUIET)
    assert (tmp_path / "folder" / "inside.bin").read_bytes() == b"12345"


def test_archive_writes_nothing_outside_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    evil = Path(folder / "evil.tar.gz")
    evil.write_bytes(archive("../outside.bin"))
    with pytest.raises(DataError, match="could not be unpacked"):
        extract(evil, folder)
    assert not (tmp_path / "outside.bin").exists()
