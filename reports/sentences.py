"""Sentences for people: `wording/` holds a template for each module that speaks, in it a macro for each sentence.

Modules hand over facts and decide nothing by the words that come back.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.words import counted

from .frameworks import display_name
from .words import listed, spans

if TYPE_CHECKING:
    from jinja2 import Environment

WORDING = Path(__file__).with_name("wording")


def say(template: str, sentence: str, **facts: object) -> str:
    """One line of plain text, "" where the macro has nothing to say. A fact that a macro does not know, or lacks, is an
    error of ours: TypeError, jinja2.UndefinedError.
    """
    macro = getattr(_environment().get_template(f"{template}.j2").module, sentence)
    return " ".join(str(macro(**facts)).split())


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # here: not every command writes a report

    # Plain text: what comes from outside is escaped by the format that shows it.
    environment = Environment(
        loader=FileSystemLoader(WORDING),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"named": display_name, "listed": listed, "spans": spans, "counted": counted}
    return environment
