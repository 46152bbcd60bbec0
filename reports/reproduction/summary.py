"""What the summary of a report says of the publications: how near ours come, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence

from ..conditions import Section
from ..frameworks import display_name
from ..words import counted, listed
from . import calibration
from .publication import Publication, beside
from .reproduced import Reproduced


def headline(section: Section) -> tuple[str, str] | None:
    """(how near ours come, the quantity's name), of the publication that the study is named after; None without one."""
    studies = {result.spec.study for result in section.results}
    for publication in beside(section):
        for metric in publication.metrics if publication.name in studies else ():
            ours = Reproduced(section, publication, metric)
            if metric.finding and not ours.obstacles and (distances := ours.distances()):
                (name, (nearest, _)), *others = sorted(distances.items(), key=lambda item: item[1])
                row = f"{metric.unit} of {metric.finding[:1].lower()}{metric.finding[1:]}, by root mean square"
                first = f"{display_name(name)} comes within {nearest:.1f} {row}"
                rest = (f"{display_name(name)} within {distance:.1f}" for name, (distance, _) in others)
                return ", ".join([first, *rest]), metric.quantity.name
    return None


def finding(sections: Sequence[Section]) -> str:
    """The first published row with a section that may be compared with it, and ours; "" where there is none."""
    for number, section in enumerate(sections, start=1):
        for publication in beside(section):
            for metric in publication.metrics:
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
    held: dict[Publication, list[Section]] = {}
    for section in sections:
        for publication in beside(section) if section.results else ():
            held.setdefault(publication, []).append(section)
    return [sentence for publication, those in held.items() for sentence in _caveats(those, publication)]


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
