"""Define the authors of a publication, and the title, DOI and address under which it is cited."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..load import ReportError
from .publication import AUTHOR, Publication

DOI = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:)?(10\.\d{4,9}/[^\s{}]+)", re.IGNORECASE)
URL = re.compile(r"https?://[^\s{}]+")


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
                '--author is missing: name who measured, as "Family, Given" or by the name of a group; once for each'
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
