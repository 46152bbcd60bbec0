"""Type checks of `make lint`, as a test: it then takes one core while the other tests run."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.mark.slow
def test_every_module_holds_to_its_types() -> None:
    """mypy checks all that pyproject.toml names, tests too."""
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
