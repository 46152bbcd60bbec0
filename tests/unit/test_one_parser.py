"""Every command line of the product is read by one parser, which says in a line what an unknown word may have meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from conftest import ROOT

ROOMS = ("adapters", "workloads", "runner", "reports", "tools")
HOME = "workloads/command_line.py"
RUNNER, REPORTS = "runner.__main__", "reports.__main__"
# {file that makes the parser: (the module with its `main`, words with a slip, what is meant)}
MEANT = {
    "runner/request/parser.py": (RUNNER, "--framwork all", "--framework"),
    "runner/batch_size/command.py": (RUNNER, "batch-size --anwser largest", "--answer"),
    "runner/compare.py": (RUNNER, "compare numpy=/a/b/c numpy=/d/e/f --framwork numpy", "--framework"),
    "runner/doctor/command.py": (RUNNER, "doctor --reslts DIR", "--results"),
    "runner/import_model.py": ("runner.import_model", "net.py:f --clases 3", "--classes"),
    "runner/environments/images.py": ("runner.environments.images", "--devcie cpu", "--device"),
    "reports/__main__.py": (REPORTS, "RESULTS --fromat md", "--format"),
    "reports/check.py": (REPORTS, "check PATH --colums a", "--columns"),
    "reports/comparing/command.py": (REPORTS, "compare A B --fail-on-regresion 5%", "--fail-on-regression"),
    "reports/comparing/history_command.py": (REPORTS, "history A B --otu DIR", "--out"),
    "reports/exporting/command.py": (REPORTS, "export RESULTS --trakcing-uri URI --to mlflow", "--tracking-uri"),
    "reports/publishing/publish.py": (REPORTS, "publish RESULTS --auhtor me", "--author"),
    "reports/site/command.py": (REPORTS, "site DIR --otu SITE", "--out"),
    "reports/submitting/command.py": (REPORTS, "submit RESULTS --otu FILE", "--out"),
    "workloads/__main__.py": ("workloads.__main__", "describe osu-cnn --hepl", "--help"),
    "adapters/__main__.py": ("adapters.__main__", "new jax --itno DIR", "--into"),
    "tools/command_lines.py": ("tools.command_lines", "reference --hepl", "--help"),
    "tools/gpu_day.py": ("tools.gpu_day", "probe --secnds 3 --out DIR", "--seconds"),
    "tools/gpu_probe.py": ("tools.gpu_probe", "OUT --sclae 1", "--scale"),
    "tools/gpu_rehearsal.py": ("tools.gpu_rehearsal", "probe --secnds 3", "--seconds"),
    "tools/gpu_seen.py": ("tools.gpu_seen", "DIR --hepl", "--help"),
    "tools/gpu_travel.py": ("tools.gpu_travel", "OUT --pyhton python3", "--python"),
    "tools/verify_submission.py": ("tools.verify_submission", "FILE --rernu 1", "--rerun"),
    "tools/check_adapter.py": ("tools.check_adapter", "numpy --form 2", "--from"),
}


def made_in(kind: str) -> set[str]:
    """List the product's files that call a name which ends so."""
    return {
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and re.search(rf"\b({kind})$", ast.unparse(node.func))
    }


def ended(module: str, words: list[str]) -> object:
    main: Callable[[list[str]], int] = import_module(module).main
    try:
        return main(words)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize("file", MEANT)
def test_an_option_with_a_slip_is_offered_the_one_that_was_meant(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    module, words, meant = MEANT[file]
    assert ended(module, words.split()) == 2
    said = capsys.readouterr()
    slip = re.search(r"--\S+", words)
    assert slip and f"unknown option {slip[0]}: did you mean {meant}? (see python " in said.err
    assert said.err.count("\n") == 1 and not said.out


@pytest.mark.parametrize(
    ("module", "word", "meant"),
    [(RUNNER, "doctr", "doctor"), (REPORTS, "publsh", "publish"), (REPORTS, "chekc", "check")],
)
def test_a_command_with_a_slip_is_offered_the_one_that_was_meant(
    module: str, word: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(module, [word]) == 2
    assert f"unknown word {word}: did you mean {meant}?" in capsys.readouterr().err


def test_a_list_option_given_twice_ends_a_command_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(REPORTS, ["RESULTS", "--format", "md", "--format", "csv"]) == 2
    said = capsys.readouterr().err
    assert "--format is given twice: name all after one: --format md csv (see python -m reports --help)" in said
    assert said.count("\n") == 1


@pytest.mark.slow
def test_every_parser_of_the_product_is_that_one_and_is_tried_here() -> None:
    assert made_in("ArgumentParser") == set()
    assert made_in("CommandLine|Parser") == set(MEANT)


def test_a_folder_that_is_there_is_a_folder_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("checks").mkdir()
    assert ended(REPORTS, ["checks"]) == 2
    assert "did you mean" not in capsys.readouterr().err
