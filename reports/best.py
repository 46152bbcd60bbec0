"""Show the best batch size of each framework: where it is fastest, with speed and memory, and where most accurate."""

from __future__ import annotations

import math
from dataclasses import replace

from . import order, tables
from .condition_text import ABSENT
from .conditions import Section
from .frameworks import order_frameworks
from .order import BestWithTies, Point
from .quantities import ACCURACY, MEMORY, SPEED, Quantity
from .sentences import span_list
from .table import Table, TableCell, Theme, make_frame

NAME = "best"
TITLE, TITLE_OF_ONE = "Best batch size of each framework", "Each framework at batch size {}"
SHOWN = (SPEED, MEMORY, ACCURACY)
TIDY = ("framework", "fastest_batch_size", "fastest_tied", "images_per_s", "memory_mib", "test_accuracy_percent",
        "most_accurate_batch_size", "most_accurate_tied", "highest_test_accuracy_percent")  # fmt: skip
NO_BEST = "no batch size is the fastest, or the most accurate: none has such a value"
TIED = 'After "or": batch sizes not significantly different from the first.'


def build_table(section: Section) -> Table | None:
    """Build a table with a row per framework; None if no trial gave a speed."""
    speeds, accuracies = (_by_framework(section, quantity) for quantity in (SPEED, ACCURACY))
    if not speeds:
        return None
    tried = tables.group_by_place(section)
    every = sorted({size for _, size in tried})
    counts = [cell.n for quantity in SHOWN for cell in tables.compute_cells(section, quantity).values()]
    rows, tidy, tied = [], [], []
    for name in order_frameworks(framework for framework, _ in tried):
        fastest, accurate = (
            order.find_best(points) if points else None for points in (speeds.get(name), accuracies.get(name))
        )
        there = [_cell(section, quantity, name, fastest, max(counts)) for quantity in SHOWN]
        highest = _cell(section, ACCURACY, name, accurate, max(counts))
        shown = [*there[:-1], *(_with_size(cell, best) for cell, best in ((there[-1], fastest), (highest, accurate)))]
        tied += [best.tied for best in (fastest, accurate) if best and best.tied]
        row = (TableCell(section.named(name)), _place(fastest, every), *shown[:-1], _place(accurate, every), shown[-1])
        rows.append(row if len(every) > 1 else (row[0], *there))
        ends = [end for best in (fastest, accurate) for end in _tidy(best)]
        numbers = [math.nan if cell.number is None else cell.number for cell in (*there, highest)]
        tidy.append((name, *ends[:2], *numbers[:3], *ends[2:], numbers[3]))
    head = ["Framework", "Fastest at", *(_label(section, quantity) for quantity in SHOWN)]
    head += ["Most accurate at", f"Highest {_label(section, ACCURACY).lower()}"]
    if len(every) == 1:
        head = [head[0], *head[2 : 2 + len(SHOWN)]]
    return Table(
        NAME,
        TITLE if len(every) > 1 else TITLE_OF_ONE.format(every[0]),
        tuple(head),
        tuple(rows),
        make_frame([dict(zip(TIDY, row, strict=True)) for row in tidy]),
        below=(tables.explain_cells(counts), *([TIED] if tied else [])),
        theme=Theme.SPEED,
    )


def _by_framework(section: Section, quantity: Quantity) -> dict[str, dict[int, Point]]:
    points: dict[str, dict[int, Point]] = {}
    for (name, size), point in order.read_points(section, quantity).items():
        points.setdefault(name, {})[size] = point
    return points


def _place(best: BestWithTies | None, every: list[int]) -> TableCell:
    if best is None:
        return TableCell(ABSENT)
    tied = f" or {', '.join(span_list(best.tied, every))}" if best.tied else ""
    return TableCell(f"{best.place}{tied}", best.place)


def _cell(section: Section, quantity: Quantity, framework: str, best: BestWithTies | None, most: int) -> TableCell:
    """Return the cell at the best batch size, or at the only one; without one, how the framework's trials ended.

    `most`: the largest number of repeats in the table.
    """
    cells = tables.compute_cells(section, quantity)
    own = {size: cell for (name, size), cell in cells.items() if name == framework}
    sizes = [best.place] if best else list({size for _, size in cells})
    if len(sizes) == 1:
        place = sizes[0]
        return tables.format_cell(own[place], quantity.decimals, most)
    without = [cell for cell in own.values() if cell.status != tables.NOT_RUN and not cell.n]
    words = dict.fromkeys(tables.describe_status(cell.status) for cell in without)
    notes = tuple(dict.fromkeys(note for cell in without for note in cell.notes))
    return TableCell(" / ".join(words), None, notes) if words else TableCell(ABSENT, None, (NO_BEST,))


def _with_size(cell: TableCell, best: BestWithTies | None) -> TableCell:
    """Add the batch size to an accuracy, since the table has those of two."""
    return cell if best is None or cell.number is None else replace(cell, text=f"{cell.text} at {best.place}")


def _tidy(best: BestWithTies | None) -> tuple[int | None, str]:
    return (None, "") if best is None else (best.place, tables.JOINED.join(map(str, best.tied)))


def _label(section: Section, quantity: Quantity) -> str:
    spec = quantity.figure(section.condition)
    return f"{spec.label}, {spec.unit}" if spec else quantity.name
