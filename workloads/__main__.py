"""`python -m workloads describe NAME|FILE`: a network, layer by layer."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from .activations import FLOAT32_BYTES, activation_bytes
from .command_line import CommandLine
from .networks import NetworkError, find
from .spec import Workload

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
    table = [HEAD, *list_rows(workload)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEAD))]
    shape = " x ".join(map(str, workload.input_shape))
    differs = [f"differs from it: {workload.differs}"] if workload.differs else []
    lines = [f"{workload.name}: {workload.summary}".rstrip(": "), *differs, f"input {shape}, loss {workload.loss}", ""]
    for row in table:
        texts = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        lines.append("  ".join([*texts, *numbers]).rstrip())
    kept = activation_bytes(workload, 1)
    return "\n".join([*lines, "", f"kept from forward to backward: {kept:,} bytes an image (float32)"])


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for a network that is not available."""
    parser = CommandLine(prog="python -m workloads")
    commands = parser.add_subparsers(required=True, metavar="describe")
    command = commands.add_parser("describe", help="print a network layer by layer; trains nothing")
    command.add_argument("network", metavar="NAME|FILE", help="of the catalogue, or a file that defines one Workload")
    options = parser.parse_args(arguments)
    try:
        print(describe(find(options.network)))
    except NetworkError as error:
        print(f"workloads: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
