"""python -m reports check PUBLICATION: what was changed and sealed again is found, with its file and value."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stored
from PIL import Image
from test_report_check import rewrite, run_trial

from reports.publishing import archive, contents, page_tables, publication, publish, verify
from reports.publishing.archive import CHECKSUMS
from reports.publishing.citation import Credit

pytestmark = pytest.mark.slow

trial = partial(stored.trial, study="own")
HEADLINE = "MXNet was fastest at 9 of 9 batch sizes"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small publication without pictures, which would take most of its time."""
    folder = tmp_path_factory.mktemp("publication")
    for place, (framework, size) in enumerate((("tensorflow", 32), ("pytorch", 32), ("pytorch", 64))):
        run_trial(folder / "results", trial(framework, size), start_s=9 + place / 100)
    run_trial(folder / "results", trial("tensorflow", 64), start_s=9.04)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(contents, "FORMATS", ("html",))
        yield publish.publish(folder / "results", folder / "published", Credit(("Lovelace, Ada",)), "small").folder


@pytest.fixture
def copy(published: Path, tmp_path: Path) -> Path:
    return shutil.copytree(published, tmp_path / "small")


def seal(folder: Path) -> verify.Verified:
    """Verify the folder after its checksums are made anew from its files."""
    (folder / CHECKSUMS).write_text(archive.format_checksums(folder))
    return verify.verify(folder)


def edit_text(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


def edit_facts(folder: Path, **changes: object) -> dict[str, Any]:
    path = folder / publication.FILE
    facts: dict[str, Any] = json.loads(path.read_text())
    path.write_text(json.dumps(facts | changes))
    return facts


def test_a_publication_as_it_was_published_has_no_finding_and_no_note(published: Path) -> None:
    seen = verify.verify(published)
    assert (seen.findings, seen.notes) == ([], [])
    assert seen.subject == f"{published}: {CHECKSUMS}, 4 trials: 4 ok"


def test_a_page_a_headline_and_a_citation_that_were_changed_and_sealed_again_are_found(copy: Path) -> None:
    headline = edit_facts(copy, headline=HEADLINE)["headline"]
    edit_text(copy / "report.html", f"<title>{headline}", f"<title>{HEADLINE}")
    edit_text(copy / "CITATION.cff", "Lovelace", "Babbage")
    (copy / contents.INPUTS).write_text("00  inputs/other.npy\n")
    (copy / "more.txt").touch()
    found = {line.removeprefix(f"{copy}/") for line in seal(copy).findings}
    starts = (
        f"publication.json: headline: published: '{HEADLINE}'",
        "report.html: line ",
        "CITATION.cff: line ",
        "inputs.sha256: line 1: published: '00  inputs/other.npy'; its archive gives: '00  inputs/order.npy'",
        "more.txt: its archive makes no such file",
    )
    assert all(any(line.startswith(start) for line in found) for start in starts), found
    assert any("MXNet was fastest" in line for line in found if line.startswith("report.html"))
    assert len(found) == len(starts)


def test_a_result_that_was_changed_in_the_archive_is_found_with_its_trial_and_value(copy: Path, tmp_path: Path) -> None:
    results = archive.unpack(copy / archive.ARCHIVE, tmp_path / "unpacked")
    (trial_dir,) = results.glob("trials/pytorch-*b00064*")
    rewrite(trial_dir, lambda data: data["figures"]["test_accuracy"].update(value=0.99))
    archive.pack(results, copy / archive.ARCHIVE)
    seen = seal(copy)
    named = f"{copy / archive.ARCHIVE}: results/trials/{trial_dir.name}: test_accuracy: stored: 0.99; recomputed: 0.74"
    assert named in seen.findings
    assert any(line.startswith(f"{copy / 'report.html'}: line ") for line in seen.findings)


def test_of_a_page_of_another_version_figures_are_compared_and_sentences_are_not_accused(copy: Path) -> None:
    edit_facts(copy, built_by="", machines=["another name"])
    edit_text(copy / "report.html", "</title>", " (in the words of then)</title>")
    seen = seal(copy)
    assert seen.findings == []
    assert [note.removeprefix(f"{copy}/").partition(": ")[0] for note in seen.notes] == [
        publication.FILE,
        "report.html",
    ]
    assert "another version of the reports built it" in seen.notes[1] and "figures in its tables" in seen.notes[1]

    page = (copy / "report.html").read_text()
    key = next(key for key in page_tables.read_tables(page) if key.name == "speed")
    speed = page_tables.read_tables(page)[key].rows[1][1]
    edit_text(copy / "report.html", f">{speed}<", ">9999<")
    edit_facts(copy, trials={"ok": 40}, headline=HEADLINE)
    found = seal(copy).findings
    assert found == [
        f"{copy / publication.FILE}: trials: published: \"{{'ok': 40}}\"; its archive gives: \"{{'ok': 4}}\"",
        f"{copy / 'report.html'}: the headline of publication.json is not in it",
        f"{copy / 'report.html'}: {key.chapter}: table speed, TensorFlow, 32: "
        f"the page has 9999, its archive gives {speed}",
    ]


def test_of_another_version_too_the_page_and_its_marks_must_be_there(copy: Path) -> None:
    edit_facts(copy, built_by="", marks=["Published with known faults: one."])
    told = f"{copy / 'report.html'}: the mark of {publication.FILE} is not in it: Published with known faults: one."
    assert told in seal(copy).findings
    (copy / "report.html").unlink()
    assert f"{copy}: it has no page" in seal(copy).findings


@pytest.mark.parametrize(
    ("was", "now", "agree"),
    [("728", "728.4", True), ("1,613", "1613", True), ("98.33", "98.34", False), ("885", "884", False)],
)
def test_figures_of_two_versions_agree_to_the_digits_that_both_show(was: str, now: str, agree: bool) -> None:
    assert page_tables._agree(was, now) is agree


@pytest.mark.parametrize(("change", "found"), [(lambda image: image + 2, False), (lambda image: image * 0, True)])
def test_a_picture_differs_by_more_than_rounding(
    tmp_path: Path, change: Callable[[np.ndarray], np.ndarray], found: bool
) -> None:
    image = np.full((40, 60, 3), 200, np.uint8)
    Image.fromarray(image).save(tmp_path / "a.png")
    image[:6, :6] = change(image[:6, :6])
    Image.fromarray(image).save(tmp_path / "b.png")
    lines = list(verify._picture_differs(tmp_path / "b.png", tmp_path / "a.png"))
    assert lines == ["36 pixels differ from the picture that its archive gives"] * found
