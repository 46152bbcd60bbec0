"""Write sentences for people: `wording/` has a template for each module, and in it a macro for each sentence.

Modules pass facts and decide nothing by the returned words.
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


def say(sentence: str, **facts: object) -> str:
    """Format one line of plain text, "" if the macro has nothing to say; `sentence` is "template.macro".

    Raises TypeError or jinja2.UndefinedError if a fact is unknown to the macro or missing, which is our error.
    """
    template, _, name = sentence.partition(".")
    macro = getattr(_environment().get_template(f"{template}.j2").module, name)
    return " ".join(str(macro(**facts)).split())


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # here: not every command writes a report

    # Plain text: the output format escapes what comes from outside.
    environment = Environment(
        loader=FileSystemLoader(WORDING),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"named": display_name, "listed": listed, "spans": spans, "counted": counted}
    return environment
