"""Check that a framework reports computing in the precision that it was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from runner.results.assemble import check_precision


@pytest.mark.parametrize(
    ("asked", "facts", "wrong"),
    [
        ("bfloat16", {"precision": "bfloat16", "tf32": False}, ""),
        ("tf32", {"precision": "tf32", "tf32": True}, ""),
        ("tf32", {"precision": "tf32", "tf32": False}, "TF32 is off"),
        ("bfloat16", {"precision": "bfloat16", "tf32": True}, "TF32 is on"),
        ("bfloat16", {"precision": "float32", "tf32": False}, "it reports float32"),
        ("float32", {"precision": "bfloat16", "tf32": False}, "it reports bfloat16"),
    ],
)
def test_what_it_says_is_held_against_what_was_asked(asked: str, facts: dict[str, Any], wrong: str) -> None:
    (check,) = check_precision(asked, facts)
    assert check.passed is (not wrong) and check.detail.endswith(wrong or f"{asked} was requested")


def test_float32_that_says_so_and_a_worker_that_died_before_it_said_anything_need_no_check() -> None:
    assert not list(check_precision("float32", {"precision": "float32", "tf32": False}))
    assert not list(check_precision("float32", {}))
