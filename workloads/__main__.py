"""`python -m workloads describe NAME|FILE`: a network, layer by layer. `import SOURCE`: keep it as a file."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from .activations import FLOAT32_BYTES, activation_bytes
from .command_line import CommandLine
from .networks import NetworkError, find_imported
from .source.files import JSON, write
from .spec import Workload
from .weights import save
from .words import format_count

HEAD = ("layer", "kind", "output shape", "parameters", "multiply-adds", "output bytes")
NPZ = ".npz"
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


def import_source(source: str, out: Path, weights: Path | None) -> str:
    """Write the network of a source, and its weights as .npz; return a line that says what. Raises NetworkError."""
    imported = find_imported(source)
    if out.suffix != JSON:
        raise NetworkError(f"--out {out}: must end in {JSON}")
    if weights is not None and weights.suffix != NPZ:
        raise NetworkError(f"--weights {weights}: must end in {NPZ}")
    if weights is not None and imported.weights is None:
        raise NetworkError(f"--weights {weights}: {source} has no weights")
    if weights is None and imported.weights is not None:
        weights = out.with_suffix(NPZ)
    try:
        if weights is not None and imported.weights is not None:
            save(weights, imported.weights)
        write(imported, out, Path(source).name, weights)
    except OSError as error:
        raise NetworkError(f"{error.filename}: {error.strerror}") from error
    workload = imported.workload
    count = format_count(sum(1 for _ in workload.walk()), "layer")
    kept = f", and their values to {weights}" if weights is not None else "; the source has no weights"
    return f"{workload.name}: {count} with {workload.parameter_count:,} parameters written to {out}{kept}"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = CommandLine(prog="python -m workloads")
    commands = parser.add_subparsers(required=True, metavar="describe|import", dest="command")
    command = commands.add_parser("describe", help="print a network layer by layer; trains nothing")
    sources = "a file that defines one Workload, a .keras file, or the JSON of a Keras model"
    command.add_argument("network", metavar="NAME|FILE", help=f"of the catalogue, or {sources}")
    command = commands.add_parser("import", help="write a network as JSON that --workload takes; runs no code of it")
    command.add_argument("network", metavar="SOURCE", help=sources)
    command.add_argument("--out", type=Path, required=True, metavar="FILE", help="the network: my_net.json")
    command.add_argument(
        "--weights", type=Path, metavar="FILE", help="the source's weights, if it has some; else next to --out, as .npz"
    )
    return parser.parse_args(arguments)  # type: ignore[no-any-return]


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for a network that is not available."""
    options = _parse(arguments)
    try:
        if options.command == "import":
            print(import_source(options.network, options.out, options.weights))
        else:
            imported = find_imported(options.network)
            print(describe(imported.workload, imported.places))
    except NetworkError as error:
        print(f"workloads: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
