"""Who is named as the author of a publication, and under which title, DOI and address it is cited."""

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
    """The credit that the command was given; () and None where it was given none."""

    authors: Sequence[str] = ()
    title: str | None = None
    doi: str | None = None
    url: str | None = None

    def checked(self, earlier: Publication | None) -> Credit:
        """Fill what is not given anew from the publication that is published again.

        Raises ReportError where nobody is named, or where a value is not what its option takes.
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
