"""Write a comparison as one HTML page that loads nothing and needs no script."""

from __future__ import annotations

import base64
from pathlib import Path

from ..web.page import NO_CONNECTION, STYLES, asset, environment
from . import comparison_tables, headline, markdown_page, picture
from .comparison import Comparison
from .gate import Ruling

TEMPLATES = Path(__file__).parent / "templates"


def text(comparison: Comparison, ruling: Ruling | None) -> str:
    """Build the HTML; `ruling` is shown if there is one."""
    from jinja2 import ChoiceLoader, FileSystemLoader

    usual = environment()
    assert usual.loader is not None
    templates = usual.overlay(loader=ChoiceLoader([FileSystemLoader(TEMPLATES), usual.loader]))
    several = len(comparison.pairs) > 1
    titles = list(dict.fromkeys(compared.pair.title for compared in comparison.pairs))
    pictures = [drawn for compared in comparison.pairs for drawn in picture.of(compared)]
    return templates.get_template("compare.html.j2").render(
        title=titles[0] + (f" and {len(titles) - 1} more" if len(titles) > 1 else ""),
        policy=NO_CONNECTION,
        style="".join(map(asset, STYLES)),
        against=comparison.pairs[0].against,
        sides=markdown_page.sides(comparison),
        headlines=[
            {"title": compared.pair.title if several and not place else "", "text": sentence}
            for compared in comparison.pairs
            for place, sentence in enumerate(headline.sentences(compared))
        ],
        counts=markdown_page.counts(comparison),
        ruling=ruling,
        pictures=[
            {"alt": drawn.alt, "base64": base64.b64encode(drawn.svg.encode("utf-8", "replace")).decode()}
            for drawn in pictures
        ],
        how_to_read_a_picture=picture.HOW,
        shown=comparison_tables.tables_of(comparison),
        how=comparison_tables.HOW,
    )
