"""Tables as CSV that a spreadsheet shows and does not run: names in them come from whoever measured."""

from __future__ import annotations

from typing import Any

import pandas as pd

# What spreadsheets take for the beginning of a formula, full width too, and how to keep them from it: OWASP, "CSV
# Injection" (owasp.org/www-community/attacks/CSV_Injection).
FORMULAS = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
QUOTE = "'"


def of(frame: pd.DataFrame) -> str:
    """Without its index; numbers stay numbers, a text that would be a formula begins with a quote."""
    columns = [_plain_column(frame.iloc[:, place]) for place in range(frame.shape[1])]
    quoted = pd.concat(columns, axis=1) if columns else frame
    return str(quoted.rename(columns=plain).to_csv(index=False, lineterminator="\n"))


def _plain_column(column: pd.Series[Any]) -> pd.Series[Any]:
    """Of numbers as it is. A column of texts and numbers keeps the type of each of its cells."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    return pd.Series([plain(cell) for cell in column], index=column.index, name=column.name, dtype=object)


def plain(cell: Any) -> Any:
    """The cell as no spreadsheet runs it; a number that is written as text stays as it is. Ends of lines become
    line feeds: csv quotes no other.
    """
    if not isinstance(cell, str):
        return cell
    cell = cell.replace("\r\n", "\n").replace("\r", "\n")
    if not cell.startswith(FORMULAS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"{QUOTE}{cell}"
    return cell
