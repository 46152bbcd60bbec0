"""Write what a publication holds besides its archive: the report, and texts that follow from its facts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import build, export, load
from ..blocks import article, claims
from ..blocks import page as blocks
from ..blocks import stored as blocks_stored
from ..drawing.sizes import Layout
from ..load import Stored
from ..report import Report
from ..reproduction import claims_across
from ..reproduction.claim_tests import Outcome
from ..reproduction.claims import Tested
from . import citation, publication
from .archive import ARCHIVE
from .publication import ClaimOutcome, Found, Publication

FORMATS = ("html", "png")
CHARTS = ("usage", "memory", "accuracy", "speed", "memory-split")  # drawn as pictures, for a README to show
INPUTS = "inputs.sha256"
RESULTS = Path("results")  # the folder's name in the report and in the archive


def format_inputs(stored: Stored) -> str:
    """Format the checksums of all inputs, as `sha256sum` does."""
    inputs = sorted({(file.path, file.sha256) for result in stored.results for file in result.spec.inputs.values()})
    return "".join(f"{sha256}  {path}\n" for path, sha256 in inputs)


def write_report(out: Path, marks: tuple[str, ...], formats: Sequence[str] | None = None) -> Found:
    """Write a report on RESULTS in the working folder, on trials, on blocks or on both.

    Returns its findings, those of the trials if there are any. `formats`: FORMATS if None.
    """
    formats = FORMATS if formats is None else formats
    chapters = [blocks.chapter(each) for each in blocks_stored.read(RESULTS)]
    if chapters:
        blocks.write(chapters, out, formats, marks)
        export.write_rules(out)
        if not load.has_results(RESULTS):
            return _read_blocks(chapters)
    report = build.report([RESULTS])
    said = _read_report(report)
    # With several chapters, one picture: the page has them all, and twenty would burden a repository.
    stems = CHARTS if len(report.chapters) == 1 else (Path(said.picture).stem,)
    export.write(report, out, formats, marks, Layout(stems=stems), ARCHIVE)
    (out / export.LIST_FILE).unlink()  # only later reports into the same folder would use it
    return said


def texts_of(facts: Publication, archive_sha256: str) -> dict[str, str]:
    """Return {name: text} of the files that depend on the publication's facts only."""
    return {
        publication.FILE: publication.text(facts),
        "CITATION.cff": citation.cff(facts, ARCHIVE, archive_sha256),
        "citation.bib": citation.bibtex(facts),
    }


def _read_report(report: Report) -> Found:
    """Collect the findings of a report on trials."""
    summary = report.summary
    tested = list(claims_across.tested([chapter.section for chapter in report.chapters]))
    return Found(
        summary.headline,
        summary.findings,
        f"{summary.about}{_number(len(report.chapters), summary.main)}.png",
        {article.name: article.source for article, _ in tested},
        [_outcome(article.name, each) for article, each in tested],
    )


def _read_blocks(chapters: Sequence[blocks.Chapter]) -> Found:
    """Collect the findings of processes; the headline is that of the first set of conditions."""
    first, *_ = chapters
    return Found(
        first.headline,
        [line for each in chapters for line in each.findings],
        f"{blocks.STEM}{_number(len(chapters), 0)}.png" if first.chart else "",
        {article.NAME: article.SOURCE},
        [_of_sizes(claim) for each in chapters for claim in each.claims],
    )


def _number(chapters: int, place: int | None) -> str:
    """Number of the picture in its file name; pictures are numbered if there are several chapters."""
    return f"-{place + 1}" if chapters > 1 and place is not None else ""


def _outcome(name: str, tested: Tested) -> ClaimOutcome:
    published = {series: str(told.outcome) if told else None for series, told in tested.published.items()}
    return ClaimOutcome(name, tested.claim.text, tested.framework, published, str(tested.measured.outcome))


def _of_sizes(claim: claims.Claim) -> ClaimOutcome:
    """Convert a claim about sizes.

    The article ran each size once, so its figures are inconclusive for sizes that it measured between two others.
    """
    has = any(each.phase is claim.phase and each.size in claim.sizes for each in article.published())
    text = f"{{framework}}, {claim.phase}: {claim.kind} are faster an image than their neighbours"
    return ClaimOutcome(
        article.NAME, text, claim.framework, {"table": str(Outcome.UNTOLD) if has else None}, str(claim.outcome)
    )
