"""Tests of many cases that share all their work are one test, whose failure lists the cases that failed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def for_each(names: str, cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Decorator: run the test with each case in place of the arguments `names`, and fail with a list of what failed.

    A test whose cases are slow, or each need a separate folder, is parametrised instead.
    """
    arguments, cases = [name.strip() for name in names.split(",")], list(cases)

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        assert cases and set(arguments) <= set(signature.parameters), (names, "no case, or no argument of the test")

        @functools.wraps(test)
        def run_each(**fixtures: Any) -> None:
            failures = []
            for case in cases:
                values = dict(zip(arguments, case if len(arguments) > 1 else (case,), strict=True))
                try:
                    test(**fixtures, **values)
                except (AssertionError, pytest.fail.Exception) as failure:
                    failures.append(f"{values}: {failure}")
                except Exception as error:
                    error.add_note(f"in the case {values}")
                    raise
            assert not failures, f"{len(failures)} of {len(cases)} cases failed:\n" + "\n".join(failures)

        kept = [each for name, each in signature.parameters.items() if name not in arguments]
        run_each.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run_each

    return decorate
