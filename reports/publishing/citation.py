"""Define who is credited for a publication, and write its citation: CITATION.cff (version 1.2.0) and BibTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..latex import escape
from ..load import ReportError
from .publication import AUTHOR, Publication

DOI = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:)?(10\.\d{4,9}/[^\s{}]+)", re.IGNORECASE)
URL = re.compile(r"https?://[^\s{}]+")
MESSAGE = "If you use these figures, please cite them as below."


@dataclass(frozen=True)
class Credit:
    """Credit given to the command; () and None where it was not given."""

    authors: Sequence[str] = ()
    title: str | None = None
    doi: str | None = None
    url: str | None = None

    def checked(self, earlier: Publication | None) -> Credit:
        """Fill in what is not given from the earlier publication.

        Raises ReportError if no author is known, or if a value does not fit its option.
        """
        known = earlier and Credit(earlier.authors or (AUTHOR,), earlier.given_title, earlier.doi, earlier.url)
        authors = self.authors or (known.authors if known else ())
        if not authors:
            raise ReportError(
                '--author is missing: name who measured, as "Family, Given" or by the name of a group; repeat for each'
            )
        for option, value in (*(("author", name) for name in authors), ("title", self.title)):
            if value is not None and not _is_line(value):
                raise ReportError(f"--{option} {value!r}: give one line of text")
        doi = self.doi and DOI.fullmatch(self.doi.strip())
        if self.doi is not None and not doi:
            raise ReportError(f"--doi {self.doi}: not a DOI; write it as 10.5281/zenodo.1234567")
        if self.url is not None and not URL.fullmatch(self.url):
            raise ReportError(f"--url {self.url}: not an address; write it as https://example.org/results")
        return Credit(
            tuple(authors),
            self.title or (known.title if known else None) or "",
            (doi[1] if doi else known.doi if known else None) or "",
            self.url or (known.url if known else None) or "",
        )


def _is_line(value: str) -> bool:
    return bool(value.strip()) and value.isprintable()


def format_cff(publication: Publication, archive: str, archive_sha256: str) -> str:
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


def format_bibtex(publication: Publication) -> str:
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
