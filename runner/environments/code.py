"""Find our code that runs in a framework's workers, and compute its digest for their trials' ids.

Only the meaning counts: the parsed statements, without docstrings and comments.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from runner.project import Project
from workloads.records.build import column_of

# The program is what `python -m adapters.worker` runs. It finds its framework's adapter by name, and its adapter for
# several devices if there is one.
PROGRAM, BY_NAME = "adapters.worker.__main__", ("adapter", "data_parallel")


def code_digest(project: Project, framework: str) -> str:
    """Return a digest of every statement that may run in one of the framework's workers, and of nothing else."""
    modules = worker_modules(project, framework)
    meaning = [f"{name}\0{_parsed(path.read_text(encoding='utf-8-sig'))[0]}" for name, path in sorted(modules.items())]
    return hashlib.sha256("\0".join(meaning).encode()).hexdigest()[:16]


def worker_modules(project: Project, framework: str) -> dict[str, Path]:
    """Return {dotted name: file} of all of our modules that its workers import, directly or indirectly."""
    modules: dict[str, Path] = {}
    looked_for: set[str] = set()
    names = [PROGRAM, *(f"adapters.{column_of(framework).framework}.{module}" for module in BY_NAME)]
    while names:
        name = names.pop()
        if name in looked_for:
            continue
        looked_for.add(name)
        path = _file(project, name)
        if path is None:
            continue
        modules[name] = path
        names.append(name.rpartition(".")[0])
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        names += [
            f"{'.'.join(package.split('.')[: 1 - level or None])}.{target}" if level else target
            for level, target in _parsed(path.read_text(encoding="utf-8-sig"))[1]
        ]
    return modules


def _file(project: Project, module: str) -> Path | None:
    """Return the module's file. None where it is outside workloads and adapters, or is a name in a module."""
    room, *rest = module.split(".")
    if room not in ("workloads", "adapters"):
        return None
    paths = [folder.joinpath(*rest) for folder in (project.adapters if room == "adapters" else (project.root / room,))]
    candidates = [file for path in paths for file in (path / "__init__.py", path.with_name(f"{path.name}.py"))]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@cache  # by content; all frameworks share most modules
def _parsed(source: str) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return (meaning, (level, name) of all that it may import). The level is the number of leading dots."""
    tree = ast.parse(source)
    return _meaning(tree), tuple(_imports(tree))


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            yield from ((node.level, name) for name in (node.module, *(base + a.name for a in node.names)) if name)


def _meaning(node: object) -> str:
    """Return the meaning as text that is the same under every Python; `ast.dump` names fields that older ones lack."""
    if isinstance(node, list):
        return f"[{' '.join(_meaning(item) for item in node if not _is_text_alone(item))}]"
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={_meaning(value)}"
            for name, value in ast.iter_fields(node)
            if value is not None and value != [] and name not in ("kind", "type_comment")
        ]
        return f"{type(node).__name__}({' '.join(fields)})"
    return ascii(node)


def _is_text_alone(node: object) -> bool:
    """True for a docstring, or any other string that is a statement."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
