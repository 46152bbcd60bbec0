"""The example notebook runs unchanged, and shows the stored results."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

NOTEBOOK = ROOT / "examples" / "read_results.ipynb"


def test_the_example_notebook_runs_and_prints_what_is_stored_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples")
    monkeypatch.delattr(tarfile.TarFile, "extractall")  # without its `filter` in Python 3.11.0 to 3.11.3
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    known: dict[str, Any] = {}
    for cell in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), known)
        stored = "".join("".join(out["text"]) for out in cell["outputs"] if out["output_type"] == "stream")
        assert printed.getvalue() == stored
    assert "not enough to rank" in known["report"].summary.headline and len(known["trials"]) == 27
    assert not Path(known["folder"].name).exists()
