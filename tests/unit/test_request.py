"""The way from the command line to a checked request: what a run is called, and what is no network."""

from __future__ import annotations

import pwd
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from rich.console import Console

from runner import show
from runner.cluster import node
from runner.environments import installers, venv
from runner.project import Project
from runner.request import cli, inputs, own_code
from runner.request.own_code import find_framework
from runner.request.parser import BadInput, run_parser
from runner.request.plan import build_series_plan
from workloads.records.job import DRAWN, OWN, Installation

NUMPY = ("--framework", "numpy", "--isolation", "here", "--plan")
MODEL = "import torch\n\n\ndef make(classes):\n    return torch.nn.Linear(64, classes)\n"


def request(*words: str) -> cli.Request:
    return cli.build_request(run_parser().parse_args([*NUMPY, *words]), Project.of_this_code())


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ((), "quick"),
        (("--workload", "osu-cnn", "--epochs", "1"), "quick"),
        (("--workload", "tiny", "--dataset", "digits-64"), "tiny-digits-64"),
        (("--dataset", "synthetic"), "osu-cnn-synthetic"),
        (("--workload", str(ROOT / "examples" / "my_cnn.py")), "my-cnn-digits"),
        (("--study", "scaling-cpu", "--dataset", "synthetic"), "scaling-cpu"),
    ],
)
def test_a_run_of_another_network_or_data_set_is_not_called_quick(words: tuple[str, ...], name: str) -> None:
    asked = request(*words)
    assert asked.results == Path("results") / name
    assert {part.study.name for part in asked.parts.values()} == {asked.study.name} == {name}


def test_a_run_of_own_code_is_called_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "my_net.py"
    path.write_text(MODEL)
    words = ["--framework", "pytorch", "--model", f"pytorch={path}:make", "--plan"]
    assert cli.build_request(run_parser().parse_args(words), Project.of_this_code()).study.name == "my-net-digits"


def test_code_or_weights_of_a_framework_in_place_of_a_network_point_to_the_option_for_them(tmp_path: Path) -> None:
    path, weights = tmp_path / "net.py", tmp_path / "net.pt"
    path.write_text(MODEL)
    with pytest.raises(BadInput, match=rf"to train a model in code of pytorch, give --model pytorch={path}:FUNCTION"):
        request("--workload", str(path))
    with pytest.raises(BadInput, match=r"holds weights, not a network; .* give --model pytorch=FILE.py:FUNCTION"):
        request("--workload", str(weights))
    for text, framework in (("import keras.layers as k", "tensorflow"), ("from mxnet import gluon", "mxnet"),
                            ("import numpy, torch", "pytorch"), ("x = 'torch'", None), ("def", None)):  # fmt: skip
        for encoding in ("utf-8", "utf-8-sig"):
            path.write_text(text, encoding=encoding)
            assert find_framework(path) == framework


def test_the_list_has_columns_and_no_long_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show.print_inventory(Project.of_this_code(), [], Console(highlight=False, markup=False, soft_wrap=True))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= show.LIST_WIDTH
    names = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert {"mobilenet-v3-large", "cats-dogs-cnn-32", "learning-rates-cpu", "cifar10-cats-dogs"} <= set(names)


def test_a_series_has_frameworks_and_profiles_of_its_own_and_trains_no_column_of_another(tmp_path: Path) -> None:
    study = tmp_path / "mine.toml"
    series = '[[series]]\nname = "{}"\nframeworks = ["{}"]\nprofiles = ["{}"]\n'
    study.write_text(series.format("plain", "all", "default") + series.format("by-fit", "tensorflow", "fit"))
    words = ["--study", str(study), "--plan"]
    asked = cli.build_request(run_parser().parse_args(words), Project.of_this_code())
    columns = {name: part.frameworks for name, part in asked.parts.items()}
    assert columns == {"plain": ("mxnet", "pytorch", "tensorflow"), "by-fit": ("tensorflow@fit",)}
    assert asked.frameworks == (*columns["plain"], *columns["by-fit"])
    installations = {name: Installation("venv", "a") for name in asked.frameworks}
    planned = build_series_plan(asked, installations, range(1), {}).trials
    assert {(planned.count(spec), spec.cell.framework) for spec in planned} == {(1, name) for name in asked.frameworks}
    study.write_text(series.format("plain", "all", "default") + series.format("again", "pytorch", "default"))
    with pytest.raises(BadInput, match="series again trains the same as plain"):
        cli.build_request(run_parser().parse_args(words), Project.of_this_code())


OWN_SERIES = """frameworks = ["mxnet", "pytorch"]
[[series]]
name = "plain"
[[series]]
name = "by-fit"
frameworks = ["tensorflow"]
profiles = ["fit"]
"""


def columns_of(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, tuple[str, ...]]:
    monkeypatch.setattr(own_code, "check_builds", lambda *_: {})
    study = folder / "mine.toml"
    study.write_text(OWN_SERIES)
    asked = cli.build_request(
        run_parser().parse_args(["--study", str(study), "--plan", *words]), Project.of_this_code()
    )
    return {name: part.frameworks for name, part in asked.parts.items()}


def test_a_build_or_model_joins_the_series_that_name_its_framework_and_is_refused_if_none_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, fit = ("mxnet", "pytorch"), ("tensorflow@fit",)
    given = columns_of(tmp_path, monkeypatch, "--python", "mxnet=/x/python", "--python", "pytorch@nightly=/x/python")
    assert given == {"plain": (*plain, "pytorch@nightly"), "by-fit": fit}
    labelled = columns_of(tmp_path, monkeypatch, "--python", "tensorflow@new=/x/python", "--series", "by-fit")
    assert labelled == {"by-fit": (*fit, "tensorflow@new.fit")}
    assert columns_of(tmp_path, monkeypatch, "--python", "tensorflow=/x/python") == {"plain": plain, "by-fit": fit}
    with pytest.raises(BadInput, match="--python jax: no chosen series includes it"):
        columns_of(tmp_path, monkeypatch, "--python", "jax=/x/python")
    path = tmp_path / "my_net.py"
    path.write_text(MODEL)
    models = ("--model", f"pytorch={path}:make", "--model", f"mxnet={path}:make")
    with pytest.raises(BadInput, match="series by-fit: --model leaves it no framework: choose others with --series"):
        columns_of(tmp_path, monkeypatch, *models)
    assert columns_of(tmp_path, monkeypatch, *models, "--series", "plain") == {"plain": plain}
    more = ("--model", f"tensorflow={path}:make")
    assert columns_of(tmp_path, monkeypatch, *models, *more) == {"plain": plain, "by-fit": fit}


def test_shards_that_start_together_find_the_results_folder_writable_whatever_another_leaves_there(
    tmp_path: Path,
) -> None:
    (tmp_path / ".writable").mkdir()
    assert cli._results(tmp_path, writable=True) == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == [".writable"]


def test_series_share_files_only_with_those_that_begin_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "mine.toml"
    study.write_text("".join(f'[[series]]\nname = "{name}"\nlearning_rate = 0.{name}\n' for name in "123"))
    asked = request("--study", str(study))
    third = asked.series["3"]
    series = asked.series | {"3": replace(third, study=third.study.changed(initial=OWN))}
    monkeypatch.setattr(inputs, "write_data", lambda part, _: {"written": part.study.initial})
    written = inputs.write_all_data(replace(asked, series=series), Console())
    assert [each["written"] for each in written.values()] == [DRAWN, DRAWN, OWN]


def test_a_user_without_a_home_directory_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", find_nobody)
    for name in ("HOME", "PYENV_ROOT", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "UV_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert list(venv.list_candidates("3.0")) and len(installers.list_uv_files()) == 2
    for words in (("--model", "pytorch=~/no.py:make"), ("--workload", "~/no.py:make"), ("--python", "numpy=~/no")):
        with pytest.raises(BadInput, match=r"(?i)no such file"):
            request(*words)
    with pytest.raises(node.BlockFailed, match="no home directory: set XDG_CACHE_HOME"):
        node.find_node_folder()
