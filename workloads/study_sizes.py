"""Select some of the batch sizes of a study's series."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from .study import Study, StudyError


def of_sizes(study: Study, sizes: Collection[int]) -> Study:
    """Return the study with only these batch sizes, and the series that have one of them; all if none is named.

    Raises StudyError for a size that no series has.
    """
    if not sizes:
        return study
    kept = {name: tuple(size for size in part.batch_sizes if size in sizes) for name, part in study.parts.items()}
    known = sorted({size for part in study.parts.values() for size in part.batch_sizes})
    if unknown := [size for size in sizes if size not in known]:
        offer = ", ".join(map(str, known))
        raise StudyError(
            f"--batch-size {unknown[0]}: the series of study {study.name} have {offer}: name some of those"
        )
    series = (
        replace(each, changes=tuple((dict(each.changes) | {"batch_sizes": kept[each.name]}).items()))
        for each in study.series
    )
    return study.changed(series=tuple(each for each in series if kept[each.name]))
