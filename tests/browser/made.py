"""Reports for the browser: stored trials with samples, events and logs, and a Report over them made by hand."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "reports"))

import pandas as pd
from stored import BATCH_SIZES, VERSIONS, ended, store, study, trial

from reports import load, tables
from reports.charts import Chart, Kind, Panel, Series
from reports.conditions import Section, sections
from reports.frameworks import display_name, ordered
from reports.quantities import QUANTITIES, Quantity
from reports.report import Chapter, Report, Summary
from reports.table import Cell, Table
from workloads.trial import Epoch, Status, TrialResult

EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
SAMPLES_HEAD = (
    "t_ns,cpu_s,cores_cpu_s,host_memory_bytes,gpu_percent,device_memory_bytes,process_memory_bytes,foreign_processes,"
    "energy_mj,power_mw,sm_clock_mhz,memory_clock_mhz,temperature_c,throttle_reasons,power_limit_mw,sm_active_percent,"
    "sm_occupancy_percent,tensor_active_percent,dram_active_percent"
)
EPOCHS = [Epoch(1.5, 40, 1280, 2.2 / (epoch + 1), 0.1, 2.0 / (epoch + 1), 0.5 + 0.04 * epoch) for epoch in range(10)]


def write_raw(folder: Path, log: str = "", rows: int = 100) -> None:
    """samples.csv at 10 Hz: one core busy from 1 s on, 100 MiB and 1 MiB more with every row; the events; the log."""
    lines = [SAMPLES_HEAD]
    for row in range(rows):
        busy_s = max(0.0, row / 10 - 1)
        lines.append(f"{10**12 + row * 10**8},{busy_s},{busy_s},{(100 + row) * 2**20}" + "," * 15)
    (folder / "samples.csv").write_text("\n".join(lines) + "\n")
    events = [("started", 0), ("imported", 1.0), ("window_started", 5.0), ("window_ended", 9.0), ("finished", 9.5)]
    told = [json.dumps({"event": name, "t_ns": int(10**12 + second * 10**9)}) for name, second in events]
    (folder / "events.jsonl").write_text("\n".join(told) + "\n")
    (folder / "log.txt").write_text(log)


def small_results(folder: Path) -> Path:
    """The study `quick` with two repeats, one out of memory, one whose reason, log and framework are hostile."""
    results = [result for result in study(2) if (result.spec.framework, result.spec.batch_size) != ("mxnet", 1024)]
    results += [ended(Status.OUT_OF_MEMORY, "the device has 16 GiB", "mxnet", 1024)]
    hostile = ended(Status.FAILED, EVIL, "pytorch", 4)
    results.append(replace(hostile, spec=replace(hostile.spec, framework=EVIL.partition("</")[0])))
    return with_raw(folder, results)


def with_raw(folder: Path, results: Iterable[TrialResult]) -> Path:
    store(folder, *(with_epochs(result) for result in results))
    for path in (folder / "trials").iterdir():
        hostile = path.name.startswith("<")
        write_raw(path, f"{EVIL}</script>" if hostile else "step 1\nstep 2\n" if "pytorch" in path.name else "")
    return folder


def with_epochs(result: TrialResult) -> TrialResult:
    return TrialResult(**{**vars(result), "epochs": EPOCHS if result.status is Status.OK else []})


def report(folder: Path) -> Report:
    stored = load.read(folder)
    found, replaced = sections(stored.results)
    return Report(
        stored=stored,
        replaced=tuple(replaced),
        summary=Summary(
            ran=(f"{len(stored.results)} trials of osu-cnn on digits on one CPU.",),
            findings=("TensorFlow was the fastest at every batch size.", f"A name is text: {EVIL}"),
            not_verified=("No GPU was used: nothing is said about GPUs.",),
        ),
        chapters=tuple(chapter(section, number) for number, section in enumerate(found, 1)),
        beside=(),
        appendix=(rules_table(),),
        problems={"Trials that are not ok": ("one: out of memory", f"another: {EVIL}")},
    )


def chapter(section: Section, number: int) -> Chapter:
    shown = [quantity for quantity in QUANTITIES if quantity.drawn and quantity.source(section.condition)]
    made = tuple(table(section, quantity) for quantity in shown)
    charts = tuple(chart(one, quantity) for one, quantity in zip(made, shown, strict=True))
    heading = f"osu-cnn on digits, part {number}"
    return Chapter(heading, section, ("Conditions: 2 threads.",), made, (*charts, parts_chart()), ("No value: power.",))


def table(section: Section, quantity: Quantity) -> Table:
    found = tables.cells(section.results, quantity, section.condition)
    ids: dict[tuple[str, int], list[str]] = {}
    for result in section.results:
        ids.setdefault((result.spec.framework, result.spec.batch_size), []).append(result.spec.id)
    sizes = sorted(set(found["batch_size"]))
    rows = []
    for framework in ordered(found["framework"]):
        cells = [Cell(display_name(framework))]
        for row in found[found["framework"] == framework].to_dict("records"):
            words = tables.words(str(row["status"]))
            number = float(row["median"])
            known = math.isfinite(number)
            cells.append(
                Cell(
                    f"{number:.2f}" if known else words,
                    number if known else None,
                    tuple(row["notes"]),
                    tuple(ids.get((framework, row["batch_size"]), ())),
                )
            )
        rows.append(tuple(cells))
    title = quantity.title(section.condition)
    return Table(quantity.name, title, ("Framework / batch size", *map(str, sizes)), tuple(rows), found)


def chart(one: Table, quantity: Quantity) -> Chart:
    """Bars one below and above each value; a published series beside it."""
    sizes = tuple(float(head) for head in one.head[1:])
    series = []
    for framework in ordered(set(one.tidy["framework"])):
        row = next(row for row in one.rows if row[0].text == display_name(framework))
        y = tuple(cell.number for cell in row[1:])
        low, high = (tuple(None if v is None else v + step for v in y) for step in (-1, 1))
        trials = tuple(cell.trials for cell in row[1:])
        series.append(Series(row[0].text, framework, Kind.MEASURED, sizes, y, low, high, trials))
    known = [value for value in series[0].y if value is not None]
    published = tuple(0.9 * value for value in known)
    series.append(Series("TensorFlow, published", "tensorflow", Kind.PUBLISHED_TABLE, sizes[: len(known)], published))
    return Chart(
        name=one.name,
        title=one.title,
        x_label="Batch size, images (logarithmic)",
        y_label=f"{quantity.name}, {quantity.unit}",
        panels=(Panel("", tuple(series)),),
        alt=f"{one.title}: what is to be seen.",
        caption="Medians.",
        full_scale=quantity.full_scale,
    )


def parts_chart() -> Chart:
    sizes = (4.0, 8.0, 16.0)
    parts = [("Parameters", "parameters", 1.0), ("Activations", "activations", 2.0), ("Workspace", "workspace", 3.0)]
    series = tuple(
        Series(label, key, Kind.PART, sizes, tuple(factor * size for size in sizes)) for label, key, factor in parts
    )
    panels = tuple(Panel(display_name(framework), series) for framework in VERSIONS)
    words = ("What the memory holds, MiB", "Batch size, images", "Memory, MiB")
    return Chart("memory-split", *words, panels, "Activations are the half of it.", "Medians.")


def rules_table() -> Table:
    rows = [("data", "the same images in the same order"), ("accuracy", "from logits, one definition for all")]
    cells = tuple(tuple(Cell(text) for text in row) for row in rows)
    return Table("rules", "Rules in short", ("Rule", "What it says"), cells, pd.DataFrame(rows), words=True)


def many(folder: Path, count: int) -> Path:
    """`count` trials: three frameworks, nine batch sizes, as many repeats as it takes; no two have the same figures."""
    cells = [(framework, size) for framework in VERSIONS for size in BATCH_SIZES]
    results = []
    for place in range(count):
        framework, size = cells[place % len(cells)]
        one = trial(framework, size, place // len(cells))
        wobble = 1 + math.sin(place) / 20
        figures = {
            name: type(figure)(
                figure.value * wobble if figure.value else figure.value, figure.source, figure.samples, figure.reason
            )
            for name, figure in one.figures.items()
        }
        results.append(TrialResult(**{**vars(one), "figures": figures}))
    return with_raw(folder, results)
