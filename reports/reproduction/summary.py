"""Summarise the publications for a report: how close our values are, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from ..conditions import Section
from ..sentences import say
from .publication import Publication, beside
from .reproduced import Reproduced


def headline(section: Section) -> tuple[str, str] | None:
    """Return (how close our values are, the quantity's name), for the publication that the study is named after, or
    None.
    """
    studies = {result.spec.study for result in section.results}
    for publication in beside(section):
        for metric in publication.metrics if publication.name in studies else ():
            ours = Reproduced(section, publication, metric)
            if metric.finding and not ours.obstacles and (distances := ours.distances()):
                nearest_first = sorted(((name, away) for name, (away, _) in distances.items()), key=itemgetter(1))
                row = metric.finding[:1].lower() + metric.finding[1:]
                text = say("published.nearness", distances=nearest_first, unit=metric.unit, row=row)
                return text, metric.quantity.name
    return None


def finding(sections: Sequence[Section]) -> str:
    """Describe the first published row that a section can be compared with, and ours; "" if there is none."""
    for number, section in enumerate(sections, start=1):
        for publication in beside(section):
            for metric in publication.metrics:
                ours = Reproduced(section, publication, metric)
                if metric.finding and section.results and not ours.obstacles and ours.distances():
                    return _finding(ours, number if len(sections) > 1 else None)
    return ""


def _finding(ours: Reproduced, number: int | None) -> str:
    metric = ours.metric
    return say(
        "published.finding",
        row=metric.finding,
        from_size=metric.from_size,
        section=number,
        once=max(point.n for point in ours.points.values()) == 1,
        distances=[(name, away, sizes) for name, (away, sizes) in ours.distances().items()],
        unit=metric.unit,
    )


def caveats(sections: Sequence[Section]) -> list[str]:
    """List published figures that no section can be compared with, and why; for the others, what a
    comparison assumes.
    """
    held: dict[Publication, list[Section]] = {}
    for section in sections:
        for publication in beside(section) if section.results else ():
            held.setdefault(publication, []).append(section)
    return [sentence for publication, those in held.items() for sentence in _caveats(those, publication)]


def _caveats(sections: Sequence[Section], publication: Publication) -> list[str]:
    labels: dict[tuple[str, ...], list[str]] = {}
    figures = [metric for metric in publication.metrics if metric.series]
    for metric in figures:
        fitting = [section for section in sections if not metric.other_conditions(section.condition)]
        obstacles = [Reproduced(section, publication, metric).obstacles for section in fitting or sections]
        if all(obstacles):
            reasons = tuple(dict.fromkeys(reason for of_section in obstacles for reason in of_section))
            labels.setdefault(reasons, []).append(metric.label.replace("Test", "test"))
    sentences = [
        say("published.not_compared", labels=list(dict.fromkeys(those)), reasons=reasons)
        for reasons, those in labels.items()
    ]
    compared = sum(map(len, labels.values())) < len(figures)
    return [*sentences, publication.caveat] if compared else sentences
