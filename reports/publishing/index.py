"""Write index.html of the folder of published reports, from the publications in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import export
from ..frameworks import FrameworkNames, name_frameworks, order_frameworks
from ..load import ReportError
from . import publication
from .publication import ClaimOutcome, Publication

TEMPLATES = Path(__file__).parent
INDEX = "index.html"
PICTURES = ("speed.png", "usage.png")  # for a publication that names none


def refuse_other(into: Path) -> None:
    """Raise ReportError if the folder has a page of the index's name and no publication, whose index it could be."""
    path = into / INDEX
    if path.exists() and not any(list_publications(into)):
        raise ReportError(f"{path}: no publication lies next to it, and it would be lost; remove it, or use --into")


def write(into: Path) -> list[str]:
    """Write the index; returns a line for each publication that cannot be read. Raises OSError."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    publications, unreadable = list_publications(into)
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    each = [entry[0] for entry in publications]
    html = environment.get_template("published.html.j2").render(
        publications=publications,
        unreadable=unreadable,
        claims=group_claims(publications),
        frameworks=order_frameworks(claim.framework for facts in each for claim in facts.claims),
        named=_name_frameworks(each),
        articles={name: source for facts in each for name, source in facts.articles.items()},
        filters={
            "machine": _distinct(machine for facts in each for machine in facts.machines),
            "framework": _distinct(framework for facts in each for framework in facts.frameworks),
            "study": _distinct(study for facts in each for study in facts.studies),
        },
    )
    part = into / f".{INDEX}.part"
    export.write_text(part, html + "\n")
    part.replace(into / INDEX)
    return unreadable


@dataclass
class Claimed:
    """Results of one claim in one report.

    `published` is {series: {outcome: frameworks}}, from the published figures. `measured` is {framework: outcomes},
    from ours. Several outcomes come from several sections.
    """

    article: str
    text: str
    facts: Publication
    link: str
    named: FrameworkNames
    published: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    measured: dict[str, set[str]] = field(default_factory=dict)

    @property
    def published_lines(self) -> list[str]:
        """Lines, one per series, which name frameworks where they differ."""
        return [
            f"{series}: "
            + ", ".join(
                outcome + (f" ({', '.join(map(self.named, order_frameworks(names)))})" if len(outcomes) > 1 else "")
                for outcome, names in sorted(outcomes.items())
            )
            for series, outcomes in self.published.items()
        ]


Entry = tuple[Publication, str, str, str]  # a publication, its folder's name, the file to open, the picture to show


def group_claims(publications: Sequence[Entry]) -> list[Claimed]:
    """Group the claims by article and claim, the newest report of each first."""
    rows: dict[tuple[str, str, str], Claimed] = {}
    named = _name_frameworks([facts for facts, *_ in publications])
    for facts, folder, file, _ in publications:
        for claim in facts.claims:
            text = _text(claim, named)
            row = rows.setdefault(
                (claim.article, text, folder), Claimed(claim.article, text, facts, f"{folder}/{file}", named)
            )
            row.measured.setdefault(claim.framework, set()).add(claim.measured)
            for series, outcome in claim.published.items():
                if outcome:
                    row.published.setdefault(series, {}).setdefault(outcome, set()).add(claim.framework)
    places = {key[:2]: place for place, key in reversed(list(enumerate(rows)))}
    return [rows[key] for key in sorted(rows, key=lambda key: (key[0], places[key[:2]]))]


def _name_frameworks(publications: Sequence[Publication]) -> FrameworkNames:
    """Name the frameworks by the labels of these publications, the newest first, whose label counts."""
    return name_frameworks(label for facts in reversed(publications) for label in facts.labels.items())


def _text(claim: ClaimOutcome, named: FrameworkNames) -> str:
    """Text of the claim: for all frameworks if each has a column, otherwise for the framework that it names."""
    whose, _, rest = claim.text.partition(": ")
    if whose.startswith("{framework}"):
        text = f"{whose.removeprefix('{framework}').lstrip(', ')}: {rest}".removeprefix(": ")
        return text[:1].upper() + text[1:]
    return claim.text.format(framework=named(claim.framework))


def _distinct(values: Iterable[str]) -> list[str]:
    return sorted(set(values))


def list_publications(into: Path) -> tuple[list[Entry], list[str]]:
    """Return (entries, a line for each that cannot be read); newest first; the picture is "" if there is none."""
    publications, unreadable = [], []
    for path in sorted(into.glob(f"*/{publication.FILE}")):
        folder = path.parent
        if folder.name.startswith("."):
            continue
        try:
            facts = publication.read(path)
        except ValueError as error:
            unreadable.append(f"{folder.name}: {publication.FILE}: {error}")
            continue
        file = next((page.name for page in sorted(folder.glob("*.html"))), publication.FILE)
        picture = next((name for name in (facts.picture, *PICTURES) if name and (folder / name).is_file()), "")
        publications.append((facts, folder.name, file, picture))
    return sorted(publications, key=lambda entry: (entry[0].first_day, entry[1]), reverse=True), unreadable
