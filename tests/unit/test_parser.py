"""The words of the command line."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from runner.request.parser import COMMANDS, USUAL, BadInput, build_study, need_known, run_parser
from workloads.datasets import DATASETS
from workloads.networks import WORKLOADS
from workloads.study import KEYS, OF_SERIES, Study, list_studies


@pytest.mark.parametrize("words", [["100", "127", "256"], ["100,127,256"], ["100,127", "256"]])
def test_batch_sizes_are_words_or_have_commas_between_them(words: list[str]) -> None:
    assert run_parser().parse_args(["--batch-size", *words]).batch_sizes == [100, 127, 256]
    assert run_parser().parse_args([]).batch_sizes is None, "then the study says them"


@pytest.mark.parametrize("words", [["jax", "numpy", "jax"], ["jax,jax,numpy"], ["jax,", "numpy,jax"]])
def test_names_are_words_or_have_commas_between_them_and_count_once(words: list[str]) -> None:
    options = run_parser().parse_args(["--framework", *words, "--profile", "default,tuned", "tuned"])
    assert options.frameworks == ["jax", "numpy"] and options.profiles == ["default", "tuned"]
    assert build_study(options).frameworks == ("jax", "numpy")


def test_a_name_in_other_letters_is_offered_and_a_number_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="unknown framework 'JAX': did you mean jax"):
        need_known("framework", "JAX", ["all", "jax", "keras_jax", "pytorch"])
    with pytest.raises(BadInput, match="names 4 twice"):
        build_study(run_parser().parse_args(["--batch-size", "4,4"]))
    with pytest.raises(BadInput, match="frameworks: Expected `array` of length >= 1"):
        build_study(run_parser().parse_args(["--framework", ","]))


@pytest.mark.parametrize("word", ["100,", ",", "100,many", "1.5", "100;127"])
def test_what_is_no_list_of_whole_numbers_is_refused(word: str) -> None:
    with pytest.raises(BadInput, match=r"--batch-size: '.*' is not a whole number \(see python -m runner --help\)"):
        run_parser().parse_args(["--batch-size", word])


def test_the_help_has_the_eight_usual_options_and_the_other_commands() -> None:
    shown = run_parser().format_help()
    assert re.findall(r"^  (--[a-z-]+)", shown, re.MULTILINE) == [*USUAL, "--help-all"] and len(USUAL) == 8
    assert all(f"\n  python -m runner {command}" in shown for command in COMMANDS)
    assert len(shown.splitlines()) <= 50


def test_the_whole_help_has_groups_examples_and_the_names_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        run_parser().parse_args(["--help-all"])
    told = capsys.readouterr().out
    words = " ".join(told.split())
    for name in (*WORKLOADS, *DATASETS, *list_studies()):
        assert name in words, name
    groups = ("what runs, and where", "network and images", "training", "measuring", "repeats and retries")
    assert all(f"\n{group}:\n" in told for group in (*groups, "examples", "other commands, each with its own --help"))
    assert max(len(line) for line in told.splitlines() if line.startswith("  python -m")) <= 100


def test_every_key_of_a_study_is_an_option_whose_default_is_the_studys() -> None:
    options = run_parser().parse_args([])
    assert {each.name for each in fields(Study)} - KEYS.keys() == {"name", "summary", "series"}
    assert {getattr(options, name) for name in KEYS} == {None}
    assert set(OF_SERIES) < KEYS.keys() and not {"repeats", "seed", "device"} & set(OF_SERIES)


STUDY = """
batch_sizes = [8, 16]
[[series]]
name = "sgd"
optimizer = "sgd"
[[series]]
name = "adam"
optimizer = "adam"
batch_sizes = [16, 32]
"""


def asked(folder: Path, *words: str) -> dict[str, tuple[int, ...]]:
    """{series: its batch sizes} of that study with these words."""
    path = folder / "two.toml"
    path.write_text(STUDY, encoding="utf-8")
    study = build_study(run_parser().parse_args(["--study", str(path), *words]))
    return {name: part.batch_sizes for name, part in study.parts.items()}


def test_some_of_the_batch_sizes_that_series_have_of_their_own_can_be_asked_for(tmp_path: Path) -> None:
    assert asked(tmp_path) == {"sgd": (8, 16), "adam": (16, 32)}
    assert asked(tmp_path, "--batch-size", "16") == {"sgd": (16,), "adam": (16,)}
    assert asked(tmp_path, "--batch-size", "8,32") == {"sgd": (8,), "adam": (32,)}
    assert asked(tmp_path, "--batch-size", "32") == {"adam": (32,)}
    assert asked(tmp_path, "--series", "sgd", "--batch-size", "64") == {"sgd": (64,)}, "it has no sizes of its own"
    with pytest.raises(BadInput, match="--batch-size 64: the series of study two have 8, 16, 32: choose from those"):
        asked(tmp_path, "--batch-size", "16,64")


def test_a_rate_that_is_asked_for_holds_for_every_series_whatever_its_optimizer() -> None:
    for name, value in (("learning_rate", 0.5), ("epochs", 3)):
        words = ["--study", "memory-cpu", f"--{name.replace('_', '-')}", str(value)]
        parts = build_study(run_parser().parse_args(words)).parts
        assert {part.optimizer for part in parts.values()} == {"sgd", "momentum", "adam"}
        assert {getattr(part, name) for part in parts.values()} == {value}
    with pytest.raises(BadInput, match="series adam: weight_decay: adam has none") as refused:
        build_study(run_parser().parse_args(["--study", "memory-cpu", "--weight-decay", "0.1"]))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "together"),
    [
        ("--framework pytorch --framework mxnet", "--framework pytorch mxnet"),
        ("--batch-size=4,8 --epochs 1 --batch-size 8 16 --plan", "--batch-size 4,8 8 16"),
        ("--series adam --series sgd", "--series adam sgd"),
        ("--blocks 7,8,9 --blocks=15,16,17", "--blocks 7,8,9 15,16,17"),
        ("--retry failed --retry failed timeout", "--retry failed timeout"),
    ],
)
def test_a_list_option_given_twice_is_refused_with_all_its_values(words: str, together: str) -> None:
    said = f"{together.split()[0]} is given twice: name all after one: {together} (see python -m runner --help)"
    with pytest.raises(BadInput, match=f"^{re.escape(said)}$"):
        run_parser().parse_args(words.split())


def test_of_an_option_with_one_value_the_last_one_counts_and_models_add_up() -> None:
    words = "--node a --node b --results c --results d --model pytorch=a.py:f --model mxnet=b.py:f"
    options = run_parser().parse_args(words.split())
    assert (options.node, str(options.results)) == ("b", "d") and len(options.models) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--batchsize=4"], "unknown option --batchsize=4: did you mean --batch-size?"),
        (["batch-sise"], "unknown word batch-sise: did you mean batch-size?"),
        (["--qqqqqq"], "unknown option --qqqqqq (see python -m runner --help)"),
    ],
)
def test_a_word_that_is_no_option_is_offered_the_one_that_it_is_close_to(words: list[str], told: str) -> None:
    with pytest.raises(BadInput, match=re.escape(told)):
        run_parser().parse_args(words)
