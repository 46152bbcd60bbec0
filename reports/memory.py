"""Build the memory tables: four kinds of memory, what it holds, and the line it follows as the batch grows.

Rows are a framework, a batch size and, for the four kinds, an allocator policy; cells are those of `tables`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from workloads.records.figures import Figure, FigureSpec
from workloads.records.memory_line import Line, fit_line
from workloads.records.result import TrialResult

from . import condition_text, tables
from .conditions import Section
from .frameworks import order_frameworks
from .quantities import (
    ALLOCATOR_PEAK,
    CONTEXT,
    EXACT_ACTIVATIONS,
    MEMORY_KINDS,
    MEMORY_PARTS,
    NOT_ALWAYS_THERE,
    POOL_INDICES,
    PROCESS_PEAK,
    QUEUED_STEPS,
    STEPS_PEAK,
    WAITED_STEP_PEAK,
    Quantity,
)
from .table import (
    Columns,
    Record,
    Table,
    TableCell,
    Theme,
    build_rows,
    count_of,
    make_framework_column,
    make_text_column,
    number_cell,
)
from .tables import CellSummary

KINDS, PARTS = "memory-kinds", "memory-parts"  # names of tables
TOLERATED_PERCENT = 5.0
FEWEST_SIZES = 3  # any line fits two points
# Computed here, from the figures of one trial.
SUM = Quantity("sum", (FigureSpec("parts_sum_bytes", "Sum", "MiB", 2.0**-20),))
GAP = Quantity("sum_against_peak", (FigureSpec("parts_gap_percent", "Sum against the peak, %", "%", decimals=1),))
WORKSPACE = "workspace"  # the part that may be missing from a sum
_BEHIND_ACTIVATIONS = [part.name for part in MEMORY_PARTS].index("activations") + 1
PARTS_COLUMNS = (
    *MEMORY_PARTS[:_BEHIND_ACTIVATIONS], EXACT_ACTIVATIONS, POOL_INDICES, *MEMORY_PARTS[_BEHIND_ACTIVATIONS:],
    SUM, STEPS_PEAK, GAP, CONTEXT,
)  # fmt: skip
KINDS_HOW = """\
Kinds of memory in MiB. "on-demand": memory is taken as it is needed; "default": as the framework takes it by default; \
the framework's name for its policy is in brackets. A pool reserves memory by its policy, not by the network's need."""
PARTS_HOW = f"""\
MiB in training steps of a separate worker. The sum of the parts is compared with the allocator's peak of these steps; \
the peak of the trial is in "Memory in four kinds". A sum that differs by more than {TOLERATED_PERCENT:g} % is \
marked: parts that are never allocated at the same time make it larger, steps that overlap make it smaller. If the \
workspace is unknown, the sum is that of the other parts, and is marked too. \
The context (on a CPU: the resident memory after importing the framework) lies outside the allocator and in no sum."""
EXACT_HOW = """ \
The exact count of the activations is what the network's mathematics keeps between forward and backward. It is counted \
from the layers and is the same for every framework. A framework keeps more: the indices of the maxima of its pooling \
layers, which have a column, and smaller things. Both are in no sum because the activations include them."""
LINE_HOW = """\
Least squares through the means: memory = fixed + per sample x batch size. Error: each size is left out in turn and \
predicted by the line through the others; the largest error is shown. It needs four sizes."""
NO_LINE = f"No line of memory against batch size: it needs {FEWEST_SIZES} batch sizes with a value."


@dataclass(frozen=True)
class MemoryRow:
    """A row of a table: its framework, batch size and policy, and {quantity's name: its cell}."""

    framework: str
    batch_size: int
    cells: dict[str, CellSummary]
    policy: str = ""

    def parts(self) -> list[CellSummary]:
        """List the cells of MEMORY_PARTS."""
        return [self.cells[part.name] for part in MEMORY_PARTS]


def build_tables(section: Section) -> list[Table | str]:
    """Build the tables; a line with the reason replaces a missing one."""
    kinds = build_kinds_rows(section)
    made: list[Table | str] = [_table(KINDS, "Memory in four kinds", kinds, MEMORY_KINDS, section, KINDS_HOW)]
    if section.results:
        parts, lines = build_parts_rows(section), fit_lines(section)
        if any(cell.n for row in parts for cell in row.parts()):
            columns = [quantity for quantity in PARTS_COLUMNS if _is_there(quantity, parts)]
            how = PARTS_HOW + (EXACT_HOW if EXACT_ACTIVATIONS in columns else "")
            made.append(_table(PARTS, "What the memory holds", parts, columns, section, how))
        else:
            made.append(_no_parts(parts))
        made.append(_line_table(lines, section) if lines else NO_LINE)
    return made


def build_kinds_rows(section: Section) -> list[MemoryRow]:
    """Build the rows of the four kinds, trials of the default policy directly below those on demand."""
    rows = []
    for of_policy in (section, section.default):
        for row in _rows(of_policy, MEMORY_KINDS):
            trials = tables.group_by_place(of_policy)[row.framework, row.batch_size]
            policies = condition_text.join_distinct(result.facts.get("allocator_policy") for result in trials)
            allocator = trials[0].spec.cell.allocator
            rows.append(replace(row, policy=f"{allocator} ({policies})" if policies else allocator))
    names = order_frameworks(row.framework for row in rows)
    return sorted(rows, key=lambda row: (names.index(row.framework), row.batch_size))


def build_parts_rows(section: Section) -> list[MemoryRow]:
    """Build the rows of PARTS_COLUMNS, for each framework and batch size.

    A sum far from the steps' peak, or without the workspace, has a note.
    """
    rows = _rows(section, PARTS_COLUMNS)
    for row in rows:
        total, gap = row.cells[SUM.name], row.cells[GAP.name]
        worst = max(gap.min, gap.max, key=abs)
        error = f"{abs(worst):.1f} % {'less' if worst < 0 else 'more'} than the peak of the steps"
        noted: tuple[Quantity, ...] = ()
        note = ""
        if total.n > row.cells[WORKSPACE].n:
            noted = SUM, GAP
            note = "without the workspace" + (f": the other parts are {error}" if gap.n else "")
        elif gap.n and abs(worst) > TOLERATED_PERCENT:
            noted = (GAP,)
            note = f"does not add up: the parts are {error}{_together(section, row) if worst < 0 else ''}"
        for quantity in noted:
            cell = row.cells[quantity.name]
            row.cells[quantity.name] = replace(cell, notes=(*cell.notes, note))
    return rows


def _together(section: Section, row: MemoryRow) -> str:
    """Say how much of a row's gap comes from steps called together, as the end of a sentence; empty if unknown."""
    place = row.framework, row.batch_size
    waited, queued = (tables.compute_cells(section, peak)[place].mean for peak in (WAITED_STEP_PEAK, QUEUED_STEPS))
    if not math.isnan(queued):
        a_step = sum(row.cells[part].mean for part in ("activations", "inputs"))
        steps = "step's" if queued < 1.5 * a_step else f"{queued / a_step:.0f} steps'"
        return f"; {queued:.1f} MiB of the difference: the next queued {steps} activations and inputs"
    more = row.cells[STEPS_PEAK.name].mean - waited
    return f"; steps called together hold {more:.1f} MiB more than one that is waited for" if more > 0 else ""


def _summed(result: TrialResult, name: str) -> Figure:
    """Compute the figure of SUM or GAP by name; null with a reason if a part other than the workspace is unknown."""
    parts = {part.name: tables.find_figure(result, part.figures[0].name).value for part in MEMORY_PARTS}
    silent = [part for part, size in parts.items() if size is None]
    if silent and silent != [WORKSPACE]:
        return Figure(None, "", reason=f"needs {' and '.join(silent)}")
    total = sum(size for size in parts.values() if size is not None)
    source = "all parts but the workspace" if silent else ""
    if name == SUM.figures[0].name:
        return Figure(total, source)
    peak = tables.find_figure(result, STEPS_PEAK.figures[0].name).value
    if not peak:
        return Figure(None, "", reason=f"the peak of the steps is {'0' if peak == 0 else 'unknown'}")
    return Figure(100 * (total / peak - 1), source)


def _is_there(quantity: Quantity, rows: Sequence[MemoryRow]) -> bool:
    """True if a column is shown; some exist only for certain workloads and feeds, or for newer results."""
    most = [row.cells[quantity.name].max for row in rows]
    if quantity in (EXACT_ACTIVATIONS, POOL_INDICES):
        return any(value > 0 for value in most)
    return quantity.name not in NOT_ALWAYS_THERE or any(value != 0 for value in most)


def _rows(section: Section, columns: Sequence[Quantity]) -> list[MemoryRow]:
    """Build one row for each framework and batch size that was tried."""
    rows = []
    for place in tables.compute_cells(section, columns[0]):
        if trials := tables.group_by_place(section).get(place):
            cells = {
                quantity.name: tables.summarise_cell(trials, quantity.figures[0], _summed)
                if quantity in (SUM, GAP)
                else tables.compute_cells(section, quantity)[place]
                for quantity in columns
            }
            rows.append(MemoryRow(*place, cells))
    return rows


def _table(
    name: str, title: str, rows: list[MemoryRow], columns: Sequence[Quantity], section: Section, how: str
) -> Table:
    """Build a table; the policy has a column if the rows name it."""
    counts = [row.cells[quantity.name].n for row in rows for quantity in columns]
    most = max(counts)
    policies = any(row.policy for row in rows)
    labels = [spec.label for quantity in columns if (spec := quantity.figure(section.condition))]
    read = tables.explain_cells(counts)
    read += " An interval that rounds to the mean is left out." if most > 1 else ""
    return Table(
        name,
        title,
        ("Framework", "Batch size", *(["Allocator's policy"] if policies else []), *labels),
        tuple(
            (
                TableCell(section.named(row.framework)),
                TableCell(str(row.batch_size), row.batch_size),
                *([TableCell(row.policy)] if policies else []),
                *(tables.format_cell(row.cells[quantity.name], quantity.decimals, most, True) for quantity in columns),
            )
            for row in rows
        ),
        _tidy(rows, columns),
        below=(how, read),
        theme=Theme.MEMORY,
        keys=3 if policies else 2,
    )


def _no_parts(rows: list[MemoryRow]) -> str:
    reasons = dict.fromkeys(note for row in rows for cell in row.parts() for note in cell.notes)
    statuses = dict.fromkeys(cell.status for row in rows for cell in row.cells.values())
    ended = dict.fromkeys(tables.describe_status(status) for status in statuses if status not in ("ok", tables.UNKNOWN))
    return f"Memory is not split: {'; '.join([*reasons, *ended])}."


def _tidy(rows: list[MemoryRow], columns: Sequence[Quantity]) -> pd.DataFrame:
    """Build a data frame with one row per cell; rows that name a policy have it as allocator."""
    policies = any(row.policy for row in rows)
    return tables.tidy(
        (
            {"framework": row.framework, "batch_size": row.batch_size}
            | ({"allocator": row.policy} if policies else {})
            | {"kind": quantity.name},
            row.cells[quantity.name],
        )
        for row in rows
        for quantity in columns
    )


def fit_lines(section: Section) -> dict[tuple[str, str], Line]:
    """Fit {(framework, label of the memory): its line}, where FEWEST_SIZES or more have a value."""
    lines = {}
    for quantity in (ALLOCATOR_PEAK, PROCESS_PEAK):
        peaks: dict[str, dict[int, float]] = {}
        spec = quantity.figure(section.condition)
        if spec is None:
            continue
        for (framework, size), cell in tables.compute_cells(section, quantity).items():
            if cell.mean > 0:
                peaks.setdefault(framework, {})[size] = cell.mean / spec.factor
        for framework, of_size in peaks.items():
            line = fit_line(of_size)
            if line is not None and line.n >= FEWEST_SIZES:
                lines[framework, spec.label] = line
    return lines


def _line_table(lines: dict[tuple[str, str], Line], section: Section) -> Table:
    records = [{"framework": name, "memory": label, **vars(line)} for (name, label), line in lines.items()]
    shown: Columns = {
        "Framework": make_framework_column(section.named),
        "Memory": make_text_column("memory"),
        "Fixed, MiB": lambda row: _three_digits(row["fixed_bytes"] / 2**20),
        "Per sample, KiB": lambda row: _three_digits(row["per_sample_bytes"] / 2**10),
        "R^2": lambda row: number_cell(row["r_squared"], "{:.4f}"),
        "Error at a size left out": _left_out,
        "Sizes": count_of("n"),
    }
    title, rows = "Memory as a line of the batch size", build_rows(records, shown)
    return Table("memory-line", title, *rows, below=(LINE_HOW,), theme=Theme.MEMORY, keys=2)


def _left_out(row: Record) -> TableCell:
    error = row["left_out_error"]
    return TableCell("needs 4 sizes") if error is None else TableCell(f"{100 * error:.1f} %", error)


def _three_digits(value: float) -> TableCell:
    return TableCell(f"{value:z.{tables.count_decimals(value)}f}", value)
