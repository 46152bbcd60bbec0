"""`| head -1` on any command of the product ends it without a word and with its own exit code."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT

COMMANDS = {
    "runner": ("runner", "--help-all"),
    "reports": ("reports", "--help"),
    "workloads": ("workloads", "describe", "lenet-5"),
    "adapters": ("adapters", "--help"),
    "check_adapter": ("tools.check_adapter", "--help"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_reader_that_has_gone_leaves_a_command_its_exit_code_and_no_traceback(words: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout and command.stderr
        command.stdout.close()
        said = command.stderr.read()
        assert (command.wait(60), said) == (0, "")
