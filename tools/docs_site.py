"""Hooks of mkdocs (mkdocs.yml): navigation from the map, and links that leave docs/ lead to the checkout's files."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOG = logging.getLogger("mkdocs.hooks")  # a warning here ends a strict build
LINK = re.compile(r"\]\((\.\./[^)\s]*)\)")
PAGE = re.compile(r"\]\(([a-z0-9/-]+\.md)\)")
OUTSIDE = "checkout:"  # mkdocs leaves links of an unknown scheme as they are


def on_config(config: Any) -> Any:
    """Make the navigation from docs/README.md: a section per heading, with the pages that it links to."""
    introduction, *sections = re.split(r"^## ", (ROOT / "docs" / "README.md").read_text("utf-8"), flags=re.MULTILINE)
    first: list[Any] = ["README.md", *PAGE.findall(introduction)]
    config.nav = first + [{text.partition(":")[0]: PAGE.findall(text)} for text in sections]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Mark links to files outside docs/, and warn about a file that is missing."""

    def mark_link(match: re.Match[str]) -> str:
        path, _, anchor = match[1].partition("#")
        target = (ROOT / "docs" / page.file.src_uri).parent.joinpath(path).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return match[0]
        if not (target.is_relative_to(ROOT) and target.exists()):
            LOG.warning("%s links to %s, which is not in the repository", page.file.src_uri, path)
        return f"]({OUTSIDE}{os.path.relpath(target, ROOT)}{anchor and '#'}{anchor})"

    return LINK.sub(mark_link, markdown)


def on_page_content(html: str, page: Any, config: Any, **_: Any) -> str:
    """Replace the marks by paths from the built page to the checkout, in which the site is read."""
    built = Path(config.site_dir) / page.file.dest_uri
    return html.replace(f'"{OUTSIDE}', f'"{os.path.relpath(ROOT, built.parent)}/')
