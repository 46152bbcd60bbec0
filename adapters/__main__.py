"""python -m adapters new NAME [--into DIR]: a new framework's folder, with the verbs it needs, which fail at first."""

from __future__ import annotations

import inspect
import keyword
import sys
import tomllib
from pathlib import Path
from string import Template

from adapters import base
from workloads import program
from workloads.command_line import CommandLine

HERE = Path(__file__).resolve().parent

ADAPTER = Template('''\
"""$name: the verbs that a trial needs. Name here the framework's own guide to its loop.

docs/extend/a-framework.md says in which order to write them. examples/adapters/minimal is complete, and short.
"""

from __future__ import annotations

from typing import Any

from adapters import base
from adapters.base import Facts, Floats, Order, Probe
from workloads.datasets import Images, Labels
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights


class Adapter(base.Adapter):
    """The verbs of `adapters.base.Adapter`, by this framework's own calls."""

$verbs''')

# docs/extend/adapter-reference.md explains each key.
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
        raise BadName(f"{name}: {folder if folder.exists() else HERE / name} already exists; choose another name")
    folder.mkdir(parents=True)
    (folder / "adapter.py").write_text(adapter(name))
    # The base image of the referee is that of every framework which is installed by its pins.
    image = tomllib.loads((HERE / "numpy" / "environment.toml").read_text(encoding="utf-8"))["base"]
    (folder / "environment.toml").write_text(ENVIRONMENT.substitute(name=name, base=image))
    return folder


def adapter(name: str) -> str:
    """Return the module: the verbs of `base.Adapter` that have no default, with bodies that fail."""
    verbs = [verb for verb in vars(base.Adapter) if verb in base.Adapter.__abstractmethods__]
    promises = [inspect.getsource(getattr(base.Adapter, verb)).partition("\n")[2] for verb in verbs]
    bodies = [f'        raise NotImplementedError("{verb}")\n' for verb in verbs]
    return ADAPTER.substitute(name=name, verbs="\n".join(map("".join, zip(promises, bodies, strict=True))))


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0, or 2 with one line if nothing was written."""
    program.outlast_readers()
    parser = CommandLine(prog="python -m adapters", description=__doc__)
    command = parser.add_subparsers(required=True).add_parser("new", help="write the folder of a new framework")
    command.add_argument("name", metavar="NAME", help="name for --framework: a lower-case Python identifier")
    command.add_argument("--into", metavar="DIR", type=Path, default=HERE, help="parent folder (default: adapters/)")
    words = parser.parse_args(arguments)
    try:
        folder = new(words.name, words.into)
    except BadName as error:
        print(f"adapters: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"adapters: {error.filename}: {error.strerror}; name another folder with --into", file=sys.stderr)
        return 2
    print(f"{folder}: its methods still fail; docs/extend/a-framework.md says what to write next.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
