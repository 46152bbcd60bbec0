"""Decisions in code rest on data: nothing is decided by the words of a sentence.

Walks the product's syntax trees for comparisons, searches and splits by a text with a blank between words. The text is
written there or held by a constant.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT

ROOMS = ("workloads", "adapters", "runner", "reports", "docker", "tools")
SEARCHES = {
    "count", "endswith", "find", "fullmatch", "index", "match", "partition", "removeprefix", "removesuffix",
    "rpartition", "rsplit", "search", "split", "startswith",
}  # fmt: skip
SENTENCE = re.compile(r"\w,? \w")
# Texts of other programs, which have no other form; and ours, in results stored before these facts became data.
REVIEWED = {
    ("runner/environments/engine.py", "no such image|image not known|not found"),  # docker's and podman's
    ("runner/machine/description.py", "model name"),  # /proc/cpuinfo's
}


@cache
def constants(path: Path) -> dict[str, set[str]]:
    """{name: its texts} of what the module assigns at its top or imports by name from another module of the product."""
    texts: dict[str, set[str]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            texts |= imported(path, node)
        for target, value in assigned(node):
            texts[target] = texts_in(value, {})
    return texts


def imported(path: Path, node: ast.ImportFrom) -> dict[str, set[str]]:
    texts: dict[str, set[str]] = {}
    for each in node.names:
        name = each.asname or each.name
        if source := module(path, node):
            texts[name] = constants(source).get(each.name, set())
        elif source := module(path, node, each.name):
            texts |= {f"{name}.{constant}": told for constant, told in constants(source).items()}
    return texts


def module(path: Path, node: ast.ImportFrom, *name: str) -> Path | None:
    """The file that is imported from, or its module of this name; None unless it is another file of the product."""
    folder = path.parents[node.level - 1] if node.level else ROOT
    parts = [*(node.module.split(".") if node.module else ()), *name]
    source = folder.joinpath(*parts[:-1], f"{parts[-1]}.py") if parts else path
    return source if source.is_file() and source != path else None


def assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = zip(target.elts, node.value.elts, strict=True)
            yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))


def texts_in(node: ast.expr, known: dict[str, set[str]]) -> set[str]:
    """Texts of a constant, a name or module's name that is `known`, an f-string, or a collection of these."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, ast.Name | ast.Attribute):
        return known.get(ast.unparse(node), set())
    parts = node.values if isinstance(node, ast.JoinedStr) else getattr(node, "elts", [])
    return {text for part in parts for text in texts_in(part, known)}


def decisions(tree: ast.Module, known: dict[str, set[str]]) -> Iterator[tuple[int, str]]:
    """(line, sentence) of each comparison, pattern and search."""
    for node in ast.walk(tree):
        operands: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            operands = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
            operands = node.args
        for operand in operands:
            yield from ((operand.lineno, text) for text in texts_in(operand, known) if SENTENCE.search(text))


@pytest.mark.slow
def test_nothing_is_decided_by_the_words_of_a_sentence() -> None:
    seen = {
        (str(path.relative_to(ROOT)), text): line
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for line, text in decisions(ast.parse(path.read_text(encoding="utf-8")), constants(path))
    }
    new = [f"{file}:{line}: {text!r}" for (file, text), line in seen.items() if (file, text) not in REVIEWED]
    assert not new, "decide on data (an enumeration, a field), or review it here"
    assert seen.keys() >= REVIEWED, "an exception that is none any more"


@pytest.mark.parametrize(
    "code",
    [
        'if "two words" in source: pass',
        'if note.startswith(("disturbed: by others", "noisy")): pass',
        'key = message.split(" in line ")',
        'WORDS, OTHER = "without the referee", 1\nalone = WORDS in detail',
        'if check.detail == f"compared with {name}, and": pass',
        'match ended:\n    case "limit reached":\n        pass',
    ],
)
def test_a_sentence_that_decides_is_seen(code: str, tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(code)
    assert list(decisions(ast.parse(code), constants(path)))


@pytest.mark.parametrize("code", ['told = f"{n} of {m} trials"', 'a, b = line.split(", ")', "x = Kind.ENDED == kind"])
def test_a_sentence_that_is_said_and_a_form_that_is_read_are_left_alone(code: str, tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(code)
    assert not list(decisions(ast.parse(code), constants(path)))
