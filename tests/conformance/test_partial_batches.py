"""Adapters that are wrong only with partial batches: the suite's case with batches of 32, 32, 13, 7, 1 catches them."""

from __future__ import annotations

import pytest
from settings import CASES, TRUTH
from suite import Found, Seen, checks_of

# {name: framework}, in broken/late; the runner's gate catches them, too: tests/pipeline/test_cheats.py.
CASE, FULL = "plain-partial", "plain-momentum"
WRONG = {"nominal_step": "mxnet", "partial_skipped": "pytorch"}


@pytest.mark.parametrize("name", WRONG)
def test_the_suite_catches_what_is_wrong_with_partial_batches_alone(name: str, found: Found) -> None:
    case = CASES[CASE]
    arrays = found.of(name, case, WRONG[name], f"broken.late.{name}", (CASE, FULL))
    seen = Seen(case, arrays, found.of(TRUTH, case), found.initial(case))
    caught = {check for check, wrong in checks_of(case).items() if wrong(seen)}
    assert "weights" in caught
    assert not caught & {"forward", "outputs", "gradients", "updates"}, "its full batches are right"


@pytest.mark.parametrize("name", WRONG)
def test_no_case_of_one_batch_size_catches_them(name: str, found: Found) -> None:
    case = CASES[FULL]
    arrays = found.of(name, case, WRONG[name], f"broken.late.{name}", (CASE, FULL))
    seen = Seen(case, arrays, found.of(TRUTH, case), found.initial(case))
    assert not [check for check, wrong in checks_of(case).items() if wrong(seen)]
