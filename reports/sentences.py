"""Write sentences for people, and their parts: lists, counts, words for how a trial ended.

`wording/` has a template for each module, and in it a macro for each sentence.

Modules pass facts and decide nothing by the returned words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.words import format_count

from .frameworks import FrameworkNames

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Context

WORDING = Path(__file__).with_name("wording")


def say(sentence: str, named: FrameworkNames | None = None, /, **facts: object) -> str:
    """Format one line of plain text, "" if the macro has nothing to say; `sentence` is "template.macro".

    `named` is needed by macros that name frameworks. Raises TypeError, KeyError or jinja2.UndefinedError if it is
    missing, or if a fact is unknown to the macro or missing, which is our error.
    """
    stem, _, name = sentence.partition(".")
    template = load_templates(WORDING).get_template(f"{stem}.j2")
    macro = getattr(template.make_module({"named": named}) if named else template.module, name)
    return " ".join(str(macro(**facts)).split())


def note_corrected(tests: Sequence[int], excluded: str) -> tuple[str, ...]:
    """Write the line above a table with verdicts that a correction overruled; none without such a verdict.

    `tests`: for each of them the comparisons that it was corrected for; `excluded`: what their intervals exclude.
    """
    several = sorted(set(tests))
    return (say("correction.note", cells=len(tests), excluded=excluded, tests=several),) if tests else ()


@functools.cache
def load_templates(folder: Path) -> Environment:
    """Load the templates of a folder. Those of WORDING give plain text: the output format escapes what is foreign."""
    # here: not every command writes a report
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context

    @pass_context
    def name_framework(context: Context, framework: str) -> str:
        return str(context["named"](framework))

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=folder != WORDING,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"named": name_framework, "listed": listed, "spans": spans, "counted": format_count}
    return environment


def listed(items: Iterable[object]) -> str:
    """Join items: "4, 8 and 16"."""
    *first, last = [str(item) for item in items] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def span_list(places: Iterable[int], among: Sequence[int]) -> list[str]:
    """List ["4", "8", "64 to 1024"]: three or more that follow each other in `among`, which is sorted, form a span."""
    runs: list[list[int]] = []
    for place in sorted(places):
        if runs and among.index(place) == among.index(runs[-1][-1]) + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return [part for run in runs for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]


def spans(places: Iterable[int], among: Sequence[int]) -> str:
    """Join places and spans: "4, 8 and 64 to 1024"."""
    return listed(span_list(places, among))


def status_words(status: str) -> str:
    """Return a status as words: "out of memory"."""
    return str(status).replace("_", " ")
