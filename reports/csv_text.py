"""Write tables as CSV that a spreadsheet shows without running formulas, because names in them come from outside."""

from __future__ import annotations

from typing import Any

import pandas as pd

# Characters that begin a formula in spreadsheets, full width too, and the quote that prevents it: OWASP, "CSV
# Injection" (owasp.org/www-community/attacks/CSV_Injection).
FORMULAS = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
QUOTE = "'"


def of(frame: pd.DataFrame) -> str:
    """Format a data frame without its index; numbers stay numbers, a text that would be a formula begins
    with a quote.
    """
    columns = [_plain_column(frame.iloc[:, place]) for place in range(frame.shape[1])]
    quoted = pd.concat(columns, axis=1) if columns else frame
    return str(quoted.rename(columns=plain).to_csv(index=False, lineterminator="\n"))


def _plain_column(column: pd.Series[Any]) -> pd.Series[Any]:
    """Escape a column's texts; a column of numbers is unchanged. Each cell keeps its type."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    return pd.Series([plain(cell) for cell in column], index=column.index, name=column.name, dtype=object)


def plain(cell: Any) -> Any:
    """Escape a cell so that no spreadsheet runs it; a number written as text is unchanged.

    Ends of lines become line feeds, the only ones that csv quotes.
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
