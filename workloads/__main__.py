"""`python -m workloads describe NAME|FILE`: a network, layer by layer. `import SOURCE`: keep it as a file."""

from __future__ import annotations

from . import program

if __name__ == "__main__":
    program.interrupt_at_once()
    program.report_missing_packages()

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from .activations import FLOAT32_BYTES, activation_bytes
from .command_line import CommandLine
from .memory_table import USUAL_OPTIMIZER, USUAL_SIZES, NothingCounted, align, describe_memory
from .networks import NetworkError, find_imported
from .source.files import CODE, keep_imported
from .source.imported import Imported
from .source.vocabulary import ImportRefused
from .spec import OPTIMIZER_NAMES, Workload

HEAD = ("layer", "kind", "output shape", "parameters", "multiply-adds", "output bytes")
SOURCE = "source"  # head of the column with the source's names
EXIT_FAILED, EXIT_BAD_INPUT = 1, 2


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
    shape = " x ".join(map(str, workload.input_shape))
    differs = [f"differs from it: {workload.differs}"] if workload.differs else []
    pixels = f"input {shape} in 0..{255 * workload.scale:g}"
    lines = [f"{workload.name}: {workload.summary}".rstrip(": "), *differs, f"{pixels}, loss {workload.loss}", ""]
    table = [HEAD, *list_rows(workload)]
    sources = [SOURCE, *((places or {}).get(row[0], "") for row in table[1:])] if places else [""] * len(table)
    lines += [f"{line}  {source}".rstrip() for line, source in zip(align(table, texts=3), sources, strict=True)]
    kept = activation_bytes(workload, 1)
    return "\n".join([*lines, "", f"kept from forward to backward: {kept:,} bytes per image (float32)"])


class _BadOption(Exception):
    """An option that does not fit; the message is one line."""


def _describe(options: argparse.Namespace, imported: Imported) -> str:
    """Return what is asked for of this network. Raises NothingCounted, _BadOption."""
    asked = {"--batch-size": options.batch_sizes, "--optimizer": options.optimizer, "--results": options.results}
    if not options.memory:
        if given := next((option for option, value in asked.items() if value), None):
            raise _BadOption(f"{given} needs --memory: add it, or leave {given} out")
        return describe(imported.workload, imported.places)
    if options.batch_sizes and (least := min(options.batch_sizes)) < 1:
        raise _BadOption(f"--batch-size {least}: must be 1 or more")
    return describe_memory(imported.workload, options.batch_sizes, options.optimizer, options.results)


def _refuse_code_options(options: argparse.Namespace) -> None:
    """Raise _BadOption for an option of a model in code: the network named is no code."""
    asked = {"--from": options.framework, "--input-shape": options.input_shape, "--classes": options.classes}
    for option, value in (asked | {"--python": options.python}).items():
        if value is not None:
            raise _BadOption(f"{option}: is for a model in code, FILE.py:FUNCTION; leave it out")


def trace_code(options: argparse.Namespace, out: Path, weights: Path | None) -> int:
    """Have the runner import a model in code, which its framework's interpreter traces; return its exit code."""
    words = ["--out", str(out), *(["--weights", str(weights)] if weights else [])]
    given = {"--from": options.framework, "--classes": options.classes, "--python": options.python}
    words += [word for name, value in given.items() if value is not None for word in (name, str(value))]
    if options.input_shape:
        words += ["--input-shape", *map(str, options.input_shape)]
    command = [sys.executable, "-P", "-m", "runner.import_model", options.network, *words]
    shown = None if options.command == "import" else subprocess.DEVNULL
    return subprocess.run(command, env=program.build_environment(os.environ), stdout=shown).returncode


def describe_code(options: argparse.Namespace) -> int:
    """Print a model in code layer by layer, and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="batchwise-describe-") as folder:
        out = Path(folder, "network.json")
        if code := trace_code(options, out, None):
            return code
        print(_describe(options, find_imported(str(out))))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = CommandLine(prog="python -m workloads")
    commands = parser.add_subparsers(required=True, metavar="describe|import", dest="command")
    command = commands.add_parser("describe", help="print a network layer by layer; trains nothing")
    sources = "a file that defines one Workload, a .keras or .onnx file, the JSON of a Keras model, or FILE.py:FUNCTION"
    command.add_argument("network", metavar="NAME|FILE", help=f"a network of the catalogue, or {sources}")
    command.add_argument("--memory", action="store_true", help="bytes that each layer holds in training")
    command.add_argument("--batch-size", dest="batch_sizes", type=int, nargs="+", default=[], metavar="N",
                         help="with --memory: batch sizes (default: those of --results, else "
                         f"{' '.join(map(str, USUAL_SIZES))})")  # fmt: skip
    command.add_argument("--optimizer", choices=OPTIMIZER_NAMES, metavar="NAME",
                         help="with --memory: the update rule whose state is counted (default: the one of --results, "
                         f"else {USUAL_OPTIMIZER})")  # fmt: skip
    command.add_argument("--results", type=Path, metavar="DIR",
                         help="with --memory: also show what each framework counted in this folder")  # fmt: skip
    command = commands.add_parser("import", help="write a network as JSON that --workload takes")
    command.add_argument("network", metavar="SOURCE", help=sources)
    command.add_argument("--out", type=Path, required=True, metavar="FILE", help="the network's file, e.g. net.json")
    command.add_argument(
        "--weights", type=Path, metavar="FILE", help="the source's weights, if it has any (default: .npz next to --out)"
    )
    for command in commands.choices.values():
        _add_code_options(command)
    return parser.parse_args(arguments)  # type: ignore[no-any-return]


def _add_code_options(command: argparse.ArgumentParser) -> None:
    """Add the options of a model in code, FILE.py:FUNCTION."""
    group = command.add_argument_group("a model in code, FILE.py:FUNCTION")
    group.add_argument("--from", dest="framework", metavar="FRAMEWORK", help="framework of the code: pytorch")
    group.add_argument(
        "--input-shape", nargs=3, type=int, metavar=("ROWS", "COLUMNS", "CHANNELS"), help="size of its images"
    )
    group.add_argument("--classes", type=int, metavar="N", help="classes, passed to the function (default: 10)")
    group.add_argument("--python", metavar="FRAMEWORK=PATH", help="an interpreter that has the framework")


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for a network that is not available, 1 after an error of the system, 130 after Ctrl-C."""
    program.outlast_readers()
    program.interrupt_in_order()
    options = _parse(arguments)
    try:
        if CODE.fullmatch(options.network):
            wanted = options.command == "import"
            return trace_code(options, options.out, options.weights) if wanted else describe_code(options)
        _refuse_code_options(options)
        if options.command == "import":
            print(keep_imported(find_imported(options.network), options.network, options.out, options.weights))
        else:
            print(_describe(options, find_imported(options.network)))
    except (NetworkError, ImportRefused, NothingCounted, _BadOption) as error:
        print(f"workloads: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except OSError as error:
        print(f"workloads: {error.filename or 'system'}: {error.strerror or error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("\nworkloads: interrupted", file=sys.stderr)
        return program.EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
