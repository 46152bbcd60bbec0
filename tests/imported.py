"""Read from their source what files of the repository import."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def targets(source: str, file: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted absolute name) of everything imported, literal importlib calls included."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                package = file.parts[: len(file.parts) - level] if level else ()
                base = ".".join([*package, *([module] if module else [])])
                yield from ((node.lineno, f"{base}.{name.name}" if base else name.name) for name in names)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)) | ast.JoinedStr(values=[ast.Constant(value=str(name)), *_]), *_],
            ):
                yield node.lineno, name.rstrip(".")


def imported(files: Iterable[Path]) -> set[Path]:
    """Return these files and all of the repository that they import, directly or not."""
    seen: set[Path] = set()
    left = list(files)
    while left:
        file = left.pop()
        if file in seen:
            continue
        seen.add(file)
        for _, target in targets((ROOT / file).read_text(encoding="utf-8"), file):
            parts = target.split(".")
            paths = [Path(*parts[:count]) for count in range(1, len(parts) + 1)]
            modules = [module for path in paths for module in (path.with_suffix(".py"), path / "__init__.py")]
            left += [module for module in modules if (ROOT / module).is_file()]
    return seen
