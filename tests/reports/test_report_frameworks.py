"""Name of a framework that the reports do not know: the label in the results that a report is built from."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import varied
from stored import answers, store, store_answers, study_of_blocks, trial

from reports import build, markdown, trial_rows
from reports.comparing.comparison import compare
from reports.comparing.pages import write_markdown
from reports.frameworks import FrameworkNames, name_frameworks, read_names
from reports.load import Stored
from reports.publishing import index, publication
from reports.publishing.publication import ClaimOutcome
from reports.sentences import say
from reports.web.page import build_page, list_drawings
from workloads.records.batch_answers import ANSWERS_FILE
from workloads.records.files import write_json
from workloads.records.result import TrialResult

LABELS = ("Flux.jl", "Flow")


def test_a_framework_is_known_by_its_label_or_folder_and_known_ones_keep_their_names() -> None:
    assert FrameworkNames()("flux") == "flux"
    named = name_frameworks([("flux", "Old"), ("flux@a", "Flux"), ("flux", None), ("pytorch", "Another")])
    assert list(map(named, ("flux", "flux@a", "caffe", "pytorch"))) == ["Flux", "Flux @a", "caffe", "PyTorch"]
    named = name_frameworks([("mine", "PyTorch"), ("one", "Same"), ("other", "Same")])
    assert list(map(named, ("mine", "one", "other"))) == ["PyTorch (mine)", "Same (one)", "Same (other)"]


@pytest.mark.parametrize("label", [None, 3, "", "a|b", "<b>", "$x$", "a\nb"])
def test_what_is_no_label_is_not_shown(label: object) -> None:
    assert name_frameworks([("theano", label)])("theano") == "theano"


def flux(label: str, repeat: int = 0, started_at: str = "2025-11-21T10:00:00+00:00") -> TrialResult:
    """A trial of a framework that no report knows, whose adapter called it so."""
    made = trial("numpy", 32, repeat)
    machine = made.machine | {"framework_label": label}
    return replace(made, spec=varied(made.spec, framework="flux"), machine=machine, started_at=started_at)


def store_all(results: Path, label: str) -> Path:
    """Store trials, blocks of steps without a label, and answers of the framework."""
    store(results, *(flux(label, repeat) for repeat in range(3)), *(trial(repeat=repeat) for repeat in range(3)))
    study_of_blocks(results, {}, frameworks=("flux",), processes=2, rounds=2)
    told = json.loads((store_answers(results, answers("flux", 32, 3000)) / ANSWERS_FILE).read_text())
    write_json(results / ANSWERS_FILE, told | {"conditions": told["conditions"] | {"labels": {"flux": label}}})
    return results


def test_a_sentence_about_a_framework_is_not_said_without_names() -> None:
    facts = {"name": "flux", "sizes": [4], "every": [4, 8], "reason": "it fell"}
    assert say("headline.silence", name_frameworks([("flux", "Flux")]), **facts) == "Flux at 4: it fell"
    with pytest.raises(KeyError, match="named"):
        say("headline.silence", **facts)


@pytest.mark.parametrize("order", [LABELS, LABELS[::-1]])
def test_each_report_of_a_process_shows_the_label_in_its_own_results(tmp_path: Path, order: tuple[str, ...]) -> None:
    made = {label: build.build_report([store_all(tmp_path / label, label)]) for label in order}
    for label, other in (LABELS, LABELS[::-1]):
        report = made[label]
        assert [chapter.kind for chapter in report.chapters] == ["batch-size", "powers-of-two", ""]
        page = build_page(report, pictures={drawing.id: "" for drawing in list_drawings(report)})
        text, labels = markdown.format_for_terminal(report), [*trial_rows.build_frame(report.stored)["framework_label"]]
        drawn = {each.label for chapter in report.chapters for chart in chapter.charts for each in chart.series}
        assert label in page and label in drawn and labels.count(label) == 5
        assert not any(other in each for each in (page, text, *drawn, *labels))
        assert not re.search(r"\bflux\b", text), "nothing calls it by the name of its folder"


def test_a_comparison_uses_the_label_of_b(tmp_path: Path) -> None:
    a, b = (store(tmp_path / label, *(flux(label, repeat) for repeat in range(3))) for label in LABELS)
    for sides in ((a, b), (b, a)):
        text = write_markdown(compare(*sides))
        assert (f"| {sides[1].name} " in text, f"| {sides[0].name} |" in text, "| flux" in text) == (True, False, False)


def test_the_index_of_publications_uses_their_labels_the_newest_first(tmp_path: Path) -> None:
    for day, label in zip(("2025-11-21", "2025-11-22"), LABELS, strict=True):
        told = Stored((flux(label, started_at=f"{day}T10:00:00+00:00"),), (), (), ())
        claim = ClaimOutcome("osu-2020", "At 4 {framework} is highest", "flux", {}, "holds")
        found = publication.Found(articles={"osu-2020": "A thesis"}, claims=[claim])
        (tmp_path / day).mkdir()
        text = publication.format_publication(publication.build_publication(told, day, found))
        (tmp_path / day / publication.FILE).write_text(text)
    assert index.write(tmp_path) == []
    page = (tmp_path / index.INDEX).read_text()
    assert f'<th scope="col">{LABELS[1]}</th>' in page and f"At 4 {LABELS[1]} is highest" in page


def test_of_several_labels_the_newest_counts() -> None:
    newest = flux("New", started_at="2025-11-22T10:00:00+00:00")
    assert read_names([newest, flux("Old")])("flux") == read_names([flux("Old"), newest])("flux") == "New"
