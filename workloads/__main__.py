"""`python -m workloads describe NAME|FILE [--memory]`: a network, layer by layer."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path

from .activations import FLOAT32_BYTES, activation_bytes
from .command_line import CommandLine
from .memory_table import USUAL_OPTIMIZER, USUAL_SIZES, NothingCounted, align, describe_memory
from .networks import NetworkError, find
from .spec import OPTIMIZER_NAMES, Workload

HEAD = ("layer", "kind", "output shape", "parameters", "multiply-adds", "output bytes")


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


def describe(workload: Workload) -> str:
    """Return the lines for a terminal."""
    shape = " x ".join(map(str, workload.input_shape))
    differs = [f"differs from it: {workload.differs}"] if workload.differs else []
    lines = [f"{workload.name}: {workload.summary}".rstrip(": "), *differs, f"input {shape}, loss {workload.loss}", ""]
    lines += align([HEAD, *list_rows(workload)], texts=3)
    kept = activation_bytes(workload, 1)
    return "\n".join([*lines, "", f"kept from forward to backward: {kept:,} bytes an image (float32)"])


class _BadOption(Exception):
    """An option that does not fit; the message is one line."""


def _describe(options: argparse.Namespace) -> str:
    """Return what is asked for. Raises NetworkError, NothingCounted, _BadOption."""
    asked = {"--batch-size": options.batch_sizes, "--optimizer": options.optimizer, "--results": options.results}
    if not options.memory:
        if given := next((option for option, value in asked.items() if value), None):
            raise _BadOption(f"{given} is for --memory: add it, or leave {given} out")
        return describe(find(options.network))
    if options.batch_sizes and (least := min(options.batch_sizes)) < 1:
        raise _BadOption(f"--batch-size {least}: must be 1 or more")
    return describe_memory(find(options.network), options.batch_sizes, options.optimizer, options.results)


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for a network that is not available."""
    parser = CommandLine(prog="python -m workloads")
    commands = parser.add_subparsers(required=True, metavar="describe")
    command = commands.add_parser("describe", help="print a network layer by layer; trains nothing")
    command.add_argument("network", metavar="NAME|FILE", help="of the catalogue, or a file that defines one Workload")
    command.add_argument("--memory", action="store_true", help="what each layer holds while it trains, in bytes")
    command.add_argument("--batch-size", dest="batch_sizes", type=int, nargs="+", default=[], metavar="N",
                         help="with --memory: batch sizes (default: those of --results, else "
                         f"{' '.join(map(str, USUAL_SIZES))})")  # fmt: skip
    command.add_argument("--optimizer", choices=OPTIMIZER_NAMES, metavar="NAME",
                         help="with --memory: the update rule, whose state is counted (default: that of --results, "
                         f"else {USUAL_OPTIMIZER})")  # fmt: skip
    command.add_argument("--results", type=Path, metavar="DIR",
                         help="with --memory: what each framework counted in this folder, too")  # fmt: skip
    options = parser.parse_args(arguments)
    try:
        print(_describe(options))
    except (NetworkError, NothingCounted, _BadOption) as error:
        print(f"workloads: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
