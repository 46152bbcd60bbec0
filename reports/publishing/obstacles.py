"""Why stored results should not be published: what a reader of a finished report would not expect of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from workloads.records.result import TrialResult

from ..checking import recheck
from ..checking.completeness import gaps
from ..load import Stored
from . import archive

SHOWN = 3  # examples of each kind


def obstacles(stored: Stored, folder: Path) -> list[str]:
    """A sentence without its full stop for each kind; none where the results are complete and whole.

    `folder` is the copy that is to be published, `stored` what was read of it.
    """
    lacking = [gap for gap in gaps(stored, folder) if gap.counts]
    sentences = []
    for (kind, noun), group in itertools.groupby(lacking, key=lambda gap: (gap.kind, gap.noun)):
        examples = [gap.example for gap in group]
        sentences += _counted(kind, examples, noun) if noun else [f"{kind} of {example}" for example in examples]
    sentences += _counted(
        "of a commit that is unknown", [r.spec.id for r in stored.results if not r.machine.get("commit")]
    )
    dirty = [f"{r.spec.id}: {r.machine['commit']}" for r in stored.results if _dirty(r)]
    sentences += _counted("of a commit with uncommitted changes", dirty)
    sentences += _counted("by python -m reports check", recheck.trials(stored, folder), "finding")
    sentences += _counted("naming a home directory or what looks like a secret", archive.naming_homes(folder), "file")
    return sentences


def _counted(kind: str, examples: Sequence[str], noun: str = "trial") -> list[str]:
    """["2 trials failed (a: reason; b: reason)"], or nothing where there is none."""
    count = len(examples)
    more = f"; and {count - SHOWN} more" if count > SHOWN else ""
    text = "; ".join(" ".join(example.split()) for example in examples[:SHOWN])
    return [f"{count} {noun}{'s' if count > 1 else ''} {kind} ({text}{more})"] if count else []


def _dirty(result: TrialResult) -> bool:
    return str(result.machine.get("commit") or "").endswith("-dirty")
