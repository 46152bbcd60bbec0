"""Measure how near correct trials come to the bounds of the timed and counted checks, network by network.

python tests/benchmarks/measure_margins.py RESULTS... [--write docs/evidence/margins.md]

RESULTS are folders of runs of frameworks that are correct. Prints, for each check and network, the largest part of what
is allowed that any trial had: above 1 the check fails. `--write` puts the table between the marks of a page.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from reports.checking.recompute import list_segments  # noqa: E402
from reports.load import read  # noqa: E402
from runner.gate import trial_end  # noqa: E402
from runner.rebuild import read_attempt  # noqa: E402
from runner.results.times import CALLS_APART_S, LATE_S, TIMES_APART_S  # noqa: E402
from workloads.networks import find_trained  # noqa: E402
from workloads.records import checks, figures, reported  # noqa: E402
from workloads.records.check_name import CheckName  # noqa: E402
from workloads.records.columns import PERIOD_S  # noqa: E402
from workloads.records.end_evidence import Difference, TrialEnd  # noqa: E402
from workloads.records.events import Events  # noqa: E402
from workloads.records.figures import FigureSpec, Method  # noqa: E402
from workloads.records.files import EVENTS_FILE, SAMPLES_FILE  # noqa: E402
from workloads.records.result import TrialResult  # noqa: E402
from workloads.records.samples import read_samples  # noqa: E402
from workloads.records.stored_events import read_events  # noqa: E402
from workloads.spec import SLOTS, Workload  # noqa: E402

Share = tuple[CheckName, float]  # (check, share of the allowed difference)
JUDGED = ("ok", "contended", "unverified", "diverged")


def value(trial: TrialResult, spec: FigureSpec) -> float:
    """Return the trial's figure; NaN where it is unknown, and so is everything computed from it."""
    figure = trial.figures.get(spec.name)
    return math.nan if figure is None or figure.value is None else float(figure.value)


def times_shares(trial: TrialResult, folder: Path, events: Events) -> Iterator[Share]:
    """Shares of the checks of clocks, calls and samples."""
    try:
        worker = read_attempt(folder).worker
    except ValueError:
        worker = None
    if worker is not None and worker.times_apart_s is not None:
        allowed_s = LATE_S if worker.times_apart_s > 0 else TIMES_APART_S
        yield CheckName.TIMES, abs(worker.times_apart_s) / allowed_s
    last = {event["event"]: event for event in events}
    segments, calls_s = list_segments(events), last.get("window_ended", {}).get("calls_s")
    if not segments or not calls_s:
        return
    window_s = sum(end - start for start, end in segments) / 1e9
    allowed_s = len(segments) * (CALLS_APART_S + max(calls_s))
    yield CheckName.CALLS_ADD_UP, abs(sum(calls_s) - window_s) / allowed_s
    longest_s, usual_s = max(calls_s), float(np.median(calls_s))
    lost = (longest_s - usual_s) / window_s / checks.STALL_SHARE
    yield CheckName.NO_STALL, min(lost, longest_s / usual_s / checks.STALL_TIMES)
    samples = read_samples(folder / SAMPLES_FILE)
    start, end = segments[0][0], segments[-1][1]
    inside = (samples["t_ns"] >= start) & (samples["t_ns"] <= end)
    gaps_s = np.diff(np.concatenate([[start], samples["t_ns"][inside], [end]])) / 1e9
    yield CheckName.COVERED, float(gaps_s.max()) / (3 * PERIOD_S)
    own, sizes = trial.figures.get(figures.HOST_MEMORY.name), samples["host_memory_bytes"][inside]
    if own is not None and own.value and own.method is Method.COUNTER and not np.isnan(sizes).all():
        allowed = own.value * (1 + reported.PROCESSES_MARGIN) + reported.PROCESSES_BYTES
        yield CheckName.PROCESSES, float(np.nanmax(sizes)) / allowed


def speed_shares(trial: TrialResult, workload: Workload) -> Iterator[Share]:
    """Shares of the checks of the speed and of the processor time."""
    spec, speed, epochs = trial.spec, value(trial, figures.SPEED), trial.epochs[1:]
    yield CheckName.SPEED_IDENTITY, abs(speed * value(trial, figures.STEP_TIME) / spec.global_batch - 1) / 0.01
    seconds = sum(epoch.train_s for epoch in epochs)
    if seconds >= checks.EPOCHS_S and speed:
        ratio = sum(epoch.images for epoch in epochs) / seconds / speed
        yield CheckName.EPOCHS_SPEED, max(ratio, 1 / ratio) / checks.EPOCHS_APART
    if any(check.name == CheckName.WINDOW_SPEED for check in trial.checks):
        costs = checks.EPOCH_COSTS_S
        fastest = max(epoch.steps * spec.global_batch / (epoch.train_s - costs) for epoch in epochs)
        yield CheckName.WINDOW_SPEED, speed / fastest / checks.WINDOW_FASTER
    product, threads = value(trial, figures.PRODUCT), spec.placement.threads
    if spec.placement.device != "cpu":
        return
    needed = speed * workload.step_flop / reported.FAST_ALGORITHMS
    yield CheckName.POSSIBLE, needed / min(product, trial_end.CORE_HERTZ * trial_end.CORE_FLOP * threads)
    used = value(trial, figures.CPU_USAGE) / 100 * threads
    yield CheckName.NEEDED, needed / (reported.LONE_CORE * product / threads) / used
    allotted = threads * (1 + reported.CORES_MARGIN + reported.CORES_S / value(trial, figures.WINDOW))
    yield CheckName.CORES, used / allotted


def memory_shares(trial: TrialResult, workload: Workload) -> Iterator[Share]:
    """Shares of the checks of what the memory worker reported."""
    parts, trainable = figures.MEMORY_PARTS, 4 * workload.parameter_count
    extra = value(trial, parts["optimizer"]) - SLOTS[trial.spec.task.optimizer.name] * trainable
    name = CheckName.ADAM if trial.spec.task.optimizer.name in ("adam", "adamw") else CheckName.SLOTS
    yield name, abs(extra) / (reported.SCALAR_BYTES * len(workload.parameter_shapes()))
    yield CheckName.PARAMETERS, abs(value(trial, parts["parameters"]) / trainable - 1)
    exact = value(trial, figures.EXACT_ACTIVATIONS)
    yield CheckName.ACTIVATIONS, reported.LEAST_ACTIVATIONS * exact / value(trial, parts["activations"])


def end_shares(trial: TrialResult) -> Iterator[Share]:
    """Shares of the checks of the trial's end."""
    if not trial.end:
        return
    end = TrialEnd.from_json(trial.end)
    if end.outstanding is not None:
        window_s = value(trial, figures.WINDOW)
        left_s, allowed_s = end.outstanding.compare_with_allowed(window_s, trial.spec.placement.device == "cpu")
        yield CheckName.NOTHING_LEFT, max(0.0, left_s) / allowed_s
    if end.evaluation is not None:
        yield CheckName.END_EVALUATION, share_of(end.evaluation, trial_end.EVALUATION)
    for step in end.steps:
        yield CheckName.END_LOSSES, share_of(step.loss, trial_end.LOSSES)
        if step.update is not None and step.update.resolution < trial_end.TELLING:
            yield CheckName.END_UPDATES, share_of(step.update, trial_end.GROSS)


def share_of(difference: Difference, base: float) -> float:
    """Return the difference as a share of what the gate allows."""
    allowed = max(base, trial_end.ROUNDINGS * difference.rounding) + difference.resolution
    return math.nan if difference.apart is None else difference.apart / allowed


def shares(trial: TrialResult, folder: Path) -> Iterator[Share]:
    """All known shares of one trial."""
    workload = find_trained(trial.spec, folder.parent.parent)
    if trial.status not in JUDGED or workload is None:
        return
    yield from times_shares(trial, folder, read_events(folder / EVENTS_FILE))
    yield from speed_shares(trial, workload)
    yield from memory_shares(trial, workload)
    yield from end_shares(trial)


def table(folders: list[Path]) -> str:
    """A Markdown table with a row for each check and a column for each network."""
    most: dict[tuple[CheckName, str], float] = defaultdict(float)
    trials: dict[str, int] = defaultdict(int)
    for folder in folders:
        stored = read(folder)
        for trial, trial_dir in zip(stored.results, stored.folders, strict=True):
            network = trial.spec.task.workload
            trials[network] += trial.status in JUDGED
            for name, share in shares(trial, trial_dir):
                if not math.isnan(share):
                    most[name, network] = max(most[name, network], share)
    networks = sorted(network for network, count in trials.items() if count)
    lines = [f"| check | {' | '.join(networks)} |", f"|---|{'---:|' * len(networks)}"]
    lines.append(f"| *trials* | {' | '.join(str(trials[network]) for network in networks)} |")
    for name in CheckName:
        cells = [f"{most[name, each]:.2g}" if (name, each) in most else "" for each in networks]
        if any(cells):
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(words: list[str]) -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(words)
    made = table(options.results)
    print(made)
    if options.write:
        marks = re.compile(r"(<!-- margins -->\n).*?(\n<!-- end -->)", re.DOTALL)
        text, count = marks.subn(lambda found: found[1] + made + found[2], options.write.read_text())
        if count != 1:
            parser.error(f"{options.write}: there are no marks <!-- margins --> and <!-- end --> in it")
        options.write.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
