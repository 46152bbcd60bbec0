"""Arrays of images of one's own, kept by what they were made of: whoever asks again with the same files, size and fit
finds them, and nobody finds them when one of the files has changed.

Written below another name and renamed when whole, in the order of the files, by several processes: what is larger than
memory never is in it.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock
from rich.console import Console

from runner.data.archive import ArchiveImages
from runner.data.own import SPLITS, OwnImages, Place, SplitName, Survey, digest, reserve
from workloads.datasets import DataError, Images, Labels, file_digest
from workloads.layers import Shape
from workloads.records.job import Fit

FORMAT = 1  # of the cache, and of how a picture becomes pixels: what was made otherwise is made again
META = "meta.json"
NAMES_SHOWN = 10
COPY_ROWS = 64


@dataclass(frozen=True)
class CachedFile:
    """A .npy file, and its sha256."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class Cached:
    """`files` by the names of a trial's inputs: train_images, train_labels, test_images, test_labels."""

    files: dict[str, CachedFile]
    counts: dict[SplitName, int]
    unreadable: tuple[str, ...]  # what could not be decoded, each with its reason; it is left out

    def split(self, split: SplitName) -> tuple[Images, Labels]:
        """The images as a map of their file."""
        images = np.load(self.files[f"{split}_images"].path, mmap_mode="r")
        return images, np.load(self.files[f"{split}_labels"].path)


def key(images: OwnImages, survey: Survey, shape: Shape, fit: Fit) -> str:
    """The name of what is made of these; another Pillow may round otherwise."""
    decoder = ""
    if not isinstance(images, ArchiveImages):
        decoder = importlib.metadata.version("pillow")
    return f"{images.name}-{digest(FORMAT, survey.content, shape, fit, decoder)[:16]}"


def stored(folder: Path) -> Cached | None:
    """What a folder of the cache holds, None where it is not there or not whole any more."""
    try:
        cached = _read(folder)
        whole = all(file_digest(file.path, "sha256") == file.sha256 for file in cached.files.values())
        return cached if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(folder: Path) -> Cached:
    meta = json.loads((folder / META).read_text(encoding="utf-8"))
    files = {name: CachedFile(folder / f"{name}.npy", sha256) for name, sha256 in meta["files"].items()}
    return Cached(files, meta["counts"], tuple(meta["unreadable"]))


@dataclass(frozen=True)
class Wanted:
    """What is to be made."""

    images: OwnImages
    survey: Survey
    shape: Shape
    fit: Fit
    skip: bool  # what cannot be decoded is left out


def arrays(wanted: Wanted, cache: Path, console: Console) -> Cached:
    """From the cache, or made and put there. Raises DataError for what cannot be decoded, OSError for a full disk."""
    name = key(wanted.images, wanted.survey, wanted.shape, wanted.fit)
    folder, part = cache / name, cache / f"{name}.part"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f"{name}.lock"):
        cached = stored(folder)
        if cached is None:
            for earlier in (folder, part):  # damaged; of a process that was killed
                shutil.rmtree(earlier, ignore_errors=True)
            part.mkdir()
            try:
                _make(wanted, part, console)
                part.rename(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
            cached = _read(folder)
        return cached


def refuse(name: str, reasons: Sequence[str]) -> None:
    """Raises DataError where there is one that cannot be decoded."""
    if reasons:
        more = f", and {len(reasons) - NAMES_SHOWN} more" if len(reasons) > NAMES_SHOWN else ""
        count = "1 image" if len(reasons) == 1 else f"{len(reasons)} images"
        raise DataError(
            f"data set {name}: {count} cannot be decoded: {', '.join(reasons[:NAMES_SHOWN])}{more}; mend or remove "
            "them, or leave them out by --skip-unreadable"
        )


def _make(wanted: Wanted, folder: Path, console: Console) -> None:
    """Files and META, where they may stay half-written."""
    images, survey = wanted.images, wanted.survey
    labels = images.labels
    places: list[Place] = [
        (split, n) for split in SPLITS for n in range(len(labels[split])) if (split, n) not in survey.unreadable
    ]
    paths: dict[SplitName, Path] = {split: folder / f"{split}_images.npy" for split in SPLITS}
    for split, path in paths.items():
        reserve(path, (sum(place[0] == split for place in places), *wanted.shape))
    failed = images.fill(places, paths, wanted.fit, console)
    if not wanted.skip:
        refuse(images.name, images.listed(failed))
    good = [place for place in places if place not in failed]
    files, counts = {}, {}
    for split, path in paths.items():
        if any(place[0] == split for place in failed):
            _leave_out(path, [place not in failed for place in places if place[0] == split])
        kept = labels[split][[n for s, n in good if s == split]]
        np.save(folder / f"{split}_labels.npy", kept, allow_pickle=False)
        counts[split] = len(kept)
        for kind in ("images", "labels"):
            files[f"{split}_{kind}"] = file_digest(folder / f"{split}_{kind}.npy", "sha256")
    unreadable = dict(sorted((survey.unreadable | failed).items()))
    meta = {"files": files, "counts": counts, "unreadable": images.listed(unreadable)}
    (folder / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _leave_out(path: Path, kept: list[bool]) -> None:
    """The file without some of its images, written anew piece by piece."""
    images, rows = np.load(path, mmap_mode="r"), np.flatnonzero(kept)
    whole = path.with_suffix(".kept")
    reserve(whole, (len(rows), *images.shape[1:]))
    out = np.lib.format.open_memmap(whole, mode="r+")
    for start in range(0, len(rows), COPY_ROWS):
        out[start : start + COPY_ROWS] = images[rows[start : start + COPY_ROWS]]
    del out, images
    whole.replace(path)
