"""The page of all options and the shell's completion have what the parsers have."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import shtab

from tools.command_lines import COMMANDS, RUN, build_whole_parser, write_reference

ROOT = Path(__file__).parents[2]
# Calls the completion as bash does when Tab is pressed after the last word.
TAB = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
_shtab_batchwise
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash_completion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = tmp_path_factory.mktemp("completion") / "batchwise"
    script.write_text(shtab.complete(build_whole_parser(), "bash"), encoding="utf-8")
    return script


def press_tab(script: Path, *words: str) -> list[str]:
    """Return what bash offers after these words."""
    command = ["bash", "-c", TAB, "bash", str(script), "batchwise", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_the_page_of_all_options_is_the_one_made_from_the_parsers() -> None:
    page = (ROOT / "docs" / "reference" / "all-options.md").read_text(encoding="utf-8")
    assert page == write_reference(), "python -m tools.command_lines reference > docs/reference/all-options.md"


def test_every_option_of_a_run_has_its_topic_on_the_page_of_options() -> None:
    page = (ROOT / "docs" / "reference" / "options.md").read_text(encoding="utf-8")
    options = {name for name in COMMANDS[RUN]().options() if name.startswith("--")}
    assert options - set(re.findall(r"--[a-z-]+", page)) == set()


def test_every_command_has_its_exit_codes_on_the_page_about_them() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if not re.search(rf"`{re.escape(name)}(?:`| --)", page)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_completion_offers_every_option_of_every_command(command: str, bash_completion: Path) -> None:
    words = re.sub(r"python -m (runner ?)?", "", command).split()
    options = set(re.findall(r"--[a-z-]+", COMMANDS[command]().format_usage()))
    assert options and options <= set(press_tab(bash_completion, *words, "--"))


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("--workload os", "osu-cnn"), ("--framework mx", "mxnet"), ("do", "doctor"), ("reports pub", "publish")],
)
def test_the_completion_offers_names_and_commands(typed: str, offered: str, bash_completion: Path) -> None:
    assert press_tab(bash_completion, *typed.split()) == [offered]
