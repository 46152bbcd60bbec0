"""Readers of files from a results folder or from a user: real files to mutate, and the code that uses what was read.

A reader returns a value or raises ValueError with one line. The value is used as the runner and the reports use it;
that code may raise nothing.
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mutations import Text, cell_text, json_text, toml_text
from real_files import (
    GPU,
    PUBLISHED,
    ROWS,
    STABLE,
    answers,
    drivers,
    metered,
    noisy,
    of_corpus,
    probed,
    published,
    results,
    sampled,
    worked,
)  # fmt: skip

from reports import stable
from reports.batch_size import tables
from reports.checking import recompute
from reports.frameworks import FrameworkNames
from reports.publishing.publication import Publication
from reports.publishing.publication import format_publication as publication_text
from reports.stable import StableFile
from runner.ask import Ended, find_ending
from runner.gate import trial_end
from runner.gate.rivals import build_unrounded_truth
from runner.gate.tolerances import find_difference
from runner.launch import WorkerOutcome
from runner.progress import format_row
from runner.rebuild import Attempt
from runner.results.assemble import Records, add_measurement, read_epochs
from runner.results.memory import collect_memory
from workloads.activations import activation_bytes
from workloads.networks import WORKLOADS, read_stored
from workloads.records import network, validation
from workloads.records.advice import choose_batch_size, find_noise_bound
from workloads.records.batch_answers import BatchAnswers
from workloads.records.blocks import BLOCKS_FILE, Block, Phase, read_blocks, whole_rounds
from workloads.records.checks import check_figures
from workloads.records.columns import DRIVER_COLUMNS
from workloads.records.events import Event
from workloads.records.evidence import Evidence
from workloads.records.files import EVENTS_FILE, METER_FILE, SAMPLES_FILE, without_nan
from workloads.records.job import Job, Kind
from workloads.records.result import TrialResult
from workloads.records.samples import parse_samples
from workloads.records.status import Status
from workloads.records.stored import meter_of, parse_result
from workloads.records.stored_events import parse_events
from workloads.study import list_studies
from workloads.study_file import parse_study


@dataclass(frozen=True)
class Reader:
    """`read` raises ValueError for what is no such file; `use` raises nothing."""

    texts: tuple[Text, ...]
    read: Callable[[bytes], Any]
    use: Callable[[Any], object] = repr


def use_result(result: TrialResult) -> None:
    """Check and show a result as the gate and the reports do, then store and read it again."""
    workload = WORKLOADS.get(result.spec.task.workload)
    check_figures(result.spec, workload, result.figures, result.epochs)
    if workload is not None:
        trial_end.check_end(result, workload)
    if result.evidence:
        find_difference(Evidence.from_json(result.evidence), build_unrounded_truth(result))
        find_difference(Evidence.from_json(result.evidence), build_unrounded_truth(probed()))
        find_difference(Evidence.from_json(probed().evidence), build_unrounded_truth(result))
    recompute.find_differences(result, sampled_events(), parse_samples(sampled()), (), {})
    format_row(result)
    stored_again(result)


def stored_again(result: TrialResult) -> None:
    """Store and read again what was read or assembled."""
    text = json.dumps(without_nan(result.to_json()), allow_nan=False)
    assert parse_result(text.encode("utf-8", "replace")).spec.id == result.spec.id


@cache
def sampled_events() -> list[dict[str, Any]]:
    """Return the events of `worked`."""
    return parse_events(worked())


def assembled(events: bytes, samples: bytes, driver: bytes, meter: bytes) -> TrialResult | None:
    """Assemble a trial as the runner does; None where the files are not those of a trial."""
    spec = replace(probed().spec, passes=replace(probed().spec.passes, epochs=1))
    spec = replace(spec, placement=replace(spec.placement, device=GPU))
    told = parse_events(events)
    ended = Ended(told, WorkerOutcome(0, False, 13.0), Status.OK, None)
    tables = parse_samples(samples), parse_samples(driver, DRIVER_COLUMNS)
    records = Records(spec, WORKLOADS[spec.task.workload], ended, *tables, meter_of(meter))
    accounts = [event for event in told if event["event"] == Event.MEMORY_TOLD]
    blank = TrialResult(spec, Status.OK, None, "2026-11-23T00:00:00+00:00", 13.0)
    try:
        return add_measurement(blank, records, accounts[0] if accounts else {"reason": "not asked"})
    except ArithmeticError:  # runner.results.assemble says so in the result
        return None


def use_assembled(result: TrialResult | None) -> None:
    """Check what was assembled as a stored result is checked."""
    if result is not None:
        use_result(result)


def use_events(events: list[dict[str, Any]]) -> None:
    """Use a worker's events in every way other than assembling a trial."""
    read_epochs(events)
    recompute.recompute_from_events(events, 1)
    if events:
        find_ending(events, WorkerOutcome(1, False, 1.0), Path("/dev/null"), False)
    for event in events:
        if event["event"] == Event.MEMORY_TOLD:
            collect_memory({}, parse_samples(b""), probed().spec, None, event)


def read_network(content: bytes) -> Any:
    """Read a network; raises ValueError where the content is none."""
    if (workload := read_stored(content)) is None:
        raise ValueError("no network")
    return workload


def use_network(workload: Any) -> None:
    """Compute a network's sizes as the tables and the gate do."""
    float(workload.multiply_adds * 10**9), activation_bytes(workload, 4), workload.draws, workload.parameter_shapes()
    trial_end.check_end(probed(), workload)


def read_written_blocks(content: bytes) -> list[Block]:
    """Read a file of blocks; raises ValueError where the content is none."""
    (folder() / BLOCKS_FILE).write_bytes(content)
    return read_blocks(folder() / BLOCKS_FILE)


def use_blocks(blocks: list[Block]) -> None:
    """Compute speeds as the report does; rounds that are not whole are left out."""
    with suppress(ValueError):
        for of_round in whole_rounds(blocks, Phase.TRAINING):
            [block.image_s for block in of_round.values()]


def read_stable(content: bytes) -> bytes:
    """Read a stable file; raises ValueError where the content is none."""
    validation.decode(content, StableFile)
    return content


def use_stable(content: bytes) -> None:
    """Build the table of a stable file."""
    (folder() / stable.FILE).write_bytes(content)
    stable.build_table(folder(), FrameworkNames())


@cache
def folder() -> Path:
    """Return this process's temporary folder, in memory where /dev/shm can be written."""
    shared = Path("/dev/shm")
    made = tempfile.TemporaryDirectory(prefix="batchwise-fuzz-", dir=shared if os.access(shared, os.W_OK) else None)
    atexit.register(made.cleanup)
    return Path(made.name)


def read_job(content: bytes) -> Job:
    """Read a job as making a result again does; raises ValueError."""
    try:
        return validation.build_record(json.loads(content), Job, "job.json")
    except RecursionError as error:
        raise ValueError(validation.describe_error(error)) from error


def use_answers(stored: BatchAnswers) -> None:
    """Read from stored answers what a page shows."""
    for each in stored.frameworks:
        choose_batch_size(each), find_noise_bound(each.noise)
    tables.build_table(stored)


def decoder(kind: Any) -> Callable[[bytes], Any]:
    """Make a decoder that checks a whole file by its types."""
    return lambda content: validation.decode(content, kind)


def _json(*contents: bytes) -> tuple[Text, ...]:
    return tuple(map(json_text, contents))


def _dumped(data: Any) -> bytes:
    return json.dumps(data).encode()


@cache
def reader(name: str) -> Reader:
    """Return one of NAMES, with its files."""
    match name:
        case "result":
            return Reader(_json(*results()), parse_result, use_result)
        case "events":
            probes = (*published("probes", EVENTS_FILE, 1), *published("memory", EVENTS_FILE, 1))
            return Reader(_json(worked(), noisy(), *probes, *of_corpus(EVENTS_FILE)), parse_events, use_events)
        case "samples":
            stored = [b"\n".join(each.split(b"\n")[:ROWS]) + b"\n" for each in (sampled(), *of_corpus(SAMPLES_FILE))]
            return Reader(tuple(map(cell_text, stored)), parse_samples)
        case "meter":
            return Reader(_json(metered(), *of_corpus(METER_FILE)), meter_of)
        case "trial-events":
            files = sampled(), drivers(), metered()
            return Reader(_json(worked()), lambda content: assembled(content, *files), use_assembled)
        case "trial-samples":
            read = lambda content: assembled(worked(), content, drivers(), metered())  # noqa: E731
            return Reader((cell_text(sampled()),), read, use_assembled)
        case "trial-driver":
            read = lambda content: assembled(worked(), sampled(), content, metered())  # noqa: E731
            return Reader((cell_text(drivers()),), read, use_assembled)
        case "trial-meter":
            files = worked(), sampled(), drivers()
            return Reader(_json(metered()), lambda content: assembled(*files, content), use_assembled)
        case "network":
            networks = (network.to_text(WORKLOADS[name]).encode() for name in ("osu-cnn", "resnet-18", "vit-tiny"))
            return Reader(_json(*networks), read_network, use_network)
        case _:
            return _whole(name)


def _whole(name: str) -> Reader:
    """Return a reader of a file that is read whole by its types, or of a study."""
    match name:
        case "study":
            shipped = [path.read_bytes() for path in list_studies().values()]
            read = lambda content: parse_study(content, Path("a.toml"))  # noqa: E731
            return Reader(tuple(map(toml_text, shipped)), read)
        case "stable":
            return Reader(_json(_dumped(STABLE)), read_stable, use_stable)
        case "blocks":
            written_blocks = [asdict(Block(Phase.TRAINING, 0, size, 2, 0.5, 1.0)) for size in (7, 8, 9)]
            return Reader(_json(_dumped({"blocks": written_blocks})), read_written_blocks, use_blocks)
        case "answers":
            return Reader(_json(answers()), decoder(BatchAnswers), use_answers)
        case "attempt":
            written = Attempt("2026-11-23T00:00:00+00:00", {"cores": 2}, {"reason": "not asked"})
            return Reader(_json(_dumped(asdict(written))), decoder(Attempt))
        case "job":
            return Reader(_json(_dumped(Job(Kind.TRIAL, probed().spec).to_json())), read_job)
        case "publication":
            papers = [path.read_bytes() for path in sorted(PUBLISHED.glob("*/publication.json"))]
            return Reader(_json(*papers), decoder(Publication), publication_text)
        case _:
            raise KeyError(name)


NAMES = (
    "result", "events", "samples", "meter", "trial-events", "trial-samples", "trial-driver", "trial-meter", "network",
    "study", "stable", "blocks", "answers", "attempt", "job", "publication",
)  # fmt: skip
