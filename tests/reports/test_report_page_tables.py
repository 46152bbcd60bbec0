"""A page of another version: a cell that both have must hold the same numbers; what only one has is said."""

from __future__ import annotations

import pytest

from reports.publishing import page_tables

PLACE = "1. osu-cnn: table speed"


def table(name: str, *rows: tuple[str, ...]) -> str:
    written = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows)
    return f'<table data-table="s1-{name}">{"".join(f"<tr>{row}</tr>" for row in written)}</table>'


HEAD = "Framework / batch size", "32", "64"
KINDS = table(
    "memory-kinds",
    ("Framework", "Batch size", "Allocator's policy", "Peak"),
    ("PyTorch", "32", "on-demand", "512"),
    ("PyTorch", "32", "default", "640"),
)
USAGE = table("usage", HEAD, ("PyTorch", "98.3 [95.9, 100.0]", "50.0 [48.0, 52.0]"))
SPEED = table(
    "speed", HEAD, ("PyTorch", "950 [900, 1000]", "OOM"), ("MXNet", "812", "1,613.5"), ("JAX", "\N{EN DASH}", "700")
)
PAGE = f"<h2>1. osu-cnn</h2>{SPEED}{KINDS}{USAGE}"


def compare(before: str, after: str) -> page_tables.PageDifferences:
    assert before in PAGE
    return page_tables.compare(PAGE.replace(before, after), PAGE)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("OOM", "812", f"{PLACE}, PyTorch, 64: the page has 812, its archive gives OOM"),
        (">812<", ">diverged<", f"{PLACE}, MXNet, 32: the page has diverged, its archive gives 812"),
        (">812<", ">1812<", f"{PLACE}, MXNet, 32: the page has 1812, its archive gives 812"),
        (
            "[900, 1000]",
            "[949, 951]",
            f"{PLACE}, PyTorch, 32: the page has 950 [949, 951], its archive gives 950 [900, 1000]",
        ),
        (" [900, 1000]", "", f"{PLACE}, PyTorch, 32: the page has 950, its archive gives 950 [900, 1000]"),
        ("\N{EN DASH}", "690", f"{PLACE}, JAX, 32: the page has 690, its archive gives \N{EN DASH}"),
        (
            ">640<",
            ">64<",
            "1. osu-cnn: table memory-kinds, PyTorch, 32, default, Peak: the page has 64, its archive gives 640",
        ),
        ("[48.0,", "[49.0,", "1. osu-cnn: table usage, PyTorch, 64: the page has 50.0 [49.0, 52.0], "
                             "its archive gives 50.0 [48.0, 52.0]"),
    ],
)  # fmt: skip
def test_a_cell_of_both_pages_must_hold_the_same_numbers(before: str, after: str, found: str) -> None:
    assert compare(before, after).lines == [found]


@pytest.mark.parametrize(
    ("before", "after", "apart"),
    [
        ("<td>MXNet</td>", "<td>Caffe</td>", 4),
        ("<td>64</td>", "<td>65</td>", 6),
        ("<tr><td>MXNet</td>", "<tr><td>PyTorch</td><td>999</td><td>999</td></tr><tr><td>MXNet</td>", 2),
        (SPEED, "", 4),
        (KINDS, KINDS + table("energy", HEAD, ("PyTorch", "1", "2")), 2),
        (">812<", ">\N{EN DASH}<", 1),
    ],
    ids=["a row", "a column", "a second row", "no table", "another table", "a dash"],
)
def test_what_only_one_page_has_is_counted_and_is_no_finding(before: str, after: str, apart: int) -> None:
    seen = compare(before, after)
    assert seen.lines == [] and len(seen.apart) == apart


@pytest.mark.parametrize(
    ("before", "after"),
    [("100.0]", "101.6]"), ("OOM", "out of memory"), ("1,613.5", "1613"), (">950 ", ">950.2 ")],
)
def test_words_digits_and_ends_beyond_the_bounds_may_differ(before: str, after: str) -> None:
    seen = compare(before, after)
    assert (seen.lines, seen.apart) == ([], []) and seen.cells == 8
