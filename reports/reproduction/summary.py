"""What the summary of a report says of the publications: how near ours come, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence

from ..conditions import Section
from ..frameworks import display_name
from ..words import counted, listed
from . import calibration
from .publication import Publication, publications
from .reproduced import Reproduced


def finding(sections: Sequence[Section]) -> str:
    """The first published row with a section that may be compared with it, and ours; "" where there is none."""
    for publication in publications():
        for metric in publication.metrics if sections else ():
            for number, section in enumerate(sections, start=1):
                ours = Reproduced(section, publication, metric)
                if metric.finding and section.results and not ours.obstacles and ours.distances():
                    return _finding(ours, f", section {number}" if len(sections) > 1 else "")
    return ""


def _finding(ours: Reproduced, where: str) -> str:
    metric, fit = ours.metric, calibration.of_setting(ours.section, ours.publication)
    distances = [
        f"{display_name(name)} {distance:.1f} {metric.unit} over {counted(sizes, 'batch size')}"
        for name, (distance, sizes) in ours.distances().items()
    ]
    first = f", from batch size {metric.from_size} on" if metric.from_size else ""
    once = " in one repeat" if max(point.n for point in ours.points.values()) == 1 else ""
    row = f"{metric.finding}{first}{where}: root-mean-square difference{once} {listed(distances)}."
    return f"{row} {fit.finding}" if fit else row


def caveats(sections: Sequence[Section]) -> list[str]:
    """Which published figures no section can be compared with, and why; what a comparison with the others rests on."""
    sections = [section for section in sections if section.results]
    trained = {section.condition.task.workload for section in sections}
    sentences: list[str] = []
    for publication in publications():
        sentences += _caveats(sections, publication) if publication.workload in trained else []
    return sentences


def _caveats(sections: Sequence[Section], publication: Publication) -> list[str]:
    labels: dict[tuple[str, ...], list[str]] = {}
    for metric in publication.metrics:
        obstacles = [Reproduced(section, publication, metric).obstacles for section in sections]
        if all(obstacles):
            reasons = tuple(dict.fromkeys(reason for of_section in obstacles for reason in of_section))
            labels.setdefault(reasons, []).append(metric.label.replace("Test", "test"))
    sentences = [
        f"Not compared with the published figures of {listed(those)}: {'; '.join(reasons)}."
        for reasons, those in labels.items()
    ]
    compared = sum(map(len, labels.values())) < len(publication.metrics)
    return [*sentences, publication.caveat] if compared else sentences
