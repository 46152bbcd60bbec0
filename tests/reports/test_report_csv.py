"""Display in a spreadsheet of a table whose names somebody else gave."""

from __future__ import annotations

import csv
import io

import pandas as pd
import pytest

from reports.table import format_csv, make_frame


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "\uff1d1"])
def test_a_text_that_would_be_a_formula_begins_with_a_quote(text: str) -> None:
    written = format_csv(pd.DataFrame({"name": [text, "pytorch"], "=head": [1, 2]}))
    head, first, second = csv.reader(io.StringIO(written, newline=""))
    assert head == ["name", "'=head"] and first == ["'" + text.replace("\r", "\n"), "1"] and second == ["pytorch", "2"]


def test_numbers_stay_as_they_are_whatever_their_column_holds() -> None:
    frame = pd.DataFrame(
        {
            "of texts": pd.Series(["-0.5", "a-b", None], dtype=object),
            "mixed": pd.Series([1, None, -2.5], dtype=object),
            "floats": [-1.5, 0.1, float("nan")],
        }
    )
    assert format_csv(frame) == "of texts,mixed,floats\n-0.5,1,-1.5\na-b,,0.1\n,-2.5,\n"
    assert format_csv(pd.DataFrame(columns=["a", "-b"])) == "a,'-b\n"


def test_whole_numbers_stay_whole_where_some_are_unknown() -> None:
    known = {"batch_size": 32, "bytes": 2**40, "speed": 1.0, "ok": True}
    frame = make_frame([known, dict.fromkeys(known), {"batch_size": 64}])
    assert format_csv(frame) == "batch_size,bytes,speed,ok\n32,1099511627776,1.0,True\n,,,\n64,,,\n"
    assert list(make_frame([], ["batch_size"])) == ["batch_size"]
