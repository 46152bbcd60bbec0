"""Show the best batch size of each framework: where it is fastest, with speed and memory, and where most accurate."""

from __future__ import annotations

import math

import pandas as pd

from . import order, tables
from .condition_text import ABSENT
from .conditions import Section
from .frameworks import display_name, ordered
from .order import Best, Point
from .quantities import ACCURACY, MEMORY, SPEED, Quantity
from .sentences import span_list
from .table import Cell, Table, Theme

NAME = "best"
TITLE, TITLE_OF_ONE = "Best batch size of each framework", "Each framework at batch size {}"
SHOWN = (SPEED, MEMORY, ACCURACY)
TIDY = ("framework", "fastest_batch_size", "fastest_tied", "images_per_s", "memory_mib", "test_accuracy_percent",
        "most_accurate_batch_size", "most_accurate_tied", "highest_test_accuracy_percent")  # fmt: skip
TIED = 'After "or": batch sizes that cannot be told from the first.'


def table(section: Section) -> Table | None:
    """Build a table with a row per framework; None if no trial gave a speed."""
    speeds, accuracies = (_by_framework(section, quantity) for quantity in (SPEED, ACCURACY))
    if not speeds:
        return None
    tried = tables.places(section)
    every = sorted({size for _, size in tried})
    rows, tidy, tied = [], [], []
    for name in ordered(framework for framework, _ in tried):
        fastest, accurate = (
            order.best(points) if points else None for points in (speeds.get(name), accuracies.get(name))
        )
        there = [_cell(section, quantity, name, fastest) for quantity in SHOWN]
        highest = _cell(section, ACCURACY, name, accurate)
        tied += [best.tied for best in (fastest, accurate) if best and best.tied]
        rows.append((Cell(display_name(name)), _place(fastest, every), *there, _place(accurate, every), highest))
        ends = [end for best in (fastest, accurate) for end in _tidy(best)]
        numbers = [math.nan if cell.number is None else cell.number for cell in (*there, highest)]
        tidy.append((name, *ends[:2], *numbers[:3], *ends[2:], numbers[3]))
    head = ["Framework", "Fastest at", *(_label(section, quantity) for quantity in SHOWN)]
    head += ["Most accurate at", f"Highest {_label(section, ACCURACY).lower()}"]
    if len(every) == 1:
        kept = (0, *range(2, 2 + len(SHOWN)))
        head, rows = [head[place] for place in kept], [tuple(row[place] for place in kept) for row in rows]
    speed_cells = tables.by_place(section, SPEED).values()
    return Table(
        NAME,
        TITLE if len(every) > 1 else TITLE_OF_ONE.format(every[0]),
        tuple(head),
        tuple(rows),
        pd.DataFrame(tidy, columns=list(TIDY)),
        below=(tables.how_to_read_a_cell(cell.n for cell in speed_cells), *([TIED] if tied else [])),
        theme=Theme.SPEED,
    )


def _by_framework(section: Section, quantity: Quantity) -> dict[str, dict[int, Point]]:
    points: dict[str, dict[int, Point]] = {}
    for (name, size), point in order.points(section, quantity).items():
        points.setdefault(name, {})[size] = point
    return points


def _place(best: Best | None, every: list[int]) -> Cell:
    if best is None:
        return Cell(ABSENT)
    tied = f" or {', '.join(span_list(best.tied, every))}" if best.tied else ""
    return Cell(f"{best.place}{tied}", best.place)


def _cell(section: Section, quantity: Quantity, framework: str, best: Best | None) -> Cell:
    """Return the cell at the best batch size; without one, how the framework's trials ended."""
    cells = tables.by_place(section, quantity)
    own = {size: cell for (name, size), cell in cells.items() if name == framework}
    if best is None:
        tried = [cell for cell in own.values() if cell.status != tables.NOT_RUN]
        words = dict.fromkeys(tables.words(cell.status) for cell in tried)
        return Cell(" / ".join(words), None, tuple(dict.fromkeys(note for cell in tried for note in cell.notes)))
    return tables.shown(own[best.place], quantity.decimals, most=max(cell.n for cell in cells.values()))


def _tidy(best: Best | None) -> tuple[int | None, str]:
    return (None, "") if best is None else (best.place, tables.JOINED.join(map(str, best.tied)))


def _label(section: Section, quantity: Quantity) -> str:
    spec = quantity.figure(section.condition)
    return f"{spec.label}, {spec.unit}" if spec else quantity.name
