"""Run `python -m runner batch-size`: find batch sizes for every framework; each answer is stored once it is known."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from rich.console import Console

from runner import show
from runner.batch_size.answers_file import AnswersFile
from runner.batch_size.judged import judge_sizes, list_not_recommended
from runner.batch_size.memory_limit import bound_request
from runner.batch_size.noise import measure_noise, read_version
from runner.batch_size.question import (
    ANSWERS,
    FASTEST,
    FIELDS,
    LARGEST,
    LEAST_ENERGY,
    NOISE_SCALE,
    Question,
    SearchDisplay,
    find_bound,
    forecast_answers,
    print_forecast,
    refuse_devices,
)
from runner.batch_size.searches import Search, count_largest
from runner.batch_size.steps import StepTrials
from runner.machine.description import is_of_this_computer
from runner.project import RESULTS, Project
from runner.proof import prove_searches
from runner.request import cli, data_sets, inputs, own_data
from runner.request.cli import Request
from runner.request.parser import BadInput, Parser, add_axes, add_shared, need_known, number, run_parser, whole
from runner.request.plan import build_plan
from runner.setup import collect_installations, make_environments
from workloads.records.advice import choose_batch_size
from workloads.records.batch_answers import Answers
from workloads.records.job import ON_DEMAND
from workloads.records.result import TrialResult, refuse_target
from workloads.records.status import HARMLESS
from workloads.study import Study, StudyError
from workloads.trainings import FEWEST, target, trained
from workloads.words import format_count

BATCH_SIZE_RESULTS = RESULTS / "batch-size"
IN_USE = 64  # the batch size of the published work, with which others are compared
STEPS_WINDOW_S = 2.0  # of a trial of steps only, by default
USUAL = ("--framework", "--workload", "--dataset", "--memory-limit", "--answer", "--in-use", "--results", "--plan")

# Options of a run that this command rejects, by what they are parsed into; its help does not show them.
REFUSED = {
    "blocks": ("--blocks", "which searches for sizes itself: give it to python -m runner"),
    "accumulate": ("--accumulate", "whose sizes are those of whole updates: give --global-batch N"),
}
OF_THIS_COMMAND = {  # help of shared options that differs here
    "batch_sizes": "train these, too, with --then-train or --target-accuracy, e.g. 100 127 or 100,127",
    "repeats": f"repeats of each training, with --then-train or --target-accuracy (default: {FEWEST})",
    "results": f"where results go (default: {BATCH_SIZE_RESULTS})",
    "window_s": f"length of the steady window of each trial (default: {STEPS_WINDOW_S:g} while searching)",
}

Train = Callable[[Request, Console, Collection[tuple[str, int]]], list[TrialResult]]  # of (framework, batch size)


def build_request(arguments: Sequence[str], project: Project) -> tuple[Request, Question]:
    """Return the checked request and the question. Raises BadInput."""
    options = build_parser().parse_args(arguments, run_parser().parse_args([]))
    answers = tuple(need_known("answer", name, ANSWERS) for name in options.answers)
    if reason := refuse_target(options.target_accuracy):
        raise BadInput(reason)
    for name in ("in_use", "global_batch"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise BadInput(f"--{name.replace('_', '-')} {value}: must be 1 or more")
    _refuse(options)
    cli.need_scipy("batch-size")
    sizes, options.batch_sizes = read_sizes(options), [options.in_use]
    options.results = options.results or BATCH_SIZE_RESULTS
    window_s = STEPS_WINDOW_S if options.window_s is None else options.window_s
    repeated = options.repeats is not None
    if not repeated and (options.then_train or options.target_accuracy is not None):
        options.repeats = FEWEST
    others = tuple(size for size in sizes if size != options.in_use)
    asked = options.in_use, others, options.target_accuracy, options.then_train, options.global_batch
    question = Question(answers, *asked, window_s)
    if sizes and not question.trains:
        raise BadInput("--batch-size: sizes to be trained; add --then-train or --target-accuracy, or leave it out")
    if repeated and not question.trains:
        raise BadInput("--repeat: repeats of trainings; add --then-train or --target-accuracy, or leave it out")
    if options.devices not in (None, 1):  # as a plan: what is refused leaves no results folder
        refuse_devices(cli.build_request(argparse.Namespace(**{**vars(options), "plan": True}), project), question)
    request = cli.build_request(options, project)
    build_trainings(request, question)
    return request, question


def read_sizes(options: argparse.Namespace) -> tuple[int, ...]:
    """Return the sizes of --batch-size. Raises BadInput, as a run of them does."""
    try:
        return Study("sizes", batch_sizes=tuple(options.batch_sizes)).batch_sizes if options.batch_sizes else ()
    except StudyError as error:
        raise BadInput(f"--batch-size: {error}") from error


def build_trainings(request: Request, question: Question) -> Study:
    """Return the study of the size in use and of the sizes of --batch-size. Raises BadInput."""
    trainings = request.study.changed(batch_sizes=(question.in_use, *question.sizes))
    data_sets.check_last_batch(trainings, request.dataset)
    return trainings


def _refuse(options: argparse.Namespace) -> None:
    """Raises BadInput for an option that this command cannot use."""
    for name, (option, reason) in REFUSED.items():
        if getattr(options, name) not in (None, [], 1):
            raise BadInput(f"{option}: not for batch-size, {reason}")


def build_parser() -> Parser:
    """Return the parser of `python -m runner batch-size`."""
    parser = Parser(
        USUAL,
        prog="python -m runner batch-size",
        description="Find a batch size: the largest that fits, the fastest, the one with least energy; and "
        "the gradient noise scale, for each framework, with the trials that prove it.",
    )
    parser.add_argument("--plan", action="store_true", help="print what will be tried, by which limits, and about how "
                        "long it takes; runs nothing")  # fmt: skip
    add_shared(parser)
    add_axes(parser)
    parser.say_of(OF_THIS_COMMAND | dict.fromkeys(REFUSED, argparse.SUPPRESS))
    parser.add_argument("--answer", dest="answers", nargs="+", default=list(ANSWERS), metavar="ANSWER",
                        help=f"one or more of {', '.join(ANSWERS)} (default: all)")  # fmt: skip
    parser.add_argument("--in-use", type=whole, default=IN_USE, metavar="N",
                        help=f"the batch size that others are compared with (default: {IN_USE})")  # fmt: skip
    parser.add_argument("--target-accuracy", type=number, metavar="SHARE", help="train at the found sizes, the one in "
                        "use and those of --batch-size; say which reaches this accuracy first, e.g. 0.6")  # fmt: skip
    parser.add_argument("--then-train", action="store_true", help="train every framework at all found sizes and at "
                        "the one in use, each in turn: time and accuracy side by side")  # fmt: skip
    parser.add_argument("--global-batch", type=whole, metavar="N", help="images of one update; report how many "
                        "parts they need if they do not fit at once")  # fmt: skip
    return parser


def print_plan(request: Request, question: Question, console: Console) -> None:
    """Print what a run would try; nothing is started. Raises BadInput."""
    bound = find_bound(request, question)
    request = own_data.prepare_images(request, console)
    print_forecast(request, question, forecast_answers(request, question, bound), console)


def run(request: Request, question: Question, train: Train, console: Console) -> int:
    """Ask all questions, print and store the answers, and return the exit code.

    It is 1 where a search had no answer or a training went wrong. `train` runs the trials of a study.
    """
    bound = find_bound(request, question)
    request = own_data.prepare_images(request, console)
    trainings = build_trainings(request, question)
    inputs.compute_rates(trainings, request.dataset.train_count)  # refused before the searches, not after them
    expected = forecast_answers(request, question, bound)
    print_forecast(request, question, expected, console)
    data = inputs.write_data(request, console)
    launchers = make_environments(request, console)
    installed = collect_installations(request)
    written = inputs.write_repeats(request, data, range(1))
    file = AnswersFile(request, question, bound, console)
    limited = replace(request, study=request.study.changed(window_s=question.window_s))
    steps = StepTrials.prepare(bound_request(limited, bound.limit, bound.limit_bytes), installed, written, launchers)
    prove_searches(list(steps.specs.values()), request, launchers, console)
    with SearchDisplay(console, expected) as display:
        for framework in request.frameworks:
            _search(Search(framework, steps, bound, console, display.tried, display.advice), question, file, display)
        if NOISE_SCALE in question.answers:
            display.begin("all", NOISE_SCALE)
            trials = build_plan(request, installed, range(1), written).trials
            specs = [spec for spec in trials if spec.cell.allocator == ON_DEMAND]
            answers = measure_noise(specs, launchers, request.results)
            for spec in specs:
                steps.storage.whole(spec, launchers[spec.cell.framework])
            for framework, answer in answers.items():
                file.store(framework, noise=answer, version=read_version(request.results, answer))
    results = _train(request, question, train, file, console)
    show.print_failures(results, console)
    unanswered = (is_unanswered(file.answers[name], question) for name in request.frameworks)
    return int(any(each.status not in HARMLESS for each in results) or any(unanswered))


def _search(search: Search, question: Question, file: AnswersFile, display: SearchDisplay) -> None:
    """Run the searches of one framework: those that need only trials of steps."""
    framework = search.framework
    searched = {LARGEST: search.largest, FASTEST: search.fastest, LEAST_ENERGY: search.least_energy}
    for name in question.searches:
        display.begin(framework, name)
        answer = {FIELDS[name]: searched[name]()}
        file.store(framework, **answer, memory=search.memory(), version=search.version)
    if LARGEST in question.searches:
        file.store(framework, largest=search.compare_largest(), memory=search.memory())
    if question.global_batch is not None and (split := search.split(question.global_batch)) is not None:
        file.store(framework, split=split)


def _train(
    request: Request, question: Question, train: Train, file: AnswersFile, console: Console
) -> list[TrialResult]:
    """Train every found size in ordinary trials of its framework, so that the gate and all other checks judge it.

    Returns these trials.

    If trainings were requested, every framework trains at each found size, each requested size and the one in use.
    """
    searched, why = [file.answers[name] for name in request.frameworks], partial(find_obstacle, request)
    for line in explain_untrained(searched, question, why):
        console.print(line)
    found = {each.framework: {size for size in list_found_sizes(each, question) if not why(size)} for each in searched}
    cells = {(name, size) for name, sizes in found.items() for size in sizes}
    if question.trains:
        every = {question.in_use, *question.sizes, *(size for _, size in cells)}
        cells = {(name, size) for name in request.frameworks for size in every}
    if not cells:
        return []
    sizes = tuple(sorted({size for _, size in cells}))
    console.print(f"training at batch sizes {', '.join(map(str, sizes))}")
    repeats = request.study.repeats if question.trains else 1
    # A size that filled the machine's memory in a search may do so again. The search's limit protects other processes.
    asked = request if question.trains else bound_request(request, file.bound.limit, file.bound.limit_bytes)
    study = request.study.changed(batch_sizes=sizes, repeats=repeats)
    results = [each for each in train(replace(asked, study=study), console, cells) if _is_plain(each)]
    here = [result for result in results if is_of_this_computer(result.machine)]
    if elsewhere := len(results) - len(here):
        trainings = format_count(elsewhere, "training")
        console.print(f"{trainings} ran on another computer: not counted; train again here with another --results")
    for framework in request.frameworks:
        chosen = [result for result in here if result.spec.cell.framework == framework]
        file.store(framework, judged=tuple(judge_sizes(chosen, found[framework])))
        for line in list_not_recommended(file.answers[framework]):
            console.print(line)
        if question.target_accuracy is not None:
            file.store(framework, target=target(chosen, question.target_accuracy))
        if question.then_train:
            others = sorted({*found[framework], *question.sizes} - {question.in_use})
            file.store(framework, trained=tuple(trained(chosen, question.in_use, size) for size in others))
    return results


def _is_plain(result: TrialResult) -> bool:
    """True for a trial whose framework takes memory as it is needed."""
    return result.spec.cell.allocator == ON_DEMAND


def list_found_sizes(answers: Answers, question: Question) -> set[int]:
    """Return the batch sizes to train with: all that were requested and found, and the one that may be recommended."""
    return {size for size in (*_found(answers, question).values(), choose_batch_size(answers)) if size}


def _found(answers: Answers, question: Question) -> dict[str, int | None]:
    every = {name: getattr(answers, FIELDS[name]) for name in question.trained_answers}
    return {name: answer.batch_size for name, answer in every.items() if answer}


def find_obstacle(request: Request, batch_size: int) -> str | None:
    """Return why no training is possible at this batch size; None if one is."""
    images = count_largest(request)
    if batch_size > images:
        return f"an epoch has {images:,} images{' for each device' * (request.placement.devices > 1)}"
    try:
        inputs.compute_rates(request.study.changed(batch_sizes=(batch_size,)), request.dataset.train_count)
    except BadInput as error:
        return str(error)
    return None


def explain_untrained(every: Iterable[Answers], question: Question, why: Callable[[int], str | None]) -> Iterator[str]:
    """Return a line for each answer that is not trained: none was found, or something is in its training's way."""
    for answers in every:
        for name, size in _found(answers, question).items():
            if not size:
                yield f"{answers.framework}: {name}: no batch size was found, so none is trained for it"
            elif reason := why(size):
                yield f"{answers.framework}: {name}: {size:,} is not trained: {reason}"


def is_unanswered(answers: Answers, question: Question) -> bool:
    """True if a search had no answer, or no worker measured the noise. Energy is exempt, because a machine may have no
    counter for it.
    """
    sizes = _found(answers, question)
    if NOISE_SCALE in question.answers and (answers.noise is None or answers.noise.folder is None):
        return True
    return any(sizes.get(name) is None for name in question.trained_answers if name != LEAST_ENERGY)
