"""What stored results lack: trials that did not end well, results and cells that are not there.

One home for the command `check`, which lists it, and for `publish`, which refuses what has any of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from workloads.records.result import TrialResult
from workloads.records.status import FINDINGS, Status

from .. import caveats, stable
from ..conditions import Section, sections
from ..frameworks import display_name, ordered
from ..load import Stored


class Kind(StrEnum):
    """Each value completes "3 trials ..." or "3 results ..."; of ENDED the status does."""

    OTHER_SCHEMA = "of another schema version"
    UNREADABLE = "unreadable"
    UNFINISHED = "unfinished"
    ENDED = "ended"
    MISSING = "planned and not there"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Gap:
    """`place` is a trial's id, a path, or a cell in words; `reason` is empty where there is none beside the kind.

    `status` and `folder` are those of a trial that ended (`Kind.ENDED`).
    """

    kind: Kind
    place: str
    reason: str = ""
    status: Status | None = None
    folder: Path | None = None

    @property
    def counts(self) -> bool:
        """Whether it is a fault of the results, and not a finding that they report."""
        return self.status not in FINDINGS

    def line(self, folder: Path) -> str:
        """ "results/trials/mxnet-...: failed: exit code 1"; a cell is one of the results `folder`."""
        reason = " ".join(self.reason.split())
        ended = words(self.status) if self.status is not None else ""
        match self.kind:
            case Kind.ENDED:
                return f"{self.folder}: {ended}: {reason}"
            case Kind.OTHER_SCHEMA | Kind.UNREADABLE:
                return f"{self.place}: cannot be read: {reason}"
            case Kind.UNFINISHED:
                return f"{self.place}: {self.kind}: no result is there"
            case Kind.MISSING:
                return f"{folder}: missing: {self.place}"
            case Kind.NOT_RUN:
                return f"{folder}: {self.kind} of {self.place}"


def gaps(stored: Stored, folder: Path) -> list[Gap]:
    """In the order of `Kind`; trials by status. `folder` is the results folder that `stored` was read of."""
    found = [
        Gap(Kind.OTHER_SCHEMA if item.other_schema else Kind.UNREADABLE, str(item.path), item.reason)
        for item in stored.unreadable
    ]
    found.sort(key=lambda gap: list(Kind).index(gap.kind))
    found += [Gap(Kind.UNFINISHED, str(path)) for path in stored.unfinished]
    for status in Status:
        found += [
            Gap(Kind.ENDED, result.spec.id, result.reason or "no reason was stored", status, trial_dir)
            for result, trial_dir in zip(stored.results, stored.folders, strict=True)
            if result.status is status and status is not Status.OK
        ]
    with_stable = (folder / stable.FILE).exists()
    for section in sections(stored.results)[0]:
        found += [Gap(Kind.MISSING, place) for place in _missing(section, with_stable)]
    return found + [Gap(Kind.NOT_RUN, lacking) for lacking in caveats.not_run(stored.results)]


def words(status: Status) -> str:
    """The status as it reads in a sentence."""
    return str(status).replace("_", " ")


def _missing(section: Section, with_stable: bool) -> Iterator[str]:
    """Cells of frameworks x batch sizes x repeats without a trial.

    `with_stable`: repeats ended when a cell was stable, so each cell has its own number of them, without a gap.
    """
    trials: tuple[TrialResult, ...] = section.results
    there = {(r.spec.cell.framework, r.spec.cell.batch_size, r.spec.draw.repeat) for r in trials}
    sizes, repeats = ({place[axis] for place in there} for axis in (1, 2))
    for framework, size in itertools.product(ordered(place[0] for place in there), sorted(sizes)):
        own = {repeat for name, batch_size, repeat in there if (name, batch_size) == (framework, size)}
        planned = set(range(max(own, default=0) + 1)) if with_stable else repeats
        for repeat in sorted(planned - own):
            yield f"{display_name(framework)}, batch size {size}, repeat {repeat}"
