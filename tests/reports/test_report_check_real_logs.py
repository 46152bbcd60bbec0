"""`reports check` on logs that others published, compared with values that plain Python found in their cells.

The logs are not ours to hand on. $BATCHWISE_TRACES names the folder that holds them; `.ci/run` sets it where it exists.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reports import check

FOLDER = os.environ.get("BATCHWISE_TRACES", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="BATCHWISE_TRACES is not set: it names the folder of others' logs")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "card700w_8gpu_gpt2.csv",
            [
                "gpu_index 0: figures: 780 samples in 265.947 s, period 0.331 s, the longest 2.307 s",
                "mean 84.83 %, over time 83.10 %, at 0 in 14.0 % of them, at 100 in 54.5 % of them",
                "mean 602.15 W", "by trapezoids 157271.0 J", "gpu_index 7: figures: 780 samples", "mean 83.50 %",
            ],
        ),
        (
            "laptop6gb_conv2d.csv",
            [
                "205 samples in 23.412 s, period 0.110 s, the longest 0.598 s",
                "mean 91.71 %, over time 88.07 %, at 0 in 8.3 % of them, at 100 in 91.7 % of them",
                "mean 63.84 W", "1437.7 J (by trapezoids 1444.7 J)", "gaps: 2 over 3 periods",
            ],
        ),
        (
            "laptop6gb_conv2d_1005mhz.csv",
            ["399 samples in 45.571 s", "mean 94.74 %, over time 91.25 %", "1207.3 J (by trapezoids 1215.0 J)"],
        ),
        (
            "card48gb_dcconv.csv",
            [
                "135 samples in 34.020 s, period 0.250 s, the longest 0.330 s", "mean 18.44 %, over time 18.42 %",
                "135 cells have several lines", "by trapezoids 2527.8 J",
            ],
        ),
        ("v100s_miris.csv", ["107 samples in 106.053 s", "mean 3.67 %, over time 3.71 %, at 0 in 49.5 % of them"]),
        (
            "rtx2080ti_vae_utf16.csv",
            [
                "434 samples in 437.707 s, period 1.012 s, the longest 1.051 s",
                "mean 27.46 %, over time 27.48 %", "10611 MiB",
            ],
        ),
    ],
)  # fmt: skip
def test_a_real_log_has_the_figures_that_are_in_its_cells(
    name: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    check.main([str(Path(FOLDER) / name)])
    printed = capsys.readouterr().out
    assert [words for words in told if words not in printed] == [], printed


@pytest.mark.parametrize(
    ("name", "columns", "told"),
    [
        (
            "card80gb_no_header.csv",
            "timestamp,utilization.gpu [%],power.draw [W],memory.used [MiB],memory.total [MiB]",
            ["1657 samples in 8371", "mean 6.02 %, over time 6.04 %", "mean 89.38 W", "73543 MiB"],
        ),
        (
            "card20gb_plato.csv",
            "timestamp,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu,power.draw",
            [
                "1923 samples in 9636.953 s, period 5.009 s, the longest 5.723 s",
                "mean 1.43 %, over time 1.43 %", "at 0 in 94.2 %", "mean 16.52 W",
            ],
        ),
    ],
)  # fmt: skip
def test_a_real_log_without_a_header_is_refused_with_the_option_that_names_its_columns_and_then_read(
    name: str, columns: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(Path(FOLDER) / name)
    check.main([log])
    assert "no header, name them with --columns" in capsys.readouterr().out
    check.main([log, "--columns", columns])
    printed = capsys.readouterr().out
    assert [words for words in told if words not in printed] == [], printed
