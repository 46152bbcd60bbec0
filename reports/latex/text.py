"""Convert text to LaTeX: escape it, allow breaks in long words, and estimate its width."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..table import Cell

TIE, MINUS = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
# LaTeX's ten special characters, and our characters that standard fonts lack.
QUOTED = re.compile(r'"([^"]*)"')
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
        TIE: "~",
        MINUS: "$-$",
        "\N{LEFT DOUBLE QUOTATION MARK}": "``",
        "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
        "[": "{[}",  # otherwise \\ in the row above takes it as its argument
        "]": "{]}",
    }
)
WIDTHS = {
    **dict.fromkeys(".,:;'!|[]ijl", 2.4),
    **dict.fromkeys("ft()r-I", 3.3),
    **dict.fromkeys("0123456789", 4.3),
    **dict.fromkeys((" ", TIE), 2.9),
    **dict.fromkeys("mwMW%@+=<>~\N{PLUS-MINUS SIGN}\N{MULTIPLICATION SIGN}\N{MINUS SIGN}", 7.2),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ", 6.1),
}
LETTER, MARK = 4.5, 3.3  # width of any other character, and of a character of a footnote's mark
BROKEN_FROM = 13  # characters: a longer word may be broken after punctuation, or at the latest after LONGEST_PART
LONGEST_PART = 20
PARTS = re.compile(rf"[^-_/.,=+:;@]{{1,{LONGEST_PART}}}[-_/.,=+:;@]*|[-_/.,=+:;@]+")
IN_BRACKETS = re.compile(r"(?<=,) (?=[^\[]*\])")
NEGATIVE = re.compile(r"(?<![\w)\]])-(?=\.?\d)")


def escape(text: str) -> str:
    """Escape text as one line without markup."""
    return " ".join(_curled(text).split()).translate(ESCAPED)


def _curled(text: str) -> str:
    """Replace paired straight quotation marks by opening and closing ones; LaTeX prints a straight one as closing."""
    return QUOTED.sub("\N{LEFT DOUBLE QUOTATION MARK}\\1\N{RIGHT DOUBLE QUOTATION MARK}", text)


def prose(text: str) -> str:
    """Format a paragraph whose long words may be broken."""
    return cell_text(Cell(_curled(text)), {})


def cell_text(cell: Cell, marks: Mapping[str, int], stacked: bool = False) -> str:
    """Format a cell with the marks of its footnotes; `stacked`: what follows a number is on the next line."""
    numbers = [str(marks[note]) for note in cell.notes]
    raised = [rf"\textsuperscript{{{number}{',' if number != numbers[-1] else ''}}}" for number in numbers]
    words = [r"\allowbreak{}".join(part.translate(ESCAPED) for part in word) for word in word_parts(cell)]
    if stacked and cell.number is not None and len(words) > 1:
        words[0] += r"\break"
    return " ".join(words) + r"\allowbreak{}".join(raised)


def word_parts(cell: Cell) -> Iterator[list[str]]:
    """Split each word where it may be broken; an interval and a negative number are one word each."""
    text = NEGATIVE.sub(MINUS, " ".join(cell.text.split()))
    text = text if cell.number is None else IN_BRACKETS.sub(TIE, text)
    for word in text.split(" "):
        yield PARTS.findall(word) if len(word) >= BROKEN_FROM and cell.number is None else [word]


def cell_width(cell: Cell) -> float:
    """Width of a cell in one line, in points."""
    return text_width(cell.text) + _of_marks(cell)


def longest_word(cell: Cell) -> float:
    """Width of a cell's longest word, in points; the first footnote's mark stays with the last word."""
    words = [max(map(text_width, word), default=0.0) for word in word_parts(cell)]
    last = text_width(cell.text.split()[-1]) if cell.text.split() else 0.0
    return max(*words, min(last, words[-1]) + (3 * MARK if cell.notes else 0.0))


def _of_marks(cell: Cell) -> float:
    return 3 * MARK * len(cell.notes)


def text_width(text: str) -> float:
    """Width of a text in one line, in points."""
    return sum(WIDTHS.get(character, LETTER) for character in text)
