"""Write what a publication holds besides its archive: the report, and texts that follow from its facts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import build, export
from ..drawing.sizes import Layout
from ..load import Stored
from ..report import Report
from ..reproduction.claims import TestedClaim, judge_all
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
    """Write a report on RESULTS in the working folder; returns its findings. `formats`: FORMATS if None."""
    report = build.build_report([RESULTS])
    said = _read_report(report)
    # With several chapters, one picture: the page has them all, and twenty would burden a repository.
    stems = (Path(said.picture).stem, *(CHARTS if len(report.chapters) == 1 else ()))
    export.write(report, out, FORMATS if formats is None else formats, marks, Layout(stems=stems), ARCHIVE)
    (out / export.LIST_FILE).unlink()  # only later reports into the same folder would use it
    return said


def build_texts(facts: Publication, archive_sha256: str) -> dict[str, str]:
    """Return {name: text} of the files that depend on the publication's facts only."""
    return {
        publication.FILE: publication.format_publication(facts),
        "CITATION.cff": citation.format_cff(facts, ARCHIVE, archive_sha256),
        "citation.bib": citation.format_bibtex(facts),
    }


def _read_report(report: Report) -> Found:
    """Collect the findings of a report. The picture has the chapter's number if there are several of its kind."""
    summary = report.summary
    tested = list(judge_all([chapter.section for chapter in report.of_trials if chapter.section]))
    tested += [each for chapter in report.chapters for each in chapter.tested]
    number = None if summary.main is None else report.number(summary.main)
    return Found(
        summary.headline,
        summary.findings,
        f"{_picture(report, number)}.png",
        {article.name: article.source for article, _ in tested},
        [_outcome(article.name, each) for article, each in tested],
    )


def _picture(report: Report, number: int | None) -> str:
    """Return the stem of the picture that shows the answer: across the chapters if that leads, else of the main one."""
    if report.leading:
        return report.leading[0].name
    return f"{report.summary.about}-{number}" if number else report.summary.about


def _outcome(name: str, tested: TestedClaim) -> ClaimOutcome:
    published = {series: str(told.outcome) if told else None for series, told in tested.published.items()}
    return ClaimOutcome(name, tested.claim.text, tested.framework, published, str(tested.measured.outcome))
