"""Find which series of one of our studies a trial belongs to, from what it trained."""

from __future__ import annotations

from functools import cache

from workloads.conditions import values_of
from workloads.records.job import TrialSpec
from workloads.study import OF_SERIES, Study, studies
from workloads.study_file import read

from .conditions import Section

NOT_COMPARED = ("feed", "last_batch", "threads")  # settings by which a trial is still of its series


def parts(study: str) -> dict[str, Study]:
    """Return {series: its study} for one of our studies, {} for any other; {"": the study} if it has no series."""
    path = studies().get(study)
    return _parts(study) if path else {}


@cache
def _parts(study: str) -> dict[str, Study]:
    return read(studies()[study]).parts


def is_of(spec: TrialSpec, part: Study) -> bool:
    """True if a trial trains what the study does; an option may have asked for something else."""
    trained, asked = values_of(spec), vars(part) | {"optimizer": part.optimizer_spec}
    return all(trained[name] == asked[name] for name in OF_SERIES if name in trained and name not in NOT_COMPARED)


def name_of(section: Section) -> str:
    """Name of the series of a section's trials; "" if they belong to none, or to more than one."""
    spec = section.every[0].spec
    found = {name: part for name, part in parts(spec.study).items() if is_of(spec, part)}
    placed = {name: part for name, part in found.items() if part.threads == spec.placement.threads}
    names = list(placed or {name: part for name, part in found.items() if part.threads is None})
    return names[0] if len(names) == 1 else ""
