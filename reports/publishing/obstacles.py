"""Why stored results should not be published: what a reader of a finished report would not expect of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

from workloads.trial import FINDINGS, Status, TrialResult

from .. import stable, unverified
from ..checking import recheck
from ..conditions import Section, sections
from ..frameworks import display_name, ordered
from ..load import Stored
from . import archive

SHOWN = 3  # examples of each kind
OTHER_SCHEMA = "schema version"


def obstacles(stored: Stored, folder: Path) -> list[str]:
    """A sentence without its full stop for each kind; none where the results are complete and whole.

    `folder` is the copy that is to be published, `stored` what was read of it.
    """
    found = []
    for other, kind in ((True, "of another schema version"), (False, "unreadable")):
        paths = [f"{i.path}: {i.reason}" for i in stored.unreadable if i.reason.startswith(OTHER_SCHEMA) is other]
        found += _told(f"{kind}", paths, "result")
    found += _told("unfinished", map(str, stored.unfinished))
    for status in Status:
        if status not in FINDINGS:
            ended = [f"{r.spec.id}: {r.reason}" for r in stored.results if r.status is status]
            found += _told(str(status).replace("_", " "), ended)
    own, _ = sections(stored.results)
    with_stable = (folder / stable.FILE).exists()
    found += _told("planned and not there", [place for one in own for place in _missing(one, with_stable)])
    found += [f"not run of {what}" for what in unverified.not_run(stored.results)]
    found += _told("of a commit that is unknown", [r.spec.id for r in stored.results if not r.machine.get("commit")])
    dirty = [f"{r.spec.id}: {r.machine['commit']}" for r in stored.results if _dirty(r)]
    found += _told("of a commit with uncommitted changes", dirty)
    _, wrong = recheck.results_folder(folder)
    unread = {str(item.path) for item in stored.unreadable}
    found += _told("by python -m reports check", [w for w in wrong if w.split(": ")[0] not in unread], "finding")
    found += _told("naming a home directory", archive.naming_homes(folder), "file")
    return found


def _told(what: str, examples: Iterable[str], noun: str = "trial") -> list[str]:
    """["2 trials failed (a: reason; b: reason)"], or nothing where there is none."""
    listed = list(examples)
    more = f"; and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    told = "; ".join(" ".join(example.split()) for example in listed[:SHOWN])
    return [f"{len(listed)} {noun}{'s' if len(listed) > 1 else ''} {what} ({told}{more})"] if listed else []


def _dirty(result: TrialResult) -> bool:
    return str(result.machine.get("commit") or "").endswith("-dirty")


def _missing(section: Section, with_stable: bool) -> list[str]:
    """Cells of frameworks x batch sizes x repeats without a trial.

    `with_stable`: repeats ended when a cell was stable, so each cell has its own number of them, without a gap.
    """
    there = {(r.spec.framework, r.spec.batch_size, r.spec.repeat) for r in section.results}
    sizes, repeats = ({place[axis] for place in there} for axis in (1, 2))
    lines = []
    for framework, size in itertools.product(ordered(place[0] for place in there), sorted(sizes)):
        own = {repeat for name, batch_size, repeat in there if (name, batch_size) == (framework, size)}
        planned = set(range(max(own, default=0) + 1)) if with_stable else repeats
        lines += [f"{display_name(framework)}, batch size {size}, repeat {repeat}" for repeat in sorted(planned - own)]
    return lines
