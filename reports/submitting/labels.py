"""Label each trial with who vouches for it; stored next to a submission, and shown on the site page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from workloads.datasets import file_digest
from workloads.records import validation
from workloads.records.record import Word

from ..load import ReportError
from ..publishing.archive import ARCHIVE

ENDING = ".tar.xz"


class Label(Word):
    """Evidence for a trial, weakest first.

    Each of them means that figures, gate and files agree with one another and are possible. `recomputed` and `re-run`
    trials were trained again by somebody else than their submitter.
    """

    CLAIMED = "claimed"  # nothing of it was run again
    RECOMPUTED = "recomputed"  # losses, accuracy and memory were computed again and agree; speed cannot be compared
    RERUN = "re-run"  # the same on the same processor, where the speed agrees, too


class LabelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels of the trials in one archive, by their ids; `sha256` is the archive's."""

    sha256: str
    labels: dict[str, Label]


def find_file(archive: Path) -> Path:
    """Return the path of the archive's labels, next to it."""
    return archive.with_name(archive.name.removesuffix(ENDING) + ".labels.json")


def write_labels(archive: Path, labels: Mapping[str, Label]) -> Path:
    """Write the labels next to the archive; return their path. Raises OSError."""
    path = find_file(archive)
    content = {"sha256": file_digest(archive, "sha256"), "labels": {name: str(labels[name]) for name in sorted(labels)}}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def read_labels(archive: Path) -> dict[str, Label]:
    """Return {trial id: label}; empty where nobody stored any. Raises ReportError for labels of another archive."""
    path = find_file(archive)
    if archive.name == ARCHIVE or not path.exists():
        return {}
    try:
        stored = validation.read(path, LabelFile)
    except ValueError as error:
        raise ReportError(f"{path}: {error}; verify the submission again") from error
    if stored is None or stored.sha256 != file_digest(archive, "sha256"):
        raise ReportError(f"{path}: labels of another archive than {archive.name}; verify the submission again")
    return stored.labels


def keep_stronger(archive: Path, labels: Mapping[str, Label]) -> dict[str, Label]:
    """Return the labels, or those that are stored next to this archive where they are stronger. Raises ReportError."""
    earlier = read_labels(archive)
    return {name: max(label, earlier.get(name, label), key=list(Label).index) for name, label in labels.items()}


def find_weakest(trials: Iterable[str], labels: Mapping[str, Label]) -> Label:
    """Return the weakest label of a cell's trials; a trial without one is claimed."""
    order = list(Label)
    return min((labels.get(trial, Label.CLAIMED) for trial in trials), key=order.index, default=Label.CLAIMED)
