"""A paper with every table and a figure that the command wrote, as an author would set it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from stored import on_gpu, run, store, study

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("pdflatex"), reason="there is no pdflatex")]
STYLES = {
    "article": r"\documentclass{article}",
    "two columns": r"\documentclass[twocolumn,a4paper]{article}",
    "IEEEtran": r"\documentclass{IEEEtran}",
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = store(tmp_path_factory.mktemp("paper"), *map(on_gpu, study(repeats=3)))
    ran = run(results, "--format", "latex", "pdf", "--figure-size", "column", "--bare", "--beside", "osu-2020")
    assert ran.returncode == 0, ran.stderr
    return results / "report"


@pytest.mark.parametrize("style", STYLES)
def test_all_tables_and_a_figure_fit_the_columns_of_a_paper(out: Path, style: str) -> None:
    if style == "IEEEtran" and not _has("IEEEtran.cls", "ptmr7t.tfm"):
        pytest.skip("there is no IEEEtran, or none of its fonts")
    tables = sorted(path.name for path in out.glob("*.tex") if path.name not in ("conditions.tex", "paper.tex"))
    assert {"best.tex", "speed.tex", "parity.tex", "claims.tex", "workers.tex"} < set(tables)
    text = [
        STYLES[style],
        r"\usepackage{booktabs,array,graphicx}",
        r"\begin{document}",
        r"\begin{figure}\includegraphics[width=\linewidth]{speed.pdf}\caption{Speed.}\end{figure}",
        r"See Table~\ref{tab:speed}.",
        *(rf"\input{{{name}}}" for name in tables),
        r"\clearpage\appendix",
        r"\input{conditions.tex}",
        r"\end{document}",
    ]
    (out / "paper.tex").write_text("\n".join(text))
    asked = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    for _ in range(2):  # the second time with the references that the first one stored
        ran = subprocess.run(asked, cwd=out, capture_output=True, timeout=120)
    log = (out / "paper.log").read_text(encoding="utf-8", errors="replace")
    assert ran.returncode == 0, log[-3000:]
    assert not re.findall(r"^(?:Overfull|!|LaTeX Warning: (?:Float too large|Reference)).*", log, re.MULTILINE)


def _has(*files: str) -> bool:
    return all(subprocess.run(["kpsewhich", file], capture_output=True).returncode == 0 for file in files)
