"""The published figures in the repository, contradictions within them, and rank correlation."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from stored import on_gpu, trial

from reports.conditions import group_into_sections
from reports.drawing.section_charts import build_charts
from reports.findings import summarise
from reports.load import Stored
from reports.reproduction import publication, published_figures
from reports.reproduction.publication import CHART, PUBLICATIONS, TABLE, Article, Metric, read_articles
from workloads.records.figures import Figure


def osu() -> Article:
    return publication.read(PUBLICATIONS / "osu-2020")


def metrics() -> dict[str, Metric]:
    return {metric.name: metric for metric in osu().metrics}


def test_the_published_figures_are_all_there_with_their_series_and_frameworks() -> None:
    counts = {
        (series, name): len(values) for name, metric in metrics().items() for series, values in metric.values.items()
    }
    # three frameworks and nine batch sizes; accuracy for TensorFlow alone, and in no chart
    assert counts == {
        ("table", "gpu_usage_percent"): 27,
        ("table", "gpu_memory_mib"): 27,
        ("table", "accuracy_percent"): 9,
        ("chart", "gpu_usage_percent"): 27,
        ("chart", "gpu_memory_mib"): 27,
    }
    found = pd.read_csv(PUBLICATIONS / "osu-2020" / publication.FIGURES)
    assert not found.duplicated(["series", "framework", "metric", "batch_size"]).any()
    assert found["value"].notna().all()
    usage, memory, accuracy = metrics().values()
    assert usage.values[TABLE]["tensorflow", 1024] == 22.14
    assert usage.values[CHART]["tensorflow", 1024] == 64.9
    assert memory.values[TABLE]["mxnet", 128] == 2495.153
    assert accuracy.values[TABLE]["tensorflow", 8] == 45.83
    assert CHART not in accuracy.values
    assert osu().versions == {"tensorflow": "2.0.0", "pytorch": "1.4.0", "mxnet": "1.5.0"}
    large = (128, 256, 512, 1024)
    assert metrics()["gpu_usage_percent"].contradicted == {("tensorflow", size) for size in large}
    assert metrics()["gpu_memory_mib"].contradicted == {("mxnet", size) for size in large}


@pytest.mark.parametrize("factor", [0.505, 2.5, 10])
def test_the_eight_cells_do_not_hang_on_the_tolerance(factor: float) -> None:
    wider = [replace(metric, digitised_to=factor * metric.digitised_to) for metric in metrics().values()]
    assert sum(len(metric.contradicted) for metric in wider) == 8


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        (
            "osu-2020/calibration",
            24,
            {"optimizer", "learning_rate", "momentum", "batch_size", "run", "accuracy_percent"},
        ),
        ("cats-dogs-2022/figures", 18, {"series", "framework", "metric", "batch_size", "value"}),
        ("powers-of-two-2022/figures", 19, {"series", "framework", "metric", "batch_size", "value"}),
        ("noise-scale/figures", 8, {"source", "task", "batch_size", "noise_scale_average"}),
    ],
)
def test_the_other_published_figures_can_be_read_and_are_told_of(name: str, rows: int, columns: set[str]) -> None:
    path = PUBLICATIONS / f"{name}.csv"
    found = pd.read_csv(path)
    assert len(found) == rows
    assert columns <= set(found.columns)
    assert f"`{name}.csv`" in (PUBLICATIONS / "README.md").read_text(encoding="utf-8")


DEFINITION = """
source = "A. Author, 2024"
hardware = "A100"
device = "A100"
workload = "mlp"
dataset = "digits"
epochs = 10
unknown = "Its order of samples is unknown."
caveat = "It does not name its data."
caption = "Published: {software}{guess}."

[versions]
pytorch = "2.0"

[[metrics]]
name = "accuracy_percent"
quantity = "accuracy"
finding = "The accuracies of 2024"

[[claims]]
text = "{framework}: accuracy jumps at 8"
metric = "accuracy_percent"
test = "jumps"
sizes = [4, 8]
frameworks = ["pytorch"]
"""
FIGURES = """\
series,framework,metric,batch_size,value
table,pytorch,accuracy_percent,4,30
table,pytorch,accuracy_percent,8,75
"""


@pytest.fixture
def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of another publication, next to ours."""
    shutil.copytree(PUBLICATIONS, tmp_path / "publications")
    folder = tmp_path / "publications" / "another-2024"
    folder.mkdir()
    (folder / publication.DEFINITION).write_text(DEFINITION)
    (folder / publication.FIGURES).write_text(FIGURES)
    monkeypatch.setattr(publication, "PUBLICATIONS", tmp_path / "publications")
    read_articles.cache_clear()
    yield folder
    read_articles.cache_clear()


@pytest.mark.usefixtures("another")
def test_a_publication_is_a_folder_of_data_and_nothing_else() -> None:
    accuracy = {"test_accuracy": Figure(0.7, "worker")}
    trials = [trial("pytorch", 8, workload="mlp", figures=accuracy), trial("pytorch", 4, workload="mlp")]
    found, _ = group_into_sections(trials)
    tables, remarks = published_figures.of_section(found[0])
    assert ([table.name for table in tables], remarks) == (["published-accuracy", "agreement", "claims"], [])
    rows = {row[0].text: [cell.text for cell in row[1:]] for table in tables for row in table.rows}
    assert rows["PyTorch 2.0, published (table)"] == ["30.00", "75.00"]
    assert rows["PyTorch, measured minus published (table)"][1] == "-5.00"
    assert rows["PyTorch: accuracy jumps at 8"][:2] == ["holds", "\N{EN DASH}"]
    told = summarise(Stored(tuple(trials), (), (), ()), found)
    assert [line for line in told.findings if line.startswith("The accuracies of 2024: root-mean-square difference")]
    assert "It does not name its data." in told.not_verified
    thesis, _ = group_into_sections([on_gpu(trial("pytorch", 8, dataset="cifar10"))])
    assert next(table.name for table in published_figures.of_section(thesis[0])[0]) == "published-usage"


def test_figures_published_under_certain_conditions_stand_by_results_of_these_alone(another: Path) -> None:
    path = another / publication.DEFINITION
    path.write_text(path.read_text().replace("finding", 'conditions = { feed = "device" }\nfinding'))
    shown = {}
    for feed in ("host", "device"):
        (section,), _ = group_into_sections([trial("pytorch", 8, workload="mlp", feed=feed)])
        made, _ = published_figures.of_section(section)
        shown[feed] = {table.name: [row[-2].text for row in table.rows] for table in made}
        charts = {chart.name: chart for chart in build_charts(section)}
        assert ("Published: PyTorch 2.0" in charts["accuracy"].caption) == (feed == "device")
    assert shown["host"] == {}
    assert list(shown["device"]) == ["published-accuracy", "agreement", "claims"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('test = "jumps"', 'test = "leaps"', "no such test of a claim: leaps"),
        ('quantity = "accuracy"', 'quantity = "luck"', "'luck': there is no such"),
        ('hardware = "A100"', 'hardwear = "A100"', "hardwear"),
        ('name = "accuracy_percent"', 'name = "speed"', "no such metric: accuracy_percent"),
        ("epochs = 10", "epochs =", "Invalid value"),
        ('pytorch = "2.0"', "", "versions: missing for pytorch"),
    ],
)
def test_a_publication_that_cannot_be_read_is_named_with_what_is_wrong(
    old: str, new: str, reason: str, another: Path
) -> None:
    path = another / publication.DEFINITION
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=reason) as raised:
        read_articles()
    assert str(raised.value).startswith(f"{path}: ")
