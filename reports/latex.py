"""A table as LaTeX, for the packages booktabs and, if the text is not English alone, inputenc's utf8."""

from __future__ import annotations

import pandas as pd

from .table import Cell, Table

# LaTeX's ten special characters, and those of our own words that no standard font has.
ESCAPED = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "\N{EN DASH}": "--",
        "\N{MULTIPLICATION SIGN}": r"$\times$",
        "\N{PLUS-MINUS SIGN}": r"$\pm$",
        "[": "{[}",  # or \\ in the row above takes it for its argument
        "]": "{]}",
    }
)


def escape(text: str) -> str:
    """One line, no markup."""
    return " ".join(text.split()).translate(ESCAPED)


def of(shown: Table, label: str, conditions: tuple[str, ...]) -> str:
    """A `table` environment: caption, tabular, and below it how to read, the footnotes and the conditions."""
    notes = shown.notes
    rows = [[_cell(cell, notes) for cell in row] for row in shown.rows]
    frame = pd.DataFrame(rows, columns=pd.Index([escape(name) for name in shown.head]))
    numbers = ("l" if shown.words else "r") * (len(shown.head) - 1)
    text = frame.to_latex(
        index=False, escape=False, column_format="l" + numbers, position="htbp",
        caption=escape(shown.title), label=f"tab:{label}",
    )  # fmt: skip
    below = [escape(line) for line in (*shown.above, *shown.below)]
    below += [rf"\textsuperscript{{{number}}} {escape(note)}" for note, number in notes.items()]
    below += [escape(line) for line in conditions]
    small = "\n".join(rf"\par\raggedright\footnotesize {line}" for line in below)
    return text.replace(r"\caption", "\\centering\n\\caption", 1).replace(r"\end{table}", small + "\n" + r"\end{table}")


def _cell(cell: Cell, notes: dict[str, int]) -> str:
    marks = ",".join(str(notes[note]) for note in cell.notes)
    return escape(cell.text) + (rf"\textsuperscript{{{marks}}}" if marks else "")
