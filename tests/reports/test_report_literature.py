"""The published figures that are carried, what of them contradicts itself, and rank correlation."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from reports.reproduction import literature, ranks
from reports.reproduction.literature import CHART, TABLE


def test_the_published_figures_are_all_there_with_both_series() -> None:
    found = literature.published()
    assert list(found.columns) == literature.COLUMNS
    counts = found.groupby(["series", "metric"]).size().to_dict()
    # three frameworks and nine batch sizes; accuracy for TensorFlow alone, and in no chart
    assert counts == {
        ("table", "gpu_usage_percent"): 27,
        ("table", "gpu_memory_mib"): 27,
        ("table", "accuracy_percent"): 9,
        ("chart", "gpu_usage_percent"): 27,
        ("chart", "gpu_memory_mib"): 27,
    }
    assert not found.duplicated(["series", "framework", "metric", "batch_size"]).any()
    assert found["value"].notna().all()


def test_a_published_figure_keeps_its_series_and_framework() -> None:
    assert literature.values(TABLE, "gpu_usage_percent")["tensorflow", 1024] == 22.14
    assert literature.values(CHART, "gpu_usage_percent")["tensorflow", 1024] == 64.9
    assert literature.values(TABLE, "gpu_memory_mib")["mxnet", 128] == 2495.153
    assert literature.values(TABLE, "accuracy_percent")["tensorflow", 8] == 45.83
    assert literature.values(CHART, "accuracy_percent") == {}
    assert literature.versions() == {"tensorflow": "2.0.0", "pytorch": "1.4.0", "mxnet": "1.5.0"}


def test_a_caller_that_changes_its_frame_does_not_change_the_published_figures() -> None:
    found = literature.published()
    found["value"] = 0.0
    assert literature.published()["value"].max() > 2000


def test_table_and_chart_contradict_each_other_in_the_eight_cells_that_are_known() -> None:
    large = (128, 256, 512, 1024)
    assert literature.contradicted("gpu_usage_percent") == {("tensorflow", size) for size in large}
    assert literature.contradicted("gpu_memory_mib") == {("mxnet", size) for size in large}


@pytest.mark.parametrize("factor", [1.01, 5, 20])
def test_the_eight_cells_do_not_hang_on_the_tolerance(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    wider = {metric: factor * error for metric, error in literature.DIGITISED_TO.items()}
    monkeypatch.setattr(literature, "TOLERANCE", wider)
    assert sum(len(literature.contradicted(metric)) for metric in wider) == 8


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        (
            "osu-2020-calibration",
            24,
            {"optimizer", "learning_rate", "momentum", "batch_size", "run", "accuracy_percent"},
        ),
        ("cats-dogs-2022", 18, {"series", "optimizer", "data", "batch_size", "test_accuracy"}),
        ("powers-of-two-2022", 11, {"gpus", "strategy", "batch_size", "train_minutes", "inference_minutes"}),
        ("noise-scale", 8, {"source", "task", "batch_size", "noise_scale_average"}),
    ],
)
def test_the_other_published_figures_can_be_read_and_are_told_of(name: str, rows: int, columns: set[str]) -> None:
    path = literature.FOLDER / f"{name}.csv"
    found = pd.read_csv(path)
    assert len(found) == rows
    assert columns <= set(found.columns)
    assert f"`{path.name}`" in (literature.FOLDER / "README.md").read_text(encoding="utf-8")


def test_rank_correlation_of_four_pairs_in_order_is_no_proof() -> None:
    # of the 24 orders of four, two are as extreme: p = 2 / 24
    found = ranks.correlation([1, 2, 3, 4], [10, 20, 30, 40])
    assert (found.rho, found.n, found.p) == pytest.approx((1, 4, 2 / 24))


def test_rank_correlation_with_one_swap_of_neighbours() -> None:
    # rho = 1 - 6 sum d^2 / n (n^2 - 1) = 1 - 6 x 2 / 120; of the 120 orders of five, 1 + 4 are as high: p = 2 x 5 / 120
    found = ranks.correlation([1, 2, 3, 4, 5], [1, 2, 3, 5, 4])
    assert (found.rho, found.p) == pytest.approx((0.9, 10 / 120))
    assert str(found) == "rank correlation 0.90, n = 5, p = 0.083"


def test_nine_pairs_in_opposite_order_are_significant_and_the_same_at_every_run() -> None:
    first, second = (ranks.correlation(range(9), range(9, 0, -1)) for _ in range(2))
    assert first == second
    assert first.rho == pytest.approx(-1)
    assert str(first) == "rank correlation -1.00, n = 9, p < 0.001"


def test_a_row_without_variation_has_no_rank_correlation() -> None:
    assert math.isnan(ranks.rho([1, 2, 3, 4], [5, 5, 5, 5]))
    assert math.isnan(ranks.correlation([1, 2, 3, 4], [5, 5, 5, 5]).p)
