"""python -m adapters new NAME [--into DIR]: a new framework's folder, every verb in it with its promise and failing."""

from __future__ import annotations

import argparse
import ast
import inspect
import keyword
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template

from adapters import base
from workloads import layers

HERE = Path(__file__).resolve().parent

ADAPTER = Template('''\
"""$name: each verb of adapters/base.py, which holds what it promises. Name here the framework's own guide to its loop.

Rivals and the referee (adapters/numpy) stand beside this folder: read side by side they say how it is done.
"""

from __future__ import annotations

$imports


class Adapter:
    """The verbs of `adapters.base.Adapter`, by this framework's own calls."""

$verbs''')

LAYERS = Template('''\
"""Each layer record of workloads/layers.py as a layer of $name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workloads.layers import (
$records,
)
$functions

LAYERS: dict[type[Layer], Callable[[Any, Shape], Any]] = {
$table
}
''')

LAYER = Template('''

def $function(layer: $record, shape: Shape) -> Any:
    """$promise"""
    raise NotImplementedError("$record")
''')

# docs/adding-a-framework.md says what each key means.
ENVIRONMENT = Template("""\
label = "$name"
python = "3.11"
imports = ["$name"]
smoke = "import $name, numpy; raise SystemExit('compute something small here, and take this line out')"
base = "$base"

[variables]

[cpu]
requires = []
pins = \"\"\"
\"\"\"
""")


class BadName(ValueError):
    """What is wrong with the name or the folder, and what to do: one line."""


def new(name: str, into: Path) -> Path:
    """Write the folder NAME below `into`; returns it. Raises BadName before anything is written."""
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise BadName(f"{name!r}: a framework's name is a lower-case Python identifier; choose another")
    folder = into / name
    if folder.exists() or (HERE / name).exists():
        raise BadName(f"{name}: {folder if folder.exists() else HERE / name} is there already; choose another name")
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "adapter.py").write_text(adapter(name))
    (folder / "layers.py").write_text(layer_functions(name))
    (folder / "environment.toml").write_text(ENVIRONMENT.substitute(name=name, base=image()))
    return folder


def image() -> str:
    """The image that the referee's is built on: that of every framework which is installed by its pins."""
    text = (HERE / "numpy" / "environment.toml").read_text(encoding="utf-8")
    return next(line for line in text.splitlines() if line.startswith("base = ")).split('"')[1]


def adapter(name: str) -> str:
    """The module: the verbs of `base.Adapter` as they stand there, with bodies that fail."""
    source = inspect.getsource(base)
    tree = ast.parse(source)
    (protocol,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == base.Adapter.__name__)
    lines = source.splitlines()
    verbs = []
    for verb in (node for node in protocol.body if isinstance(node, ast.FunctionDef)):
        promise = lines[verb.lineno - 1 : verb.body[-1].lineno - 1]
        verbs.append("\n".join([*promise, f'        raise NotImplementedError("{verb.name}")\n']))
    words = {node.id for verb in protocol.body for node in ast.walk(verb) if isinstance(node, ast.Name)}
    return ADAPTER.substitute(name=name, imports="\n".join(imports(tree, words)), verbs="\n".join(verbs))


def imports(tree: ast.Module, words: set[str]) -> Iterator[str]:
    """What of base.py's imports, and of base.py itself, the verbs' signatures name."""
    named = {
        node.module: [alias.name for alias in node.names if alias.name in words]
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
    }
    of_others = {name for names in named.values() for name in names}
    named[base.__name__] = sorted(words & vars(base).keys() - of_others)
    lines = {module: f"from {module} import {', '.join(names)}" for module, names in named.items() if names}
    yield from (lines[module] for module in sorted(lines) if module in sys.stdlib_module_names)
    yield ""
    yield from (lines[module] for module in sorted(lines) if module not in sys.stdlib_module_names)


def records(record: type[layers.Layer] = layers.Layer) -> Iterator[type[layers.Layer]]:
    """The layers that networks are made of: those that no other record derives from."""
    derived = record.__subclasses__()
    if not derived:
        yield record
    for each in derived:
        yield from records(each)


def layer_functions(name: str) -> str:
    """The module: a failing function for each layer record, and the table of them."""
    each = {record: f"make_{record.__name__.lower()}" for record in records()}
    names = sorted([record.__name__ for record in each] + ["Layer", "Shape"])
    return LAYERS.substitute(
        name=name,
        records=",\n".join(f"    {record}" for record in names),
        functions="".join(
            LAYER.substitute(function=function, record=record.__name__, promise=first_line(record))
            for record, function in each.items()
        ),
        table="\n".join(f"    {record.__name__}: {function}," for record, function in each.items()),
    )


def first_line(record: type) -> str:
    """The first line of its docstring."""
    return (inspect.getdoc(record) or "").splitlines()[0]


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0, or 2 with one line where nothing was written."""
    parser = argparse.ArgumentParser(prog="python -m adapters", description=__doc__)
    command = parser.add_subparsers(required=True).add_parser("new", help="write the folder of a new framework")
    command.add_argument("name", metavar="NAME", help="what --framework is given: a lower-case Python identifier")
    command.add_argument("--into", metavar="DIR", type=Path, default=HERE, help="default: the project's adapters/")
    words = parser.parse_args(arguments)
    try:
        folder = new(words.name, words.into)
    except BadName as error:
        print(f"adapters: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"adapters: {error.filename}: {error.strerror}; name another folder with --into", file=sys.stderr)
        return 2
    print(f"{folder}: every verb is there and fails. docs/adding-a-framework.md says how to go on.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
