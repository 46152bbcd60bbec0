"""`python -m workloads describe --memory`: the bytes that each layer holds in training, next to what was counted.

Everything is float32. The formula's columns follow from the layer records alone. What a framework counted is read from
a results folder, where a memory worker or a trial's adapter left it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .activations import FLOAT32_BYTES, activation_bytes_by_layer
from .records import network, stored
from .records.build import FLOAT32
from .records.figures import MEMORY_PARTS
from .records.files import RESULT_FILE
from .records.job import ROOMS, Kind
from .records.result import TrialResult
from .spec import SLOTS, OptimizerName, Workload

USUAL_SIZES = (32, 128)  # if no other is asked for or found, and the same for the rule
USUAL_OPTIMIZER: OptimizerName = "momentum"
PARTS = ("parameters", "gradients", "optimizer", "statistics", "activations")
FORMULA, UNKNOWN, IMAGES = "formula", "-", "images"
MIB = 2**20


class NothingCounted(Exception):
    """The results folder has no count of this network; the message is one line."""


@dataclass(frozen=True)
class LayerMemory:
    """Bytes of one layer, in a training by one rule; `activations` are by batch size."""

    name: str
    parameters: int
    gradients: int
    optimizer: int
    statistics: int  # running ones
    activations: tuple[int, ...]

    @property
    def values(self) -> tuple[int, ...]:
        """The bytes in the order of the columns."""
        return self.parameters, self.gradients, self.optimizer, self.statistics, *self.activations


def list_layers(workload: Workload, optimizer: OptimizerName, batch_sizes: Sequence[int]) -> Iterator[LayerMemory]:
    """Yield the images, then each layer in the order of computation, then the sums."""
    kept = [activation_bytes_by_layer(workload, size) for size in batch_sizes]
    rows = [LayerMemory(IMAGES, 0, 0, 0, 0, tuple(each.get("", 0) for each in kept))]
    for layer, shape in workload.walk():
        trained = FLOAT32_BYTES * sum(map(math.prod, layer.parameter_shapes(shape).values()))
        statistics = FLOAT32_BYTES * sum(map(math.prod, layer.statistic_shapes(shape).values()))
        activations = tuple(each.get(layer.name, 0) for each in kept)
        rows.append(LayerMemory(layer.name, trained, trained, SLOTS[optimizer] * trained, statistics, activations))
    yield from rows
    columns = zip(*(row.values for row in rows), strict=True)
    parameters, gradients, state, statistics, *together = map(sum, columns)
    yield LayerMemory("all", parameters, gradients, state, statistics, tuple(together))


def describe_memory(
    workload: Workload, batch_sizes: Sequence[int], optimizer: OptimizerName | None, results: Path | None = None
) -> str:
    """Return the lines for a terminal. Raises NothingCounted."""
    counted = read_counted(results, workload, optimizer) if results else []
    sizes = tuple(batch_sizes) or tuple(sorted({each.spec.cell.batch_size for each in counted})) or USUAL_SIZES
    rule: OptimizerName = optimizer or (counted[0].spec.task.optimizer.name if counted else USUAL_OPTIMIZER)
    layers = list(list_layers(workload, rule, sizes))
    head = ("layer", "parameters", "gradients", f"{rule} state", "statistics", *(f"kept at {size}" for size in sizes))
    table = [head, *((row.name, *(f"{value:,}" for value in row.values)) for row in layers)]
    lines = [f"{workload.name}: bytes in training, float32", "", *align(table), ""]
    for size, kept in zip(sizes, layers[-1].activations, strict=True):
        fixed = sum(layers[-1].values[:4])
        lines.append(f"batch size {size}: {(fixed + kept) / MIB:,.2f} MiB, of which {kept / MIB:,.2f} MiB are kept")
    lines.append("A step's peak is higher by its workspace, which no formula gives.")
    if results:
        lines += ["", *_compare(layers[-1], sizes, counted)]
    return "\n".join(lines)


def read_counted(results: Path, workload: Workload, optimizer: OptimizerName | None) -> list[TrialResult]:
    """Return the trials of this network whose memory the formula describes. Raises NothingCounted.

    They are in float32, on one device, of whole updates, and by this rule, or by the only one that there is.
    """
    paths = sorted((results / ROOMS[Kind.TRIAL]).glob(f"*/{RESULT_FILE}"))
    if not paths:
        raise NothingCounted(f"--results {results}: no trial in it; give the results folder of a run")
    found = [result for path in paths if (result := _read(path)) and _is_described(result, workload)]
    names = sorted({result.spec.task.optimizer.name for result in found})
    if optimizer is not None and optimizer in names:
        names = [optimizer]
        found = [result for result in found if result.spec.task.optimizer.name == optimizer]
    elif found and (optimizer is not None or len(names) > 1):
        raise NothingCounted(f"--results {results}: {workload.name} is trained by {', '.join(names)}: give --optimizer")
    if not found:
        raise NothingCounted(f"--results {results}: no trial of {workload.name} in float32 on one device in it")
    return found


def _read(path: Path) -> TrialResult | None:
    try:
        return stored.read_result(path)
    except ValueError:  # the report names it
        return None


def _is_described(result: TrialResult, workload: Workload) -> bool:
    spec = result.spec
    usual = spec.task.precision == FLOAT32 and spec.task.accumulate == spec.placement.devices == 1
    return usual and spec.task.network == network.digest(workload)


def _compare(formula: LayerMemory, sizes: Sequence[int], counted: Sequence[TrialResult]) -> Iterator[str]:
    """Yield a table for each batch size: the formula, then each framework; below it, why a count is unknown."""
    for size, kept in zip(sizes, formula.activations, strict=True):
        of_size = {each.spec.cell.framework: each for each in reversed(counted) if each.spec.cell.batch_size == size}
        known = (formula.parameters, formula.gradients, formula.optimizer, formula.statistics, kept)
        table = [(f"batch size {size}", *PARTS), (FORMULA, *(f"{value:,}" for value in known))]
        reasons: dict[str, None] = {}
        for framework, result in sorted(of_size.items()):
            figures = [result.figures.get(MEMORY_PARTS[part].name) for part in PARTS]
            values = [UNKNOWN if each is None or each.value is None else f"{each.value:,.0f}" for each in figures]
            table.append((framework, *values))
            reasons |= dict.fromkeys(
                f"{framework}: {each.reason}" for each in figures if each is not None and each.value is None
            )
        yield from align(table)
        yield from [] if of_size else ["no trial of this batch size"]
        yield from [*reasons, ""]


def align(rows: Sequence[Sequence[str]], texts: int = 1) -> Iterator[str]:
    """Yield each row as a line: the first `texts` columns begin, and the others end, below each other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:texts], widths[:texts], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[texts:], widths[texts:], strict=True)]
        yield "  ".join([*left, *right]).rstrip()
