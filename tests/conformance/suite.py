"""The conformance suite: every adapter of the project, case by case, compared with the referee in float64.

A check returns what is wrong, as text, or an empty text. Tests and deliberately broken adapters use the same checks.
"""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import settings
from conftest import PROJECT, once
from settings import CASES, Arrays, Case

from adapters.base import MEMORY_KINDS
from adapters.worker.end_probe import neighbours
from runner.environments.definition import (
    build_worker_variables,
    is_core,
    read,
    read_profiles,
)
from runner.gate.sizes import compare_names
from workloads.layers import Masked, StochasticDepth
from workloads.records.build import DEFAULT, FLOAT32, FLOAT64, Column, Mode
from workloads.records.evidence import Evidence
from workloads.spec import SLOTS
from workloads.words import compare_with_allowed

HERE = Path(__file__).parent
# The thesis', the referee, and what was asked for. Others have tests of their own, which make their environments.
FRAMEWORKS = [name for name in PROJECT.frameworks if is_core(PROJECT, name) or PROJECT.is_outside(name)]
REFEREE = "numpy"
SAME_MASKS = 1e-5  # relative: losses under the same masks
DEVIATIONS_FILE = "known_deviations.toml"  # in a framework's folder


def cases_of(framework: str) -> list[Case]:
    """Return the cases in the profiles that the framework has."""
    return [case for case in CASES.values() if case.profile in read_profiles(PROJECT, framework)]


def threads(count: int) -> dict[str, str]:
    """Return the variables for so many threads."""
    return dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(count))


def run_probe(
    framework: str, module: str, mode: Mode, inputs: Path, out: Path, cases: list[Case], **variables: str
) -> None:
    """Run `probe.py` in the framework's environment."""
    names = [case.name for case in cases]
    out.mkdir(exist_ok=True)
    arguments = (module, mode.profile, mode.precision, str(inputs), str(out), *names)
    run_in(framework, HERE / "probe.py", *arguments, **variables)


def run_in(framework: str, script: Path, *arguments: str, **variables: str) -> str:
    """Run the script in the framework's environment and return what it prints. A missing environment is a failure."""
    environment = read(PROJECT, framework, "cpu")
    assert environment.state == "ready", f"{environment.folder} is {environment.state}: make setup"
    done = subprocess.run(
        [environment.interpreter, script, *arguments],
        env={
            "PATH": os.environ["PATH"],
            **threads(settings.AT_ONCE),
            "OMP_WAIT_POLICY": "PASSIVE",  # waiting threads would take cores from other processes
            **PROJECT.import_variables,
            **build_worker_variables(environment),
            **variables,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr[-3000:]}"
    return done.stdout


@lru_cache(maxsize=4)  # a case's checks follow each other
def load(path: Path) -> Arrays:
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


class Found:
    """Arrays and evidence of frameworks for some cases. Each framework runs once per session, in one process per
    profile; the first of the session's processes to ask starts it."""

    def __init__(self, folder: Path, cases: Mapping[str, Case] = CASES, **variables: str) -> None:
        self.folder, self.inputs, self.cases, self.variables = folder, folder / "inputs", cases, variables
        self.folder.mkdir(exist_ok=True)
        once(self.inputs, self._write_inputs)

    def _write_inputs(self) -> None:
        self.inputs.mkdir()
        for name, case in self.cases.items():
            if case.profile != DEFAULT:
                continue
            np.savez(self.inputs / f"{name}.npz", **settings.prepare(case))  # type: ignore[arg-type]  # as in probe.py

    def initial(self, case: Case) -> Arrays:
        return under(load(self.inputs / f"{case.twin}.npz"), "initial/")

    def of(self, who: str, case: Case, framework: str = "", module: str = "", only: tuple[str, ...] = ()) -> Arrays:
        """Return a case's arrays. `who` is a framework, the truth, or a broken adapter's name with its framework and
        module."""
        out, case = self.folder / who, self._of(who, case)
        mode = Mode(case.profile, FLOAT64 if who == settings.TRUTH else FLOAT32)
        cases = [self.cases[name] for name in only] if only else list(self.cases.values())
        cases = [other for other in cases if other.profile == case.profile]
        framework = REFEREE if who == settings.TRUTH else framework
        framework = framework or who
        module = module or f"adapters.{framework}.adapter"
        lock = self.folder / f"{who}-{case.profile}"
        once(lock, lambda: run_probe(framework, module, mode, self.inputs, out, cases, **self.variables))
        return load(out / f"{case.name}.npz")

    def _of(self, who: str, case: Case) -> Case:
        """Return the case's twin for the truth and the referee: they know no profile."""
        return self.cases[case.twin] if who in (settings.TRUTH, REFEREE) else case

    def evidence(self, who: str, case: Case) -> dict[str, Any]:
        evidence: dict[str, Any] = json.loads((self.folder / who / f"{self._of(who, case).name}.json").read_text())
        return evidence

    def evidence_in(
        self, mode: Mode, framework: str, cases: Sequence[Case], module: str = "", who: str = ""
    ) -> list[Evidence]:
        """Evidence of a framework, or of the broken adapter `who`, for the gate's probe in a precision with fewer
        digits than float32. All cases run in one process; one Evidence per case."""
        module, out = module or f"adapters.{framework}.adapter", self.folder / str(Column(who or framework, mode=mode))
        once(out, lambda: run_probe(framework, module, mode, self.inputs, out, list(cases), **self.variables))
        return [Evidence.from_json(json.loads((out / f"{case.name}.json").read_text())) for case in cases]

    def modules(self, who: str) -> set[str]:
        return set(json.loads((self.folder / who / "modules.json").read_text()))


def under(arrays: Arrays, prefix: str) -> Arrays:
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


def apart(found: Arrays, expected: Arrays, scale: float | None = None) -> tuple[float, str]:
    """(largest difference, where): relative to each expected array's largest value (or 1), or to `scale`."""
    if found.keys() != expected.keys():
        return float("inf"), f"keys {sorted(found.keys() ^ expected.keys())}"
    worst, where = 0.0, ""
    for key, array in expected.items():
        if found[key].shape != array.shape:
            return float("inf"), f"shape of {key}: {found[key].shape}, expected {array.shape}"
        size = scale or max(float(np.abs(array).max()), 1.0)
        difference = float(np.abs(found[key].astype(np.float64) - array).max()) / size
        if np.isnan(difference):
            return difference, key
        if difference > worst:
            worst, where = difference, key
    return worst, where


def excess(found: Arrays, expected: Arrays, allowed: float, scale: float | None = None) -> str:
    worst, where = apart(found, expected, scale)
    return "" if worst <= allowed else f"{where} differs by {compare_with_allowed(worst, allowed)}"


@dataclass(frozen=True)
class Seen:
    """A case, what the framework computed, what was expected, and the initial weights."""

    case: Case
    found: Arrays
    expected: Arrays
    initial: Arrays


def structure(seen: Seen) -> str:
    """Compare names, shapes and the number of parameters."""
    shapes = {key: array.shape for key, array in under(seen.found, "before/").items()}
    expected = {key: array.shape for key, array in under(seen.expected, "before/").items()}
    memory = json.loads(str(seen.found["memory"]))
    if shapes != expected:
        return f"weights {sorted(shapes.items() ^ expected.items())}"
    if wrong := [kind for kind in MEMORY_KINDS if not isinstance(memory.get(kind), int | str)]:
        return f"memory() says neither bytes nor a reason for {', '.join(wrong)}"
    counted, told = seen.case.workload.parameter_count, memory["parameters"]
    if isinstance(told, str):  # the reason why this adapter counts none
        return ""
    return "" if told == 4 * counted else f"{told} bytes of {counted} float32 parameters"


def round_trip(seen: Seen) -> str:
    """Check that weights come back bit for bit as they were given, and that a probe does not change them."""
    for when in ("before/", "after/0/"):
        for key, array in under(seen.found, when).items():
            given = seen.initial[key]
            given = given if array.shape == given.shape else given.ravel()[:: -(-given.size // array.size)]
            if not np.array_equal(array, given):
                return f"{when}{key} is not what was given"
    return ""


def forward(seen: Seen) -> str:
    """Compare logits in evaluation mode: one image, an odd number, a ragged last batch."""
    allowed = settings.DEEP_FORWARD if seen.case.deep else settings.FORWARD
    return excess(under(seen.found, "logits/"), under(seen.expected, "logits/"), allowed)


def outputs(seen: Seen) -> str:
    """Compare the output of every layer in training mode."""
    allowed = settings.DEEP_OUTPUTS if seen.case.deep else settings.OUTPUTS
    return excess(under(seen.found, "outputs/"), under(seen.expected, "outputs/"), allowed)


def layers(seen: Seen) -> str:
    """Compare the names of the layers whose outputs a probe gives with the workload's, in order. The order leads to the
    first layer that differs."""
    told = compare_names(list(under(seen.found, "outputs/")), [layer.name for layer, _ in seen.case.workload.walk()])
    return told and f"Probe.outputs is {told}"


def gradients(seen: Seen) -> str:
    """Compare the gradient of every parameter before any step, relative to the largest gradient."""
    expected = under(seen.expected, "gradients/")
    allowed = settings.DEEP_GRADIENTS if seen.case.deep else settings.GRADIENTS
    largest = max(float(np.abs(array).max()) for array in expected.values())
    return excess(under(seen.found, "gradients/"), expected, allowed, largest)


def norms_apart(found: Arrays, expected: Arrays, floor: float) -> tuple[float, str]:
    """(largest norm of a difference relative to the expected norm, where). Norms below `floor` of the whole count as
    that."""
    least = floor * float(np.sqrt(sum(np.square(array).sum() for array in expected.values())))
    norms = [
        (float(np.linalg.norm(found[key] - array) / max(float(np.linalg.norm(array)), least)), key)
        for key, array in expected.items()
    ]
    return next((each for each in norms if np.isnan(each[0])), max(norms))


def own_gradients(seen: Seen) -> str:
    """Compare every gradient before any step, each relative to its own norm."""
    allowed = settings.DEEP_OWN_GRADIENTS if seen.case.deep else settings.OWN_GRADIENTS
    worst, where = norms_apart(under(seen.found, "gradients/"), under(seen.expected, "gradients/"), 1e-2)
    size = compare_with_allowed(worst, allowed)
    return "" if worst <= allowed else f"{where} differs, as a share of its norm, by {size}"


def updates(seen: Seen) -> str:
    """Compare the change of each parameter in the first step."""
    allowed = settings.DEEP_UPDATES if seen.case.deep else settings.UPDATES
    prefix = f"after/{seen.case.marks[0]}/"
    before = under(seen.expected, "before/")
    changes = [
        {key: array - before[key] for key, array in under(arrays, prefix).items()}
        for arrays in (seen.found, seen.expected)
    ]
    worst, where = norms_apart(changes[0], changes[1], 1e-2)
    size = compare_with_allowed(worst, allowed)
    return "" if worst <= allowed else f"{where} changes otherwise, as a share of its change, by {size}"


def losses(seen: Seen) -> str:
    """Compare the probe's loss and those of the first ten steps. The first that differs leads to the verb."""
    given, needed = seen.found["losses"].shape, seen.expected["losses"].shape
    if given != needed:
        return f"read() gives {' x '.join(map(str, given))} losses, {needed[0]} expected"
    found, expected = (np.concatenate([[each["loss"]], each["losses"][:10]]) for each in (seen.found, seen.expected))
    difference = np.abs(found / expected - 1)
    wrong = np.flatnonzero(~(difference <= settings.LOSSES))
    if not wrong.size:
        return ""
    where = f"step {wrong[0]}" if wrong[0] else "probe()"
    size = compare_with_allowed(float(difference[wrong[0]]), settings.LOSSES)
    return f"the loss of {where} differs by {size}"


def weights(seen: Seen) -> str:
    """Compare all weights, running statistics included, after the first step and the last step that is compared."""
    allowed = settings.DEEP_WEIGHTS if seen.case.deep else settings.WEIGHTS
    for mark in seen.case.marks[:2]:
        prefix = f"after/{mark}/"
        if told := excess(under(seen.found, prefix), under(seen.expected, prefix), allowed, scale=1.0):
            return f"after step {mark}: {told}"
    return ""


def evaluation(seen: Seen) -> str:
    """Compare logits in evaluation mode after training, with running statistics."""
    allowed = settings.DEEP_EVALUATION if seen.case.deep else settings.EVALUATION
    key = f"evaluation/{seen.case.marks[1]}"
    return excess({key: seen.found[key]}, {key: seen.expected[key]}, allowed)


def optimizer_state(seen: Seen) -> str:
    """Check the optimizer's state: momentum keeps one number per parameter, Adam two, and each a few scalars more."""
    slots = SLOTS[seen.case.optimizer.name]
    memory = json.loads(str(seen.found["memory"]))
    if isinstance(memory["optimizer"], str):
        return ""
    parameters = 4 * seen.case.workload.parameter_count
    more = memory["optimizer"] - slots * parameters
    scalars = 256 + 64 * len(seen.case.workload.parameter_shapes())
    return "" if 0 <= more <= scalars else f"{memory['optimizer']} bytes, {slots} x {parameters} expected"


def dropout(seen: Seen) -> str:
    """Check Dropout and StochasticDepth: off in evaluation; in training the correct share is zero and the rest scaled;
    masks follow the seed."""
    found = seen.found
    if told := excess(under(found, "evaluation/"), under(seen.expected, "evaluation/"), settings.FORWARD):
        return f"in evaluation mode: {told}"
    for probe in (0, 1):
        outputs = under(found, f"outputs/{probe}/")
        for before, layer in neighbours(seen.case.workload.layers):  # the same mask twice in a row would drop too few
            if isinstance(layer, Masked) and (told := mask(layer, outputs[before.name], outputs[layer.name])):
                return told
    first, second = found["losses/still"]
    if np.isclose(first, second, rtol=1e-6):
        return "two steps on the same images that move no weight have the same loss: their masks are the same"
    # Not to the last digit: a card adds in no fixed order. Other masks change a loss by far more.
    if not np.allclose(found["losses/first"], found["losses/again"], rtol=SAME_MASKS):
        return "the same seed gives other losses"
    same = np.allclose(found["losses/first"], found["losses/other"], rtol=SAME_MASKS)
    return "the seed changes nothing" if same else ""


def mask(layer: Masked, entering: np.ndarray, leaving: np.ndarray) -> str:
    """Check the share of values, or whole images, that the layer drops, and the scale of what it keeps."""
    rate, telling = layer.rate, entering != 0
    kept = telling & (leaving != 0)
    if not np.allclose(leaving[kept], entering[kept] / (1 - rate), rtol=1e-6):
        return f"what {layer.name} keeps is not divided by 1 - rate"
    if isinstance(layer, StochasticDepth):
        axes = tuple(range(1, entering.ndim))
        if np.any(kept.any(axes) & (telling & ~kept).any(axes)):
            return f"{layer.name} drops a part of an image"
        kept, telling = kept.any(axes), telling.any(axes)
    share, count = float((~kept[telling]).mean()), int(telling.sum())
    off = abs(share - rate) / np.sqrt(rate * (1 - rate) / count)
    if off <= settings.DROPOUT_SIGMAS:
        return ""
    return f"{layer.name} drops {share:.4f}, rate {rate}: {off:.1f} standard deviations off"


CHECKS: dict[str, Callable[[Seen], str]] = {
    check.__name__: check
    for check in (
        structure,
        round_trip,
        forward,
        layers,
        outputs,
        gradients,
        own_gradients,
        losses,
        updates,
        weights,
        evaluation,
        optimizer_state,
    )
}
DROPOUT_CHECKS: dict[str, Callable[[Seen], str]] = {"dropout": dropout}


def checks_of(case: Case) -> dict[str, Callable[[Seen], str]]:
    return DROPOUT_CHECKS if case.workload.draws else CHECKS


@cache
def known_deviations(framework: str) -> dict[tuple[str, str], str]:
    """{(case, check): reason} of the checks that are known to fail."""
    return deviations_in(PROJECT.folder(framework) / DEVIATIONS_FILE)


def deviations_in(path: Path) -> dict[tuple[str, str], str]:
    """{(case, check): reason} in a framework's own file; empty where there is no file. Raises AssertionError."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise AssertionError(f"{path}: {error}") from error
    entries = table.get("deviation", [])
    assert isinstance(entries, list) and table.keys() <= {"deviation"}, f"{path}: may hold [[deviation]] and no more"
    for entry in entries:
        needed = {"case", "check", "reason", "link"}
        said = isinstance(entry, dict) and all(each and isinstance(each, str) for each in entry.values())
        assert said and entry.keys() == needed, f"{path}: {entry} needs all of {needed}"
        assert entry["case"] in CASES, f"{path}: no such case: {entry}"
        assert entry["check"] in checks_of(CASES[entry["case"]]), f"{path}: no such check: {entry}"
    return {(entry["case"], entry["check"]): entry["reason"] for entry in entries}


def verdict(told: str, reason: str | None) -> str:
    """Return what is wrong: a check that fails, or one that is known to fail, for `reason`, and passes."""
    if reason is None:
        return told
    return "" if told else f"the check passes: take the entry out of {DEVIATIONS_FILE} ({reason})"


def imports_of_others(framework: str) -> set[str]:
    """Top-level packages that belong to other frameworks than this."""

    def own(name: str) -> set[str]:
        with PROJECT.definition(name).open("rb") as file:
            return set(tomllib.load(file)["imports"])

    return set().union(*(own(name) for name in PROJECT.frameworks)) - own(framework)
