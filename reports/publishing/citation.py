"""Write the citation of a published report: CITATION.cff (Citation File Format 1.2.0) and BibTeX."""

from __future__ import annotations

import re
from typing import Any

from ..latex import escape
from .publication import AUTHOR, Publication

MESSAGE = "If you use these figures, please cite them as below."


def cff(publication: Publication, archive: str, archive_sha256: str) -> str:
    """Format CITATION.cff as YAML. The archive's checksum is an identifier: it says exactly which trials are cited."""
    import yaml

    fields: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": " ".join([*publication.marks, MESSAGE]),
        "type": "dataset",
        "title": publication.cited_title,
        "abstract": _abstract(publication),
        "authors": [_author(name) for name in publication.authors or (AUTHOR,)],
        "date-released": publication.published_day or publication.last_day,
        "version": publication.name,
        **{name: value for name, value in (("doi", publication.doi), ("url", publication.url)) if value},
        "keywords": ["benchmark", "deep learning", "batch size", *publication.frameworks],
        "identifiers": [
            {"type": "other", "value": f"sha256:{archive_sha256}", "description": f"of {archive}, the raw trials"}
        ],
    }
    return str(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=110))


def bibtex(publication: Publication) -> str:
    """Format one @misc entry."""
    year, month, _ = (publication.published_day or publication.last_day).split("-")
    authors = (escape(name) if _parts(name) else f"{{{escape(name)}}}" for name in publication.authors or (AUTHOR,))
    values = {
        "author": " and ".join(authors),
        "title": f"{{{escape(publication.cited_title)}}}",
        "year": year,
        "month": str(int(month)),
        "version": escape(publication.name),
        "doi": publication.doi,
        "url": publication.url,
        "note": escape(_note(publication)),
    }
    lines = ",\n".join(f"  {key} = {{{value}}}" for key, value in values.items() if value)
    return f"@misc{{batchwise-{publication.name},\n{lines}\n}}\n"


def _author(name: str) -> dict[str, str]:
    """Format an author: a person if the name has a comma, "Family, Given"; otherwise an entity."""
    parts = _parts(name)
    return {"family-names": parts[0], "given-names": parts[1]} if parts else {"name": name}


def _parts(name: str) -> tuple[str, str] | None:
    """Split a person's name into family and given name; None for an entity.

    Names with "and" count as entities, because BibTeX splits there.
    """
    if re.search(r"\sand\s", name, re.IGNORECASE):
        return None
    family, comma, given = (part.strip() for part in name.partition(","))
    return (family, given) if comma and family and given else None


def _note(publication: Publication) -> str:
    """Say what was measured, on which machine and when; a mark's reasons are in the other files."""
    faults = "published with known faults; " if publication.marks else ""
    days = " to ".join(dict.fromkeys((publication.first_day, publication.last_day)))
    return f"{faults}{', '.join(publication.tasks)} on {' and '.join(publication.machines)}, measured {days}"


def _abstract(publication: Publication) -> str:
    days = dict.fromkeys((publication.first_day, publication.last_day))
    sentences = (
        f"{', '.join(publication.frameworks)} train {', '.join(publication.tasks)}; study "
        f"{', '.join(publication.studies)}; on {' and '.join(publication.machines)}; {publication.count}; started "
        f"{' to '.join(days)} (UTC); commit {', '.join(publication.commits)}."
    )
    return " ".join([*publication.marks, sentences, *publication.findings])
