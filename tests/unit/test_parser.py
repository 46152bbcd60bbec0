"""The words of the command line."""

from __future__ import annotations

import pytest

from runner.command.parser import BadInput, run_parser
from workloads.datasets import DATASETS
from workloads.networks import WORKLOADS
from workloads.study import studies


@pytest.mark.parametrize("words", [["100", "127", "256"], ["100,127,256"], ["100,127", "256"]])
def test_batch_sizes_are_words_or_have_commas_between_them(words: list[str]) -> None:
    assert run_parser().parse_args(["--batch-size", *words]).batch_sizes == [100, 127, 256]
    assert run_parser().parse_args([]).batch_sizes is None, "then the study says them"


@pytest.mark.parametrize("word", ["100,", ",", "100,many", "1.5", "100;127"])
def test_what_is_no_list_of_whole_numbers_is_refused(word: str) -> None:
    with pytest.raises(BadInput, match=r"--batch-size: '.*' is not a whole number \(see python -m runner --help\)"):
        run_parser().parse_args(["--batch-size", word])


def test_the_help_has_groups_examples_and_the_names_that_exist() -> None:
    told = run_parser().format_help()
    words = " ".join(told.split())
    for name in (*WORKLOADS, *DATASETS, *studies()):
        assert name in words, name
    groups = ("what runs, and where", "network and images", "training", "measuring", "trials that are run again")
    assert all(
        f"\n{group}:\n" in told for group in (*groups, "examples", "other commands, each with a --help of its own")
    )
    assert max(len(line) for line in told.splitlines() if line.startswith("  python -m")) <= 100
