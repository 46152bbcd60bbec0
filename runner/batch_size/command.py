"""python -m runner batch-size: which batch size, asked of every framework; each answer is stored once it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from runner.batch_size import searches
from runner.batch_size.claims import trained
from runner.batch_size.largest import Bound
from runner.batch_size.memory_limit import bounded, limit_of
from runner.batch_size.noise import noise
from runner.batch_size.steps import StepTrials
from runner.batch_size.target import FEWEST, target
from runner.command import cli, inputs, own_data, setup
from runner.command.cli import Request
from runner.command.parser import BadInput, Parser, add_axes, add_shared, known, number, run_parser, whole
from runner.command.plan import plan_of
from runner.command.setup import installations, make_environments
from runner.environments import definition
from runner.project import Project
from runner.trial import now
from workloads.accumulation import parts_of
from workloads.records.batch_answers import ANSWERS_FILE, SCHEMA_VERSION, Answers, BatchAnswers, Split
from workloads.records.files import write_json
from workloads.records.job import ON_DEMAND
from workloads.records.result import TrialResult, no_target

LARGEST, FASTEST, LEAST_ENERGY, NOISE_SCALE = "largest", "fastest", "least-energy", "noise-scale"
ANSWERS = (LARGEST, FASTEST, LEAST_ENERGY, NOISE_SCALE)
RESULTS = Path("results") / "batch-size"
IN_USE = 64  # the batch size of the published work that others are held against
STEPS_WINDOW_S = 2.0  # of a trial of steps alone, where none is asked for

Train = Callable[[Request, Console], list[TrialResult]]


@dataclass(frozen=True)
class Question:
    """What is asked beside the study."""

    answers: tuple[str, ...]  # of ANSWERS
    in_use: int
    sizes: tuple[int, ...]  # to be trained beside the found ones
    target_accuracy: float | None
    then_train: bool
    global_batch: int | None
    window_s: float  # of a trial of steps alone


def request(arguments: Sequence[str], project: Project) -> tuple[Request, Question]:
    """Raises BadInput."""
    options = _parser().parse_args(arguments, run_parser().parse_args([]))
    answers = tuple(known("answer", name, ANSWERS) for name in options.answers)
    if reason := no_target(options.target_accuracy):
        raise BadInput(reason)
    for name in ("in_use", "global_batch"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise BadInput(f"--{name.replace('_', '-')} {value}: must be 1 or more")
    if options.models:
        raise BadInput("--model: not for batch-size, whose gradients and parts need the network")
    cli.need_scipy("batch-size")
    sizes, options.batch_sizes = tuple(options.batch_sizes or ()), [options.in_use]
    options.results = options.results or RESULTS
    window_s = STEPS_WINDOW_S if options.window_s is None else options.window_s
    if options.repeats is None and (options.then_train or options.target_accuracy is not None):
        options.repeats = FEWEST
    question = Question(
        answers,
        options.in_use,
        sizes,
        options.target_accuracy,
        options.then_train,
        options.global_batch,
        window_s,
    )
    asked = cli.request(options, project)
    if any(part.study.devices > 1 for part in asked.parts.values()):
        raise BadInput("--devices: not for batch-size, whose answers are of one device")
    return asked, question


def _parser() -> Parser:
    parser = Parser(
        prog="python -m runner batch-size",
        description="Which batch size: the largest that fits, the fastest, that of least energy, and the gradient "
        "noise scale, for each framework, with the trials that prove it.",
    )
    add_shared(parser)
    add_axes(parser)
    parser.add_argument("--answer", dest="answers", nargs="+", default=list(ANSWERS), metavar="ANSWER",
                        help=f"some of {', '.join(ANSWERS)} (default: all)")  # fmt: skip
    parser.add_argument("--in-use", type=whole, default=IN_USE, metavar="N",
                        help=f"the batch size that others are held against (default: {IN_USE})")  # fmt: skip
    parser.add_argument("--target-accuracy", type=number, metavar="SHARE", help="train at the found sizes, the one in "
                        "use and those of --batch-size: which reaches this test accuracy soonest, as 0.6")  # fmt: skip
    parser.add_argument("--then-train", action="store_true", help="train at the found sizes and at the one in use: "
                        "time and accuracy side by side")  # fmt: skip
    parser.add_argument("--global-batch", type=whole, metavar="N", help="wished for one update: in how many parts it "
                        "fits where it does not fit at once")  # fmt: skip
    return parser


class AnswersFile:
    """ANSWERS_FILE, written anew with every answer."""

    def __init__(self, request: Request, question: Question, bound: Bound) -> None:
        """Nothing is written yet."""
        self.path = request.results / ANSWERS_FILE
        self.conditions, self.in_use = conditions_of(request, bound), question.in_use
        self.answers = {name: Answers(name) for name in request.frameworks}

    def store(self, framework: str, **known_now: Any) -> None:
        """What is known of the framework by now."""
        self.answers[framework] = replace(self.answers[framework], **known_now)
        frameworks = tuple(self.answers.values())
        write_json(self.path, asdict(BatchAnswers(SCHEMA_VERSION, self.conditions, self.in_use, frameworks)))


def conditions_of(request: Request, bound: Bound) -> dict[str, Any]:
    """Of all answers: as of every command, and what is trained under which limit."""
    return setup.conditions_of(request) | {
        "started_at": now(),
        "train_images": request.dataset.train_count,
        "optimizer": asdict(request.study.optimizer_spec),
        "epochs": request.study.epochs,
        "limit_bytes": bound.limit_bytes,
        "labels": {name: definition.label(request.project, name) for name in request.frameworks},
    }


def run(request: Request, question: Question, train: Train, console: Console) -> int:
    """Asks, prints and stores; the exit code: 1 where a search had no answer or a training did not end well.

    `train` runs the trials of a study.
    """
    try:
        bound = Bound(*limit_of(request))
    except LookupError as error:
        raise BadInput(f"{error}: nobody can say what fits; name another --device") from error
    request = own_data.prepared(request, console)
    data = inputs.write_data(request, console)
    launchers = make_environments(request, console)
    installed = installations(request)
    written = inputs.write_repeats(request, data, range(1))
    file = AnswersFile(request, question, bound)
    limited = replace(request, study=request.study.changed(window_s=question.window_s))
    limited = bounded(limited, bound.limit, bound.limit_bytes)
    if request.placement.memory_limit_bytes is not None:  # what is then trained is bounded as what was searched
        request = replace(request, placement=limited.placement)
    steps = StepTrials.of(limited, installed, written, launchers)
    for framework in request.frameworks:
        _search(searches.Search(framework, steps, bound, console), question, file)
    if NOISE_SCALE in question.answers:
        trials = plan_of(request, installed, range(1), written).trials
        specs = [spec for spec in trials if spec.cell.allocator == ON_DEMAND]
        for framework, answer in noise(specs, launchers, request.results).items():
            file.store(framework, noise=answer)
    if question.then_train or question.target_accuracy is not None:
        _train(request, question, train, file, console)
    return int(any(unanswered(answers, question) for answers in file.answers.values()))


def _search(search: searches.Search, question: Question, file: AnswersFile) -> None:
    """Of one framework: what trials of steps alone can tell."""
    framework = search.framework
    if LARGEST in question.answers or question.global_batch is not None:
        file.store(framework, largest=search.largest(), memory=search.memory(), version=search.version)
    fitting = file.answers[framework].largest
    if FASTEST in question.answers:
        file.store(framework, fastest=search.fastest(fitting), memory=search.memory(), version=search.version)
    if LEAST_ENERGY in question.answers:
        file.store(framework, least_energy=search.least_energy(fitting), memory=search.memory(), version=search.version)
    if question.global_batch is not None and fitting is not None and fitting.batch_size:
        parts, batch_size = parts_of(question.global_batch, fitting.batch_size)
        file.store(framework, split=Split(question.global_batch, parts, batch_size))


def _train(request: Request, question: Question, train: Train, file: AnswersFile, console: Console) -> None:
    """At the size in use, the found ones and those that were asked for: every framework at each of them."""
    found = {size for answers in file.answers.values() for size in found_sizes(answers)}
    sizes = tuple(sorted({question.in_use, *question.sizes, *found}))
    console.print(f"training at batch sizes {', '.join(map(str, sizes))}")
    results = train(replace(request, study=request.study.changed(batch_sizes=sizes)), console)
    for framework in request.frameworks:
        chosen = [
            result
            for result in results
            if result.spec.cell.framework == framework and result.spec.cell.allocator == ON_DEMAND
        ]
        if question.target_accuracy is not None:
            file.store(framework, target=target(chosen, question.target_accuracy))
        if question.then_train:
            others = sorted(found_sizes(file.answers[framework]) - {question.in_use})
            file.store(framework, trained=tuple(trained(chosen, question.in_use, size) for size in others))


def found_sizes(answers: Answers) -> set[int]:
    """Batch sizes to train with: the fastest and that of least energy."""
    sizes = (best.batch_size for best in (answers.fastest, answers.least_energy) if best)
    return {size for size in sizes if size is not None}


def unanswered(answers: Answers, question: Question) -> bool:
    """Whether a search had no answer: not so of the energy, for which a machine may have no counter."""
    asked = {LARGEST: answers.largest, FASTEST: answers.fastest}
    return any(each is None or each.batch_size is None for name, each in asked.items() if name in question.answers)
