"""The templates of sentences: each is used somewhere, and none fails silently."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest

from reports.sentences import WORDING, say

SOURCES = WORDING.parent
TEMPLATES = sorted(WORDING.glob("*.j2"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_every_sentence_is_said_by_a_module_or_another_sentence(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    defined = re.findall(r"{% macro (\w+)\(", text)
    assert defined
    said = f'"{template.stem}.'
    unsaid = [name for name in defined if f'{said}{name}"' not in code and len(re.findall(rf"\b{name}\(", text)) < 2]
    assert not unsaid


def test_a_fact_that_is_missing_or_unknown_is_an_error_and_no_gap_in_a_sentence() -> None:
    with pytest.raises(jinja2.UndefinedError):
        say("findings.further")
    with pytest.raises(TypeError):
        say("findings.further", sections=2, chapters=3)
    with pytest.raises(AttributeError):
        say("findings.no_such_sentence")


def test_a_sentence_is_one_line_whatever_a_name_brings_along() -> None:
    assert say("published.source", of="A\nstudy {{ 7 * 7 }} <b>", hardware=" one  card") == (
        "Published: A study {{ 7 * 7 }} <b>; one card."
    )
