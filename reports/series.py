"""Which series of a study of ours a trial belongs to: what it trained tells."""

from __future__ import annotations

from functools import cache

from workloads.records.job import TrialSpec
from workloads.study import Study, read, studies

from .conditions import Section


def parts(study: str) -> dict[str, Study]:
    """{series: the study that it is} of a study of ours, {} of any other; {"": the study} of one without series."""
    path = studies().get(study)
    return _parts(study) if path else {}


@cache
def _parts(study: str) -> dict[str, Study]:
    return read(studies()[study]).parts


def is_of(spec: TrialSpec, part: Study) -> bool:
    """Whether it trains what the study does: an option may have asked for something else."""
    task, asked = spec.task, part.task
    settings = ((each.workload, each.dataset, each.optimizer, each.augment, each.accumulate) for each in (task, asked))
    alike = spec.passes.epochs == part.epochs and spec.placement.devices == part.devices
    return len(set(settings)) == 1 and alike


def name_of(section: Section) -> str:
    """The series of its trials; "" where they are of none, or of more than one."""
    spec = section.every[0].spec
    found = {name: part for name, part in parts(spec.study).items() if is_of(spec, part)}
    placed = {name: part for name, part in found.items() if part.threads == spec.placement.threads}
    names = list(placed or {name: part for name, part in found.items() if part.threads is None})
    return names[0] if len(names) == 1 else ""
