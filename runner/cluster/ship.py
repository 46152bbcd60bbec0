"""Ship a finished trial: its folder and its probe's as one checked parcel, which arrives whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads.records import stored
from workloads.records.files import settle, sync, without_nan
from workloads.records.job import ID, ROOMS, Kind
from workloads.records.result import TrialResult
from workloads.temporary import temporary_folder

ARRIVING = ".arriving-"  # in a results folder; the next run clears what a killed one left
TRIAL, PROBE = "trial", "probe"


class Damaged(ValueError):
    """The parcel is not what was sent."""


@dataclass(frozen=True)
class Parcel:
    """Parcel of one trial.

    `result` is JSON as its node saw it: neither judged nor with evidence of its end. `content` is a tar of TRIAL/, the
    trial's folder, and of PROBE/, the folder of its framework's probe, if there is one.
    """

    trial: str  # its id
    probe: str
    result: dict[str, Any]
    evidence: dict[str, Any]
    content: bytes = field(repr=False)
    sha256: str

    @staticmethod
    def of(result: dict[str, Any], evidence: dict[str, Any], folder: Path, probe: Path) -> Parcel:
        """Pack a trial's folder and its probe's.

        Either may be missing: the trial was never begun, or the probe not run.
        """
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as packed:
            for name, each in ((TRIAL, folder), (PROBE, probe)):
                if each.is_dir():
                    packed.add(each, name)
        content = buffer.getvalue()
        return Parcel(folder.name, probe.name, result, evidence, content, hashlib.sha256(content).hexdigest())

    def told(self) -> TrialResult:
        """Return the result. Raises Damaged."""
        try:
            result = stored.result_of(json.dumps(without_nan(self.result)).encode())
        except (ValueError, RecursionError) as error:
            raise Damaged(f"{self.trial}: {error}") from error
        if result.spec.id != self.trial:
            raise Damaged(f"{self.trial}: its result is of {result.spec.id}")
        return result


@contextmanager
def arriving(parcel: Parcel, results: Path) -> Iterator[dict[str, Path]]:
    """Return {TRIAL, PROBE: the folder as it arrived}, already on the disk. Raises Damaged, OSError.

    Move each to its final path within the `with` block.
    """
    if hashlib.sha256(parcel.content).hexdigest() != parcel.sha256:
        raise Damaged(f"{parcel.trial}: its sha256 is not the one that was sent")
    if not ID.fullmatch(parcel.trial) or not ID.fullmatch(parcel.probe):
        raise Damaged(f"{parcel.trial[:80]!r}: no name of a trial")
    with temporary_folder(ARRIVING, results) as into:
        try:
            with tarfile.open(fileobj=io.BytesIO(parcel.content)) as packed:
                packed.extractall(into, filter="data")  # refuses links and paths that lead out of `into`
        except tarfile.TarError as error:
            raise Damaged(f"{parcel.trial}: {error}") from error
        found = {name: into / name for name in (TRIAL, PROBE) if (into / name).is_dir()}
        for folder in found.values():
            settle(folder)
        yield found


def place(folder: Path, destination: Path) -> None:
    """Move the folder to a path that does not exist yet. Raises OSError."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(destination)
    sync(destination.parent)


def probe_folder(results: Path, probe: str) -> Path:
    """Return the folder of the probe with this id."""
    return results / ROOMS[Kind.PROBE] / probe


def keep_probe(folder: Path, results: Path, probe: str) -> None:
    """Keep the framework's answer from the first node that sent it; those of other nodes are in their trials."""
    destination = probe_folder(results, probe)
    if destination.exists():
        shutil.rmtree(folder)
    else:
        place(folder, destination)
