"""Turn stored files into tables, figures and a page, from results alone. Imports no framework and no runner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from .markdown import NotebookReport


def trials(*folders: str | Path) -> pd.DataFrame:
    """Read the trials of these results folders, one row per attempt; columns: docs/reference/columns.md. Raises
    load.ReportError.
    """
    from . import load, trial_rows  # whoever asks for a module of this package loads no other

    return trial_rows.build_frame(load.read(*map(Path, folders)))


def read(
    *folders: str | Path, columns: bool = False, target_accuracy: float | None = None, beside: Sequence[str] = ()
) -> NotebookReport:
    """Build a report, as `build.build_report`, that displays itself in a notebook. Raises load.ReportError."""
    from . import build
    from .markdown import NotebookReport

    report = build.build_report([Path(folder) for folder in folders], columns, target_accuracy, beside)
    return NotebookReport(**vars(report))
