"""Find reasons why stored results should not be published: what a reader of a finished report would not expect."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.records.result import TrialResult

from ..checking import recheck
from ..checking.completeness import gaps
from ..load import Stored
from . import archive

SHOWN = 3  # examples of each kind


@dataclass(frozen=True)
class Obstacle:
    """A reason against publishing: a sentence without its full stop, and the check's line for each example."""

    sentence: str
    lines: tuple[str, ...]


def obstacles(stored: Stored, folder: Path) -> list[str]:
    """List a sentence without its full stop for each kind of obstacle; none if the results are complete and intact.

    `folder` is the copy to be published, `stored` what was read from it.
    """
    homes = _counted("naming a home directory or what looks like a secret", archive.naming_homes(folder), noun="file")
    return [each.sentence for each in (*find_obstacles(stored, folder), *homes)]


def find_obstacles(stored: Stored, folder: Path) -> list[Obstacle]:
    """List the obstacles that do not depend on the machine that looks for them."""
    lacking = [gap for gap in gaps(stored, folder) if gap.counts]
    found = []
    for (kind, noun), group in itertools.groupby(lacking, key=lambda gap: (gap.kind, gap.noun)):
        of_kind = list(group)
        if noun:
            found += _counted(kind, [gap.example for gap in of_kind], [gap.line for gap in of_kind], noun)
        else:
            found += [Obstacle(f"{kind} of {gap.example}", (gap.line,)) for gap in of_kind]
    unknown = [r.spec.id for r in stored.results if not r.machine.get("commit")]
    found += _counted("of a commit that is unknown", unknown, [f"{one}: its commit is unknown" for one in unknown])
    dirty = [f"{r.spec.id}: {r.machine['commit']}" for r in stored.results if _dirty(r)]
    found += _counted("of a commit with uncommitted changes", dirty, [f"{one}: uncommitted changes" for one in dirty])
    return found + _counted("by python -m reports check", recheck.trials(stored, folder), noun="finding")


def _counted(
    kind: str, examples: Sequence[str], lines: Sequence[str] | None = None, noun: str = "trial"
) -> list[Obstacle]:
    """Build ["2 trials failed (a: reason; b: reason)"], or an empty list without examples."""
    count = len(examples)
    more = f"; and {count - SHOWN} more" if count > SHOWN else ""
    text = "; ".join(" ".join(example.split()) for example in examples[:SHOWN])
    sentence = f"{count} {noun}{'s' if count > 1 else ''} {kind} ({text}{more})"
    return [Obstacle(sentence, tuple(examples if lines is None else lines))] if count else []


def _dirty(result: TrialResult) -> bool:
    return str(result.machine.get("commit") or "").endswith("-dirty")
