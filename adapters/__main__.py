"""python -m adapters new NAME [--into DIR]: a new framework's folder, every verb in it with its promise and failing."""

from __future__ import annotations

import inspect
import keyword
import re
import sys
import tomllib
from pathlib import Path
from string import Template

from adapters import base
from workloads.activations import KEPT
from workloads.command_line import CommandLine

HERE = Path(__file__).resolve().parent

ADAPTER = Template('''\
"""$name: each verb of adapters/base.py, which holds what it promises. Name here the framework's own guide to its loop.

Rivals and the referee (adapters/numpy) stand beside this folder: read side by side they say how it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from adapters.base import Count, Floats, MemoryUse, Order, Probe
from workloads.datasets import Images, Labels
from workloads.records.network import OwnCode
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights


class Adapter:
    """The verbs of `adapters.base.Adapter`, by this framework's own calls."""

$verbs''')

LAYERS = Template('''\
"""Each layer record of workloads/layers as a layer of $name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workloads import layers
$functions

LAYERS: dict[type[layers.Layer], Callable[[Any, layers.Shape], Any]] = {
$table
}
''')

LAYER = Template('''

def make_$function(layer: layers.$record, shape: layers.Shape) -> Any:
    """$promise"""
    raise NotImplementedError("$record")
''')

# docs/adapter-reference.md explains each key.
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
    """The name or the folder cannot be used; the message is one line: why, and what to do."""


def new(name: str, into: Path) -> Path:
    """Write the folder NAME below `into` and return it. Raises BadName before anything is written."""
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise BadName(f"{name!r}: a framework's name is a lower-case Python identifier; choose another")
    folder = into / name
    if folder.exists() or (HERE / name).exists():
        raise BadName(f"{name}: {folder if folder.exists() else HERE / name} is there already; choose another name")
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "adapter.py").write_text(adapter(name))
    (folder / "layers.py").write_text(layer_functions(name))
    # The base image of the referee is that of every framework which is installed by its pins.
    image = tomllib.loads((HERE / "numpy" / "environment.toml").read_text(encoding="utf-8"))["base"]
    (folder / "environment.toml").write_text(ENVIRONMENT.substitute(name=name, base=image))
    return folder


def adapter(name: str) -> str:
    """Return the module: the methods of `base.Adapter`, with bodies that fail."""
    _, _, verbs = inspect.getsource(base.Adapter).partition('"""\n\n')
    verb = re.compile(r' +def (\w+)\(.*?""".*?"""\n', re.DOTALL)
    failing = verb.sub(r'\g<0>        raise NotImplementedError("\1")\n', verbs)
    return ADAPTER.substitute(name=name, verbs=failing)


def layer_functions(name: str) -> str:
    """Return the module: a failing function for each layer record, and the table of them."""
    # Every layer record has its entry in KEPT.
    names = {record.__name__: inspect.cleandoc(record.__doc__ or "").splitlines()[0] for record in KEPT}
    functions = (LAYER.substitute(function=r.lower(), record=r, promise=line) for r, line in names.items())
    table = "\n".join(f"    layers.{record}: make_{record.lower()}," for record in names)
    return LAYERS.substitute(name=name, functions="".join(functions), table=table)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0, or 2 with one line if nothing was written."""
    parser = CommandLine(prog="python -m adapters", description=__doc__)
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
