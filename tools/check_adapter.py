"""Check a new framework with the conformance suite, rung by rung.

python -m tools.check_adapter NAME [--adapters DIR] [--from RUNG]

Stops at the first rung that fails, and says what to look at. A rung does not need the later ones. `--from` skips
the rungs before that one, except the first three, which take no time once they pass.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import Any

from runner.environments import venv
from runner.environments.definition import BadDefinition, EnvironmentUnavailable, list_variants, read
from workloads import program
from workloads.command_line import CommandLine
from workloads.records.files import RESULT_FILE
from workloads.records.status import Status
from workloads.temporary import new_folder

ROOT = Path(__file__).resolve().parents[1]
GUIDE = "docs/extend/adapter-reference.md"

LOOK_AT = {
    "structure": "weights(): keys, canonical layouts; memory(): 4 bytes per parameter, not counted twice",
    "round_trip": "build() and weights(): transposed alike, and copied; probe(): it must change neither weights nor "
    "running statistics",
    "forward": "predict(): scale of the images, evaluation mode, padding, order of a Flatten; logits, no softmax",
    "layers": "probe(): the output of every layer of workload.walk(), by its name and in that order",
    "outputs": "the layer that is named; outputs of a probe are in training mode, activations NHWC",
    "gradients": "probe(): the loss is the batch's mean; gradients in canonical layouts",
    "own_gradients": "the parameter that is named: its gradient is small compared with the others', and wrong",
    "losses": "probe(), step 1: the batch's mean loss, before its update; a later step: the optimizer's rule "
    "(workloads/spec.py), `rates[number]`, then whether each row of `order` is one step",
    "updates": "the optimizer: what workloads/spec.py says about its rule, epsilon and weight decay; as all losses "
    "agree, also weights(): a copy, made after all updates",
    "weights": "what a step keeps: momentum without the rate, Adam's count of steps, statistics (biased variance)",
    "evaluation": "running statistics of BatchNorm, their momentum and epsilon; partial batches",
    "optimizer_state": "memory(): as many values per parameter as workloads.spec.SLOTS says, and a few scalars",
    "dropout": "Dropout, StochasticDepth: off in evaluation, kept values are divided by 1 - rate, masks follow "
    "build()'s seed; StochasticDepth drops whole images",
}
OWN_CODE = "the last line of your own code in the traceback"

Rung = tuple[str, Callable[[], None]]  # what is checked, in words, and the check, which raises Fallen


class Fallen(Exception):
    """A rung failed: what is wrong, and what to look at."""


ALWAYS = 3  # rungs that are always checked: the later ones rest on them
PROGRESS_S = 10.0
RUNGS = (PLAIN, LAYERS, OPTIMIZERS, PARTIAL, DROPOUT, LARGE) = (
    "the plain network with plain SGD",
    "every layer of the vocabulary",
    "the optimizers",
    "partial batches, images with exact zeros",
    "Dropout and StochasticDepth",
    "the networks of the catalogue",
)
LAST = ALWAYS + len(RUNGS) + 1


def rung_of(case: Any) -> str:
    """Return the first of RUNGS that includes this case of the suite."""
    if case.workload.draws:
        return DROPOUT
    if case.large:
        return LARGE
    if case.sizes or case.blank:
        return PARTIAL
    if case.optimizer.name == "sgd" and not case.optimizer.weight_decay and case.optimizer.schedule == "constant":
        return PLAIN if case.workload.name == "plain" else LAYERS
    return OPTIMIZERS if case.workload.name in ("plain", "batchnorm") else LAYERS


class Ladder:
    """The rungs of one framework. `suite` is the module tests/conformance/suite.py, whose project has the framework."""

    def __init__(self, suite: Any, name: str, folder: Path) -> None:
        self.suite, self.project, self.name, self.folder = suite, suite.PROJECT, name, folder

    def rungs(self) -> Iterator[Rung]:
        """Yield the rungs in order; each raises Fallen if it fails."""
        yield "the definition can be read", self.definition
        yield "imports", self.imports
        yield "the environment is made, its smoke import passes", self.environment
        yield from ((title, partial(self.conform, names)) for title, names in self.cases().items())
        yield "one trial through the gate, with a report", self.trial

    def cases(self) -> dict[str, list[str]]:
        """{title of a rung: its cases}, in the order of RUNGS."""
        chosen: dict[str, list[str]] = {title: [] for title in RUNGS}
        for case in self.suite.cases_of(self.name):
            chosen[rung_of(case)].append(case.name)
        return chosen

    def definition(self) -> None:
        """Check that its environment.toml has every key, that adapter.py exists, and known_deviations.toml."""
        try:
            read(self.project, self.name, "cpu")
            kinds = [read(self.project, self.name, kind) for kind in list_variants(self.project, self.name)]
        except (BadDefinition, EnvironmentUnavailable) as error:
            raise Fallen(str(error), f'{GUIDE}, "environment.toml"') from error
        if not (self.project.folder(self.name) / "adapter.py").is_file():
            raise Fallen(f"{self.project.folder(self.name)} has no adapter.py", "python -m adapters new NAME")
        for found in (kind for kind in kinds if not kind.in_base):
            needed = {"requires": found.requires, "pins": found.pins.strip()}
            if missing := [key for key, value in needed.items() if not value]:
                look_at = "python tools/pin.py REQUIREMENT... prints `pins` for what `requires` lists"
                raise Fallen(f"[{found.device_kind}] of environment.toml lacks {' and '.join(missing)}", look_at)
        try:
            self.suite.known_deviations(self.name)
        except AssertionError as error:
            raise Fallen(str(error), f'{GUIDE}, "Known deviations"') from error

    def imports(self) -> None:
        """Check that its files import only what an adapter may."""
        table = import_module("test_import_table")
        modules = table.own_modules(ROOT) | {self.name: frozenset(read(self.project, self.name, "cpu").imports)}
        folder = self.project.folder(self.name)
        for path in sorted(folder.rglob("*.py")):
            file = Path("adapters", self.name, path.relative_to(folder))
            try:
                forbidden = table.violations(path.read_text(encoding="utf-8-sig"), file, modules)
            except (SyntaxError, ValueError) as error:
                raise Fallen(f"{path}: {error}", "this file: it must be Python, in UTF-8") from error
            for wrong in forbidden:
                raise Fallen(wrong, "`imports` of environment.toml: the framework's own modules. Also workloads, "
                             "adapters.base and numpy may be imported")  # fmt: skip

    def environment(self) -> None:
        """Make its environment and the referee's, which it is compared with, for the CPU, where they are not ready."""
        try:
            for name in dict.fromkeys((self.name, self.suite.REFEREE)):
                venv.make(read(self.project, name, "cpu"), partial(print, flush=True))
        except EnvironmentUnavailable as error:
            raise Fallen(str(error), "the log, `pins` (python tools/pin.py REQUIREMENT...) and `smoke`") from error

    def conform(self, names: list[str]) -> None:
        """Check each case in the order of the suite, with each check in the order of its CHECKS. If the adapter's
        process died, the cases that it had computed are checked first: they may show why.
        """
        suite = self.suite
        cases = {name: suite.CASES[name] for name in names}
        answers = suite.Found(self.folder / names[0], cases)
        computed = {answers.folder / self.name / f"{name}.npz" for name in names}
        computed |= {answers.folder / suite.settings.TRUTH / f"{case.twin}.npz" for case in cases.values()}
        broken = ""
        for name, case in cases.items():
            with progress(computed):
                arrays, why = self._load_arrays(answers, case)
                truth = self._load_truth(answers, case)
            broken = broken or why
            if not why and (others := answers.modules(self.name) & suite.imports_of_others(self.name)):
                raise Fallen(f"{', '.join(sorted(others))} is loaded, too", "what adapter.py imports")
            seen = suite.Seen(case, arrays, truth, answers.initial(case))
            for check, wrong in suite.checks_of(case).items():
                known = suite.known_deviations(self.name).get((case.twin, check))
                if fault := suite.verdict(wrong(seen), known):
                    raise Fallen(f"{name}: {check}: {fault}", LOOK_AT[check])
        if broken:
            raise Fallen(broken, OWN_CODE)

    def _load_arrays(self, answers: Any, case: Any) -> tuple[Any, str]:
        """Return what the adapter computed in this case, and why its process died later; empty if it did not."""
        try:
            return answers.of(self.name, case), ""
        except AssertionError as error:
            computed = answers.folder / self.name / f"{case.name}.npz"
            if not computed.is_file():
                raise Fallen(str(error), OWN_CODE) from error
            return self.suite.load(computed), str(error)

    def _load_truth(self, answers: Any, case: Any) -> Any:
        """Return what the referee computes in float64."""
        try:
            return answers.of(self.suite.settings.TRUTH, case)
        except AssertionError as error:
            raise Fallen(str(error), "the referee's environment") from error

    def trial(self) -> None:
        """Run a trial of the framework and the referee with the runner. Other processes may disturb it. The gate asks
        the same then, so only the runner's own second attempt is made.
        """
        results, outside = self.folder / "trial", self.project.adapters_outside
        command = [sys.executable, "-m", "runner", "--framework", *dict.fromkeys((self.name, "numpy"))]
        command += ["--device", "cpu", "--results", str(results), *(("--adapters", str(outside)) if outside else ())]
        command += ["--batch-size", "32", "--epochs", "1", "--window", "1"]
        if subprocess.run(command, cwd=ROOT).returncode:
            raise Fallen("the trial did not end ok", f"the output above, and {results}")
        for path in sorted(results.glob(f"trials/*/{RESULT_FILE}")):
            result = json.loads(path.read_text(encoding="utf-8"))
            own, status = result["spec"]["cell"]["framework"] == self.name, result["status"]
            if own and status not in (Status.OK, Status.CONTENDED):  # the exit code is 0 if it diverged, for example
                raise Fallen(f"the trial ended {status}: {result['reason']}", f"the output above, and {path.parent}")


@contextmanager
def progress(files: Iterable[Path]) -> Iterator[None]:
    """Print every PROGRESS_S how many files are computed, and for how long the rung has waited for the others."""
    files, begun_s, over = list(files), time.monotonic(), Event()

    def say() -> None:
        while not over.wait(PROGRESS_S):
            done = sum(path.exists() for path in files)
            print(f"   {done} of {len(files)} computed, {time.monotonic() - begun_s:.0f} s", flush=True)

    speaker = Thread(target=say, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()


def climb(rungs: Iterator[Rung], first: int = 1) -> int:
    """Return the exit code: 0, or 1 if a rung fails. Rungs before `first` are left out, except the ALWAYS
    first.
    """
    for number, (title, ask) in enumerate(rungs, start=1):
        if ALWAYS < number < first:
            print(f"{number}. {title}: skipped")
            continue
        print(f"{number}. {title} ...", flush=True)
        try:
            ask()
        except Fallen as fallen:
            wrong, look_at = fallen.args
            print(f"{number}. {title}: NOT YET\n  {wrong}\n  look at: {look_at}")
            if number > ALWAYS:
                print(f"  to start again here: FROM={number} (--from {number})")
            return 1
        print(f"{number}. {title}: passed", flush=True)
    print("All passed." if first <= ALWAYS + 1 else "Each rung that ran passed.", "make test-all runs the rest.")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: that of `climb`, or 2 with one line where there is no such framework."""
    program.outlast_readers()
    parser = CommandLine(prog="python -m tools.check_adapter", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="the framework's folder")
    parser.add_argument("--adapters", type=Path, metavar="DIR", help="the folder that contains it (default: adapters/)")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="RUNG", choices=range(1, LAST + 1),
                        help="number of the first rung to check")  # fmt: skip
    words = parser.parse_args(arguments)
    folder = (words.adapters or ROOT / "adapters").resolve() / words.name
    if not (folder / "environment.toml").is_file():
        print(f"check_adapter: {folder} has no environment.toml; python -m adapters new writes one", file=sys.stderr)
        return 2
    if words.adapters:
        os.environ["BATCHWISE_ADAPTERS"] = str(words.adapters.resolve())  # the suite looks for it there, too
    sys.path[:0] = [str(ROOT / path) for path in ("tests", "tests/conformance", "tests/imports")]
    results = new_folder("check_adapter-")
    try:
        suite = import_module("suite")  # it reads the definitions
    except BadDefinition as error:
        print(f"1. the definition can be read: NOT YET\n  {error}\n  look at: {folder / 'environment.toml'}")
        return 1
    return climb(Ladder(suite, words.name, results).rungs(), words.first)


if __name__ == "__main__":
    sys.exit(main())
