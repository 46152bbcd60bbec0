"""Why stored results should not be published: what a reader of a finished report would not expect of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from workloads.records.result import TrialResult
from workloads.records.status import Status

from ..checking import recheck
from ..checking.completeness import Gap, Kind, gaps, words
from ..load import Stored
from . import archive

SHOWN = 3  # examples of each kind


def obstacles(stored: Stored, folder: Path) -> list[str]:
    """A sentence without its full stop for each kind; none where the results are complete and whole.

    `folder` is the copy that is to be published, `stored` what was read of it.
    """
    lacking = [gap for gap in gaps(stored, folder) if gap.counts]
    of_kind = {kind: [gap for gap in lacking if gap.kind is kind] for kind in Kind}
    found = []
    for kind in (Kind.OTHER_SCHEMA, Kind.UNREADABLE):
        found += _told(kind, map(_example, of_kind[kind]), "result")
    found += _told(Kind.UNFINISHED, map(_example, of_kind[Kind.UNFINISHED]))
    for status in Status:
        found += _told(words(status), (_example(gap) for gap in of_kind[Kind.ENDED] if gap.status is status))
    found += _told(Kind.MISSING, map(_example, of_kind[Kind.MISSING]))
    found += [f"not run of {gap.place}" for gap in of_kind[Kind.NOT_RUN]]
    found += _told("of a commit that is unknown", [r.spec.id for r in stored.results if not r.machine.get("commit")])
    dirty = [f"{r.spec.id}: {r.machine['commit']}" for r in stored.results if _dirty(r)]
    found += _told("of a commit with uncommitted changes", dirty)
    found += _told("by python -m reports check", recheck.trials(stored, folder), "finding")
    found += _told("naming a home directory", archive.naming_homes(folder), "file")
    return found


def _example(gap: Gap) -> str:
    return f"{gap.place}: {gap.reason}" if gap.reason else gap.place


def _told(what: str, examples: Iterable[str], noun: str = "trial") -> list[str]:
    """["2 trials failed (a: reason; b: reason)"], or nothing where there is none."""
    listed = list(examples)
    more = f"; and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    text = "; ".join(" ".join(example.split()) for example in listed[:SHOWN])
    return [f"{len(listed)} {noun}{'s' if len(listed) > 1 else ''} {what} ({text}{more})"] if listed else []


def _dirty(result: TrialResult) -> bool:
    return str(result.machine.get("commit") or "").endswith("-dirty")
