"""The deliberately wrong adapters of broken/, and what each says of itself."""

from __future__ import annotations

import ast
from pathlib import Path

PLANTED = {path.stem: path for path in sorted((Path(__file__).parent / "broken").glob("*.py"))}


def errors_of(name: str) -> tuple[str, tuple[str, ...], set[str]]:
    """(framework, cases, checks that must fail): read, not imported, as its framework is not here."""
    for node in ast.parse(PLANTED[name].read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            framework, cases, checks = ast.literal_eval(node.value)
            return framework, cases, checks
    raise AssertionError(f"{PLANTED[name]} does not say what it breaks")
