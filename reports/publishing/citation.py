"""How to cite a published report: CITATION.cff (Citation File Format 1.2.0) and BibTeX."""

from __future__ import annotations

from typing import Any

from ..latex.text import escape
from .publication import AUTHOR, Publication

MESSAGE = "If you use these figures, please cite them as below."


def cff(publication: Publication, archive: str, archive_sha256: str) -> str:
    """YAML. The archive's checksum is an identifier: there is no DOI, and a figure is of exactly these trials."""
    import yaml

    fields: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": " ".join([*publication.marks, MESSAGE]),
        "type": "dataset",
        "title": f"Batchwise: {publication.title}",
        "abstract": _abstract(publication),
        "authors": [{"name": AUTHOR}],
        "date-released": publication.published_day or publication.last_day,
        "version": publication.name,
        "keywords": ["benchmark", "deep learning", "batch size", *publication.frameworks],
        "identifiers": [
            {"type": "other", "value": f"sha256:{archive_sha256}", "description": f"of {archive}, the raw trials"}
        ],
    }
    return str(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=110))


def bibtex(publication: Publication) -> str:
    """One @misc entry."""
    year, month, _ = (publication.published_day or publication.last_day).split("-")
    values = {
        "author": f"{{{AUTHOR}}}",
        "title": f"{{{escape('Batchwise: ' + publication.title)}}}",
        "year": year,
        "month": str(int(month)),
        "version": escape(publication.name),
        "note": escape(_abstract(publication)),
    }
    lines = ",\n".join(f"  {key} = {{{value}}}" for key, value in values.items())
    return f"@misc{{batchwise-{publication.name},\n{lines}\n}}\n"


def _abstract(publication: Publication) -> str:
    days = dict.fromkeys((publication.first_day, publication.last_day))
    sentences = (
        f"{', '.join(publication.frameworks)} train {', '.join(publication.tasks)}; study "
        f"{', '.join(publication.studies)}; on {' and '.join(publication.machines)}; {publication.count}; started "
        f"{' to '.join(days)} (UTC); commit {', '.join(publication.commits)}."
    )
    return " ".join([*publication.marks, sentences, *publication.findings])
