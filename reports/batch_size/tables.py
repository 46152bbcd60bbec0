"""Build tables of the answers: frameworks x answers, and the data for each answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from workloads.records.advice import PASSED, choose_batch_size, find_judged, find_point, passes
from workloads.records.batch_answers import (
    LIMIT_NAMES,
    Answers,
    BatchAnswers,
    Best,
    Caution,
    Holds,
    Largest,
    Noise,
    SizePoint,
    SizeVerdict,
)
from workloads.records.status import Status
from workloads.records.stored import LARGEST

from ..condition_text import ABSENT
from ..frameworks import FrameworkNames, name_frameworks
from ..sentences import listed, status_words
from ..table import Columns, Record, Table, TableCell, build_rows, make_frame
from ..tables import format_number

NAME = "batch-size"
NOT_JUDGED = "no ordinary trial has tested it"
HOW = """\
Largest: trained in every trial, and one more image ran out of memory twice. Fastest: the smallest batch size not more \
than 2 % slower than the best one, with its speed and its time per epoch. Energy: the same for joules per image. Noise \
scale: about the batch size beyond which larger ones learn little more per update, pooled along a training, \
[95 % interval]. "To ... %": the batch size that reaches this accuracy soonest. Each found size that fits into an \
epoch is then trained as an ordinary trial, with every check."""
OF_DEVICES = """\
Batch sizes are per device; an update has the images of all devices. Speeds are those of all devices together. The \
noise scale is in images per update."""
CAUTIONS = {
    Caution.BATCH_NORM: "with BatchNorm the statistics are those of 16 images, whatever the batch size in training",
    Caution.DROPOUT: "measured without Dropout or StochasticDepth: training with them has more noise",
    Caution.OWN_CODE: "own code, measured as it trains, including its masks' noise; batch statistics are of 16 images",
}
VERDICTS = {
    SizeVerdict.BEST: "best",
    SizeVerdict.WITHIN: "within 2 %",
    SizeVerdict.WORSE: "worse",
    SizeVerdict.UNCERTAIN: "uncertain",
}
HELD = {Holds.HOLDS: "holds", Holds.DOES_NOT: "does not hold", Holds.UNCERTAIN: "uncertain"}
Found = Largest | Best | SizePoint


def name_answered(answers: BatchAnswers) -> FrameworkNames:
    """Name the frameworks by the labels in the conditions of the answers."""
    labels = answers.conditions.get("labels")
    return name_frameworks(labels.items() if isinstance(labels, dict) else ())


def build_table(answers: BatchAnswers) -> Table:
    """Build the table of frameworks x answers; a dash has its reason as a footnote."""
    named = name_answered(answers)
    targets = list_targets(answers)
    shown: Columns = {
        "Framework": lambda each: TableCell(named(each.framework)),
        "Largest": SIZES["largest"],
        "Fastest": lambda each: _found(each, each.fastest),
        "Images/s": lambda each: _at_fastest(each, format_number, lambda speed: speed),
        "Epoch, s": lambda each: _at_fastest(each, "{:.1f}".format, lambda speed: _epoch_s(speed, answers)),
        "Energy": SIZES["energy"],
        "Noise scale": SIZES["noise"],
        **{f"To {100 * target:g} %": at_target(target) for target in targets},
    }
    rows = tuple(tuple(cell(each) for cell in shown.values()) for each in answers.frameworks)
    tidy = make_frame([_tidy(each, answers) for each in answers.frameworks])
    below = (HOW, OF_DEVICES) if any(each.devices > 1 for each in answers.frameworks) else (HOW,)
    return Table(NAME, "Which batch size", tuple(shown), rows, tidy, below=below)


def _at_fastest(each: Answers, form: Callable[[float], str], figure: Callable[[float], float | None]) -> TableCell:
    """Return the cell of a figure that follows from the speed at the fastest size."""
    speed = find_point(each.fastest, each.fastest.batch_size if each.fastest else None)
    value = figure(speed.mean) if speed else None
    return _judged(each, speed, TableCell(form(value), value)) if speed and value else TableCell(ABSENT)


def _judged(each: Answers, found: Found, cell: TableCell) -> TableCell:
    """Return the cell of a batch size, with how its ordinary trial ended unless that passed.

    As in every table, an unverified trial has no number.
    """
    trial = find_judged(each, found.batch_size)
    if trial is None:
        return replace(cell, notes=(*cell.notes, NOT_JUDGED))
    status = status_words(trial.status)
    if trial.status is Status.UNVERIFIED:
        return TableCell(status, notes=(f"{found.batch_size:,} is not an answer: {trial.reason}", *cell.notes))
    if trial.status not in PASSED:
        return replace(cell, notes=(*cell.notes, f"its ordinary trial: {status}: {trial.reason}"))
    return cell


def _epoch_s(speed: float, answers: BatchAnswers) -> float | None:
    """Time of an epoch over the training split at this speed in images/s."""
    images = answers.conditions.get("train_images")
    return images / speed if isinstance(images, int) and abs(images) < LARGEST and speed > 0 else None


def _size(batch_size: int | None, reason: str | None) -> TableCell:
    notes = (reason,) if reason else ()
    return TableCell(ABSENT, notes=notes) if batch_size is None else TableCell(f"{batch_size:,}", batch_size, notes)


def _found(each: Answers, found: Best | Largest | None) -> TableCell:
    if found is None:
        return TableCell(ABSENT)
    cell = _size(found.batch_size, found.reason)
    return _judged(each, found, cell) if found.batch_size else cell


def _largest(each: Answers) -> TableCell:
    cell, largest = _found(each, each.largest), each.largest
    if largest is None:
        return cell
    limit = f"{largest.limit_bytes / 2**20:,.0f} MiB"
    notes = [f"{limit}, {LIMIT_NAMES[largest.limit]}" + f": {largest.evidence}" * bool(largest.evidence)]
    notes += [f"{size:,} failed, but not for lack of memory: {why}" for size, why in largest.failed_otherwise.items()]
    if told := largest.speed.words if largest.speed else largest.speed_reason:
        notes.append(told)
    if larger := largest.larger_that_fit:
        notes.append(f"larger sizes that fitted once: {listed(f'{size:,}' for size in larger)}")
    return replace(cell, notes=(*cell.notes, *notes))


def _noise(noise: Noise | None) -> TableCell:
    if noise is None:
        return TableCell(ABSENT)
    notes = tuple(note for note in (noise.reason, *(CAUTIONS[each] for each in noise.cautions)) if note)
    if noise.agrees is False:
        notes += ("its gradients differ by more than rounding from those of the framework that trained",)
    if noise.noise_scale is None:
        return TableCell(ABSENT if noise.at_least is None else f"> {noise.at_least:,.0f}", notes=notes)
    text = f"{noise.noise_scale:,.0f}"
    if noise.low is not None and noise.high is not None:
        text += f" [{noise.low:,.0f}, {noise.high:,.0f}]"
    return TableCell(text, noise.noise_scale, notes)


def list_targets(answers: BatchAnswers) -> list[float]:
    """List the target accuracies that were asked for, in order: frameworks may have been asked for different ones."""
    return sorted({each.target.accuracy for each in answers.frameworks if each.target})


def at_target(accuracy: float) -> Callable[[Answers], TableCell]:
    """Return the column of the sizes that reach this accuracy soonest."""

    def found(each: Answers) -> TableCell:
        if each.target is None or each.target.accuracy != accuracy:
            return TableCell(ABSENT)
        return _size(each.target.batch_size, each.target.reason)

    return found


SIZES: dict[str, Callable[[Answers], TableCell]] = {  # {question: its column}
    "largest": _largest,
    "energy": lambda each: _found(each, each.least_energy),
    "noise": lambda each: _noise(each.noise),
}


def _tidy(each: Answers, answers: BatchAnswers) -> dict[str, Any]:
    """Build a row of the CSV."""
    largest, fastest, energy, noise = each.largest, each.fastest, each.least_energy, each.noise
    speed = find_point(fastest, fastest.batch_size if fastest else None)
    joules = find_point(energy, energy.batch_size if energy else None)
    size = choose_batch_size(each)
    trial = find_judged(each, size)
    return {
        "framework": each.framework,
        "largest": largest.batch_size if largest else None,
        "limit_bytes": largest.limit_bytes if largest else None,
        "largest_images_per_s": largest.speed.images_per_s if largest and largest.speed else None,
        "largest_over_best": largest.speed.compared.ratio if largest and largest.speed else None,
        "devices": each.devices,
        "fastest": fastest.batch_size if fastest else None,
        "images_per_s": speed.mean if speed else None,
        "epoch_s": _epoch_s(speed.mean, answers) if speed else None,
        "least_energy": energy.batch_size if energy else None,
        "energy_per_image_j": joules.mean if joules else None,
        "noise_scale": noise.noise_scale if noise else None,
        "noise_scale_low": noise.low if noise else None,
        "noise_scale_high": noise.high if noise else None,
        "target_accuracy": each.target.accuracy if each.target else None,
        "soonest_to_target": each.target.batch_size if each.target else None,
        "advised": size if passes(each, size) else None,
        "judged": trial.status.value if trial else None,
    }


def build_detail_tables(answers: BatchAnswers) -> list[Table]:
    """Build the tables with the data for the answers; empty ones are left out."""
    made: tuple[tuple[str, str, Callable[[Answers], Sequence[Any]]], ...] = (
        ("largest-proof", "Largest that fits: every trial", _tried),
        ("fastest-pairs", "Fastest: pairs of trials, in turn", lambda each: _ratios(each.fastest)),
        ("energy-pairs", "Least energy: pairs of trials", lambda each: _ratios(each.least_energy)),
        ("noise-scale", "Gradient noise scale along a training", lambda each: each.noise.points if each.noise else ()),
        ("to-target", "To the target accuracy", lambda each: each.target.reached if each.target else ()),
        ("then-train", "Trained at sizes found or asked for, and at the one in use", _trained),
        ("split", "A global batch in parts", lambda each: [each.split] if each.split else []),
    )
    tables, named = [], name_answered(answers)
    for name, title, of_framework in made:
        records = [
            {"Framework": named(each.framework), **_worded(record)}
            for each in answers.frameworks
            for record in of_framework(each)
        ]
        shown = {key: _cell_of(key) for key in (records[0] if records else ())}
        tables.append(Table(name, title, *build_rows(records, shown)))
    return [table for table in tables if table.rows]


def _cell_of(key: str) -> Callable[[Record], TableCell]:
    return lambda record: _cell(record[key])


def _cell(value: object) -> TableCell:
    if value is None or isinstance(value, bool):
        return TableCell("yes" if value else ABSENT)
    if isinstance(value, int | float):
        return TableCell(f"{value:,}" if isinstance(value, int) else f"{value:,.4g}", float(value))
    return TableCell(str(value))


def _tried(each: Answers) -> list[dict[str, Any]]:
    tried = (*each.largest.tried, *each.largest.around) if each.largest else ()
    return [{"trial": number, **asdict(trial)} for number, trial in enumerate(tried, start=1)]


def _ratios(best: Best | None) -> list[dict[str, Any]]:
    return [asdict(ratio) | {"verdict": VERDICTS[ratio.verdict]} for ratio in (best.ratios if best else ())]


def _trained(each: Answers) -> list[dict[str, Any]]:
    """Return a row for each size compared with the one in use."""
    return [
        {
            "batch_size": training.batch_size,
            "instead_of": training.in_use,
            "epochs_times_as_fast": training.speed_up,
            "times_low": training.speed_up_low,
            "times_high": training.speed_up_high,
            "accuracy_change_points": _points(training.accuracy_change),
            "points_low": _points(training.accuracy_low),
            "points_high": _points(training.accuracy_high),
            "pairs": training.repeats,
            "claim": HELD[training.verdict],
        }
        for training in each.trained
    ]


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _worded(record: Any) -> dict[str, Any]:
    """Turn the fields of a record into a row; heads are their names."""
    fields = record if isinstance(record, dict) else asdict(record)
    return {name.replace("_", " ").capitalize(): value for name, value in fields.items()}
