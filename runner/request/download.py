"""Fetch published data files: with a progress bar, resumed where a download was interrupted, checked before use."""

from __future__ import annotations

import tarfile
from pathlib import Path

import requests
from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from workloads.datasets import DataError, DataFile, Dataset, verify

TIMEOUT_S = 60
CHUNK_BYTES = 1 << 18


def fetch(dataset: Dataset, folder: Path, console: Console) -> None:
    """Download the missing files of the data set. Raises DataError; what was fetched is kept for next time."""
    if all(is_whole(folder, file) for file in dataset.files):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        for file in dataset.download:
            path = folder / file.path
            if not is_whole(folder, file):
                download(f"{dataset.base_url}{path.name}", path, file, console)
            if path.name.endswith(".tar.gz"):
                extract(path, folder)


def is_whole(folder: Path, file: DataFile) -> bool:
    """True if the file exists with its published MD5."""
    try:
        verify(folder / file.path, file.md5)
    except DataError:
        return False
    return True


def download(url: str, path: Path, file: DataFile, console: Console) -> None:
    """Download to PATH.part, continuing where it ends; rename it when its md5 is correct. Raises DataError."""
    part = path.with_name(path.name + ".part")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        received = part.stat().st_size if part.exists() else 0
        headers = {"Range": f"bytes={received}-"} if received else {}
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_S) as response:
            if response.status_code != 416:  # 416: nothing after what is already there
                response.raise_for_status()
                _receive(response, part, received if response.status_code == 206 else 0, console, path.name)
    except (requests.RequestException, OSError) as error:
        raise DataError(
            f"{url} could not be fetched ({type(error).__name__}: {error}); run again to go on, or give --data-dir"
        ) from error
    try:
        verify(part, file.md5)
    except DataError:
        part.unlink()
        raise
    part.replace(path)


def _receive(response: requests.Response, part: Path, received: int, console: Console, name: str) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    length = response.headers.get("Content-Length")
    total = received + int(length) if length else None
    with part.open("ab" if received else "wb") as out, Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=total, completed=received)
        for chunk in response.iter_content(CHUNK_BYTES):
            out.write(chunk)
            progress.advance(task, len(chunk))


def extract(archive: Path, folder: Path) -> None:
    """Unpack with tarfile's "data" filter: nothing outside the folder, no links out, no devices."""
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise DataError(f"{archive} could not be unpacked: {error}") from error
