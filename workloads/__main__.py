"""`python -m workloads describe NAME|FILE`: a network, layer by layer. `import SOURCE`: keep it as a file."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from .activations import FLOAT32_BYTES, activation_bytes
from .command_line import CommandLine
from .networks import NetworkError, find_imported
from .source.files import CODE, keep_imported
from .source.vocabulary import ImportRefused
from .spec import Workload

HEAD = ("layer", "kind", "output shape", "parameters", "multiply-adds", "output bytes")
SOURCE = "source"  # head of the column with the source's names


def list_rows(workload: Workload) -> Iterator[tuple[str, ...]]:
    """Yield the columns of HEAD for one image: each layer in the order of computation, then the sums."""
    bytes_in_all = 0
    for layer, shape in workload.walk():
        output = layer.output_shape(shape)
        parameters = sum(math.prod(parameter) for parameter in layer.parameter_shapes(shape).values())
        output_bytes = FLOAT32_BYTES * math.prod(output)
        bytes_in_all += output_bytes
        numbers = (parameters, layer.multiply_adds(shape), output_bytes)
        yield layer.name, type(layer).__name__, " x ".join(map(str, output)), *(f"{number:,}" for number in numbers)
    sums = (workload.parameter_count, workload.multiply_adds, bytes_in_all)
    yield "all", "", "", *(f"{number:,}" for number in sums)


def describe(workload: Workload, places: Mapping[str, str] | None = None) -> str:
    """Return the lines for a terminal; `places` says where each layer of an imported network comes from."""
    table = [HEAD, *list_rows(workload)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEAD))]
    sources = [SOURCE, *((places or {}).get(row[0], "") for row in table[1:])] if places else [""] * len(table)
    shape = " x ".join(map(str, workload.input_shape))
    differs = [f"differs from it: {workload.differs}"] if workload.differs else []
    lines = [f"{workload.name}: {workload.summary}".rstrip(": "), *differs, f"input {shape}, loss {workload.loss}", ""]
    for row, source in zip(table, sources, strict=True):
        texts = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        lines.append("  ".join([*texts, *numbers, source]).rstrip())
    kept = activation_bytes(workload, 1)
    return "\n".join([*lines, "", f"kept from forward to backward: {kept:,} bytes an image (float32)"])


def trace_code(options: argparse.Namespace, out: Path, weights: Path | None) -> int:
    """Have the runner import a model in code, which its framework's interpreter traces; return its exit code."""
    words = ["--out", str(out), *(["--weights", str(weights)] if weights else [])]
    given = {"--from": options.framework, "--classes": options.classes, "--python": options.python}
    words += [word for name, value in given.items() if value is not None for word in (name, str(value))]
    if options.input_shape:
        words += ["--input-shape", *map(str, options.input_shape)]
    command = [sys.executable, "-m", "runner.import_model", options.network, *words]
    return subprocess.run(command, stdout=None if options.command == "import" else subprocess.DEVNULL).returncode


def describe_code(options: argparse.Namespace) -> int:
    """Print a model in code layer by layer, and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="batchwise-describe-") as folder:
        out = Path(folder, "network.json")
        if code := trace_code(options, out, None):
            return code
        imported = find_imported(str(out))
        print(describe(imported.workload, imported.places))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = CommandLine(prog="python -m workloads")
    commands = parser.add_subparsers(required=True, metavar="describe|import", dest="command")
    command = commands.add_parser("describe", help="print a network layer by layer; trains nothing")
    sources = "a file that defines one Workload, a .keras file, the JSON of a Keras model, or FILE.py:FUNCTION"
    command.add_argument("network", metavar="NAME|FILE", help=f"of the catalogue, or {sources}")
    command = commands.add_parser("import", help="write a network as JSON that --workload takes; runs no code of it")
    command.add_argument("network", metavar="SOURCE", help=sources)
    command.add_argument("--out", type=Path, required=True, metavar="FILE", help="the network: my_net.json")
    command.add_argument(
        "--weights", type=Path, metavar="FILE", help="the source's weights, if it has some; else next to --out, as .npz"
    )
    for command in commands.choices.values():
        _add_code_options(command)
    return parser.parse_args(arguments)  # type: ignore[no-any-return]


def _add_code_options(command: argparse.ArgumentParser) -> None:
    """Add the options of a model in code, FILE.py:FUNCTION."""
    group = command.add_argument_group("a model in code, FILE.py:FUNCTION")
    group.add_argument("--from", dest="framework", metavar="FRAMEWORK", help="whose code it is: pytorch")
    group.add_argument(
        "--input-shape", nargs=3, type=int, metavar=("ROWS", "COLUMNS", "CHANNELS"), help="of the images that it takes"
    )
    group.add_argument("--classes", type=int, metavar="N", help="what the function is called with (default: 10)")
    group.add_argument("--python", metavar="FRAMEWORK=PATH", help="an interpreter that has the framework")


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for a network that is not available."""
    options = _parse(arguments)
    try:
        if CODE.fullmatch(options.network):
            wanted = options.command == "import"
            return trace_code(options, options.out, options.weights) if wanted else describe_code(options)
        if options.command == "import":
            print(keep_imported(find_imported(options.network), options.network, options.out, options.weights))
        else:
            imported = find_imported(options.network)
            print(describe(imported.workload, imported.places))
    except (NetworkError, ImportRefused) as error:
        print(f"workloads: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
