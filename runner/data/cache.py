"""Cache arrays of custom images under a key of their files, size and fit, and find images that repeat. A changed file
changes the key.

Arrays are written below another name and renamed when complete. Several processes write them, in the order of the
files. Memory never has to hold a whole data set.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from runner.data.own import NAMES_SHOWN, SPLITS, OwnImages, Place, SplitName, Survey, digest, listed, reserve
from runner.data.pixel_values import LEAST_PART, LEVELS
from runner.machine import locks
from workloads.datasets import DataError, Images, Labels, file_digest
from workloads.layers import Shape
from workloads.records.job import Fit, ImageFindings
from workloads.words import format_count

FORMAT = 5  # of the cache, and of how a picture becomes pixels: arrays of another format are made again
META, UNREADABLE = "meta.json", "unreadable.txt"
COPY_ROWS = 64
CACHE_VARIABLE = "BATCHWISE_CACHE"  # of the user: the folder
CACHE_ADVICE = f"set {CACHE_VARIABLE} to a folder that can be written"


@dataclass(frozen=True)
class CachedFile:
    """A .npy file, and its sha256."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class First:
    """The first images of a finding. Names are not stored: a file may get another one, and a cache may be shared."""

    places: Sequence[Place]  # an image, or identical ones
    words: str = ""

    def describe(self, images: OwnImages) -> str:
        """Return the images' names and the words, on one line."""
        names = " = ".join(images.described((split, number)) for split, number in self.places)
        return ": ".join(filter(None, (names, self.words)))


@dataclass(frozen=True)
class Cached:
    """Cached arrays of a data set.

    `files` are by the names of a trial's inputs: train_images, train_labels, test_images, test_labels.
    """

    files: dict[str, CachedFile]
    counts: dict[SplitName, int]
    unreadable: tuple[str, ...]  # images that could not be decoded, each with its reason; they are left out
    findings: ImageFindings
    firsts: dict[str, str]  # {field of `findings`: description of its first image; of "dim", the highest value}

    def split(self, split: SplitName) -> tuple[Images, Labels]:
        """Return the images as a memory map of their file, and the labels."""
        images = np.load(self.files[f"{split}_images"].path, mmap_mode="r")
        return images, np.load(self.files[f"{split}_labels"].path)


def make_key(images: OwnImages, survey: Survey, shape: Shape, fit: Fit) -> str:
    """Return the cache name for these. Where Pillow makes them it includes its version: rounding may differ."""
    decoder = importlib.metadata.version("pillow") if images.made_by_pillow else ""
    return f"{images.name}-{digest(FORMAT, survey.content, shape, fit, images.pixel_range, decoder)[:16]}"


def read_stored(folder: Path, images: OwnImages) -> Cached | None:
    """Return the contents of a cache folder, with the names that `images` have now; None where it is missing or
    damaged.
    """
    try:
        cached = _read(folder, images)
        whole = all(file_digest(file.path, "sha256") == file.sha256 for file in cached.files.values())
        return cached if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def _read(folder: Path, images: OwnImages) -> Cached:
    meta = json.loads((folder / META).read_text(encoding="utf-8"))
    files = {name: CachedFile(folder / f"{name}.npy", sha256) for name, sha256 in meta["files"].items()}
    findings = ImageFindings(**meta["findings"])
    unreadable = images.listed({(split, number): reason for split, number, reason in meta["unreadable"]})
    firsts = {name: First(**first).describe(images) for name, first in meta["firsts"].items()}
    return Cached(files, meta["counts"], tuple(unreadable), findings, firsts)


@dataclass(frozen=True)
class Wanted:
    """Arrays to be made."""

    images: OwnImages
    survey: Survey
    shape: Shape
    fit: Fit
    skip: bool  # leave out what cannot be decoded


def provide_arrays(wanted: Wanted, cache: Path, console: Console) -> Cached:
    """Return the arrays from the cache, or make and store them.

    Raises DataError for what cannot be decoded, LockRefused for another user's lock, OSError for a full disk.
    """
    name = make_key(wanted.images, wanted.survey, wanted.shape, wanted.fit)
    folder, part = cache / name, cache / f"{name}.part"
    if (stored := read_stored(folder, wanted.images)) is not None:  # no lock, which may be another user's
        return stored
    cache.mkdir(parents=True, exist_ok=True)
    what = f"data set {wanted.images.name}: another run decodes it"
    with locks.wait_for_file(cache / f"{name}.lock", what, CACHE_ADVICE):
        cached = read_stored(folder, wanted.images)
        if cached is None:
            for earlier in (folder, part):  # the first is damaged, the second from a killed process
                shutil.rmtree(earlier, ignore_errors=True)
            part.mkdir()
            try:
                _make(wanted, part, console)
                part.rename(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
            cached = _read(folder, wanted.images)
        return cached


def refuse(name: str, reasons: Sequence[str], cache: Path) -> None:
    """Raises DataError if any image cannot be decoded; more than fit in a line are listed in a new file of the cache.

    Another user's data set may have the same name there.
    """
    if not reasons:
        return
    where = ""
    if len(reasons) > NAMES_SHOWN:
        with suppress(OSError):
            handle, file = tempfile.mkstemp(prefix=f"{name}-", suffix=f"-{UNREADABLE}", dir=cache)
            with open(handle, "w", encoding="utf-8") as listing:
                listing.writelines(f"{reason}\n" for reason in reasons)
            where = f" (all of them in {file})"
    raise DataError(
        f"data set {name}: {format_count(len(reasons), 'image')} cannot be decoded: {listed(reasons)}{where}; fix or "
        "remove them, or skip them with --skip-unreadable"
    )


def _make(wanted: Wanted, folder: Path, console: Console) -> None:
    """Write the arrays and META into a folder where they may stay half-written."""
    images, survey = wanted.images, wanted.survey
    labels = images.labels
    everything: list[Place] = [(split, n) for split in SPLITS for n in range(len(labels[split]))]
    places = {place: survey.checksums.get(place, "") for place in everything if place not in survey.unreadable}
    paths: dict[SplitName, Path] = {split: folder / f"{split}_images.npy" for split in SPLITS}
    for split, path in paths.items():
        reserve(path, (sum(place[0] == split for place in places), *wanted.shape))
    filled = images.fill(places, paths, wanted.fit, console)
    unreadable = dict(sorted((survey.unreadable | filled.failed).items()))
    if not wanted.skip:
        refuse(images.name, images.listed(unreadable), folder.parent)
    kept = {split: [p for p in places if p[0] == split and p not in filled.failed] for split in SPLITS}
    files, counts = {}, {}
    for split, path in paths.items():
        if any(place[0] == split for place in filled.failed):
            _leave_out(path, [place not in filled.failed for place in places if place[0] == split])
        kept_labels = labels[split][[number for _, number in kept[split]]]
        np.save(folder / f"{split}_labels.npy", kept_labels, allow_pickle=False)
        counts[split] = len(kept[split])
        for kind in ("images", "labels"):
            files[f"{split}_{kind}"] = file_digest(folder / f"{split}_{kind}.npy", "sha256")
    findings, firsts = _found(images, paths, kept, filled.faded)
    known = {"files": files, "counts": counts, "unreadable": [(*place, why) for place, why in unreadable.items()]}
    meta = known | {"findings": asdict(findings), "firsts": {name: asdict(first) for name, first in firsts.items()}}
    (folder / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _found(
    images: OwnImages, paths: dict[SplitName, Path], kept: dict[SplitName, list[Place]], faded: dict[Place, str]
) -> tuple[ImageFindings, dict[str, First]]:
    """Return (number of images for each finding, the first of each). Requested copies do not count."""
    originals = {split: [place for place in kept[split] if not images.is_copy(place)] for split in SPLITS}
    labels = {split: images.labels[split][[number for _, number in originals[split]]] for split in SPLITS}
    repeats = find_repeats(paths, labels, originals)
    pairs = {
        "tested_on_trained": repeats.tested_on_trained,
        "two_labels": repeats.two_labels,
        "repeated_train": repeats.within["train"],
        "repeated_test": repeats.within["test"],
    }
    firsts = {name: First(each[0]) for name, each in pairs.items() if each}
    dim = 0
    if faded:
        place, words = min(faded.items(), key=_in_order)
        firsts["faded"] = First([place], words)
    elif images.pixel_range is None and (brightest := find_brightest_of_dim(paths.values())):
        dim = sum(map(len, originals.values()))
        firsts["dim"] = First((), str(brightest))
    return ImageFindings(**{name: len(each) for name, each in pairs.items()}, faded=len(faded), dim=dim), firsts


def find_brightest_of_dim(arrays: Iterable[Path]) -> int:
    """Return the highest value of all images if they use less than an eighth of 8 bits; else 0. Reads no further than
    the first brighter image.
    """
    brightest = 0
    for path in arrays:
        images = np.load(path, mmap_mode="r")
        for start in range(0, len(images), COPY_ROWS):
            brightest = max(brightest, int(images[start : start + COPY_ROWS].max()))
            if LEAST_PART * brightest >= LEVELS:
                return 0
    return brightest


def _in_order(item: tuple[Place, str]) -> tuple[int, int]:
    """Return the sort key of the images' order: train comes first."""
    (split, number), _ = item
    return SPLITS.index(split), number


def _leave_out(path: Path, kept: list[bool]) -> None:
    """Rewrite the file without some of its images, piece by piece."""
    images, rows = np.load(path, mmap_mode="r"), np.flatnonzero(kept)
    whole = path.with_suffix(".kept")
    reserve(whole, (len(rows), *images.shape[1:]))
    out = np.lib.format.open_memmap(whole, mode="r+")
    for start in range(0, len(rows), COPY_ROWS):
        out[start : start + COPY_ROWS] = images[rows[start : start + COPY_ROWS]]
    del out, images
    whole.replace(path)


DIGEST_BYTES = 16
Pair = tuple[Place, Place]  # an image, and an earlier one that is identical


@dataclass(frozen=True)
class Repeats:
    """Images that are identical to an earlier one. Pairs are in the order of the images."""

    tested_on_trained: tuple[Pair, ...]  # (test image, train image)
    two_labels: tuple[Pair, ...]  # (an image with a twin of another class, that twin)
    within: Mapping[SplitName, tuple[Pair, ...]]  # pairs within one split


def find_repeats(
    arrays: Mapping[SplitName, Path], labels: Mapping[SplitName, Labels], places: Mapping[SplitName, list[Place]]
) -> Repeats:
    """Compare all images of these arrays. `places` names the rows to compare, each split's first rows."""
    groups: dict[bytes, list[tuple[Place, int]]] = {}
    for split in SPLITS:
        images = np.load(arrays[split], mmap_mode="r")
        for row, place in enumerate(places[split]):
            digest = hashlib.blake2b(np.ascontiguousarray(images[row]).data, digest_size=DIGEST_BYTES).digest()
            groups.setdefault(digest, []).append((place, int(labels[split][row])))
    leaked, two_labels = list[Pair](), list[Pair]()
    within: dict[SplitName, list[Pair]] = {split: [] for split in SPLITS}
    for group in groups.values():
        seen: dict[int, Place] = {}  # first place of each label, in the order of the group
        for place, label in group:
            seen.setdefault(label, place)
        firsts = {split: next((place for place, _ in group if place[0] == split), None) for split in SPLITS}
        for place, label in group:
            split, trained = place[0], firsts["train"]
            if (first := firsts[split]) is not None and first != place:
                within[split].append((place, first))
            if split == "test" and trained is not None:
                leaked.append((place, trained))
            if len(seen) > 1:
                two_labels.append((place, next(each for named, each in seen.items() if named != label)))
    sides = {split: tuple(sorted(pairs)) for split, pairs in within.items()}
    return Repeats(tuple(sorted(leaked)), tuple(sorted(two_labels, key=_train_first)), sides)


def _train_first(pair: Pair) -> tuple[int, int]:
    split, number = pair[0]
    return SPLITS.index(split), number
