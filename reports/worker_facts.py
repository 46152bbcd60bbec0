"""Show what the workers reported, as a table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .condition_text import ABSENT, distinct, package_versions
from .conditions import Section
from .frameworks import display_name, ordered
from .table import Cell, Table, Theme


def table(section: Section) -> Table | None:
    """Build a table with a row per fact or package, a column per framework. None if nothing was reported."""
    facts: dict[str, dict[str, list[Any]]] = {}  # {fact: {framework: what its trials said}}
    packages: dict[str, dict[str, list[Any]]] = {}
    for result in section.every:
        said = {key.replace("_", " "): value for key, value in result.facts.items() if key != "packages"}
        variables = result.machine.get("profile_variables")
        if isinstance(variables, dict) and variables:
            said["variables of the profile"] = " ".join(f"{name}={value}" for name, value in sorted(variables.items()))
        for kind, values in ((facts, said), (packages, package_versions(result))):
            for key, value in values.items():
                if value is not None:
                    kind.setdefault(key, {}).setdefault(result.spec.cell.framework, []).append(value)
    names = ordered(result.spec.cell.framework for result in section.every)
    named = facts | {f"package {name}": packages[name] for name in sorted(packages)}
    rows = [(fact, *(distinct(said.get(name, ())) or ABSENT for name in names)) for fact, said in named.items()]
    if not rows:
        return None
    head = ("Fact", *map(display_name, names))
    cells = tuple(tuple(Cell(word) for word in row) for row in rows)
    tidy = pd.DataFrame(rows, columns=["fact", *names])
    return Table("workers", "What the workers reported", head, cells, tidy, words=True, theme=Theme.SOFTWARE)
