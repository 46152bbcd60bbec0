"""Conditions that the trials of one table share; and the registry of all of them.

A condition is one record here and nowhere else. Sections, headings, lists of conditions, columns of trials.csv and the
comparison of sections with published ones are derived from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, Protocol

from . import setting_words
from .records import processor
from .records.build import DEFAULT, FLOAT32, TF32, Mode
from .records.job import ANY_GPU, ImageSource, Passes, Placement, Task
from .records.result import TrialResult

DeviceKind = Literal["cpu", "cuda"]
NOT_REPORTED = "not reported"
VARIABLES = "caller's variables"
LAST_BATCHES = {"keep": "kept", "drop": "dropped"}
# The parts of a trial that a study decides, the part of each field, and the defaults of the fields that have one. What
# is left out of an id at its default is left out of the conditions, too.
PARTS: dict[str, type[Task] | type[Passes] | type[Placement]] = {
    "task": Task, "passes": Passes, "placement": Placement,
}  # fmt: skip
PART_OF = {each.name: name for name, part in PARTS.items() for each in fields(part)}
DEFAULTS: dict[str, Any] = {
    each.name: each.default for part in PARTS.values() for each in fields(part) if each.default is not MISSING
}


class Settings(Protocol):
    """The parts of a trial that a study decides: of one trial, or those that trials share."""

    @property
    def task(self) -> Task:
        """Computation of a step."""

    @property
    def passes(self) -> Passes:
        """Passes through the training split."""

    @property
    def placement(self) -> Placement:
        """Device and resources."""


@dataclass(frozen=True)
class Setting:
    """A condition that follows from the settings. It is left out where it has no words.

    It has none at the default of its field, or where `words` makes none from the field's value and all settings.
    Without `words` they are the value.
    """

    name: str
    field: str  # of task, passes or placement
    words: Callable[[Any, Settings], str] | None = None
    usual: str = ""  # the words of its absence, for a heading: another section has it
    column: str = ""  # meaning of its column in trials.csv, which has the field's name and value
    phrase: str = ""  # how a sentence about a section says it, with {name} and {words}; "" if it does not
    device: DeviceKind | None = None  # the kind of device for which it is listed; None = both

    def value(self, settings: Settings) -> Any:
        """Value of its field."""
        return getattr(getattr(settings, PART_OF[self.field]), self.field)

    def describe(self, settings: Settings) -> str:
        """Return its words; "" where it is left out."""
        value = self.value(settings)
        if value == DEFAULTS.get(self.field):
            return ""
        return str(value) if self.words is None else self.words(value, settings)


@dataclass(frozen=True)
class Reported:
    """A condition read from a stored result: None if it was not reported, "" where it is left out."""

    name: str
    read: Callable[[TrialResult], str | None]
    usual: str = ""
    device: DeviceKind | None = None
    by_device: bool = False  # kinds of devices report it differently
    unknown: str = NOT_REPORTED


@dataclass(frozen=True)
class ReportedByFramework:
    """A condition that each framework reports for itself, so that those of one table may differ in it. `read` returns
    None if it was not reported.
    """

    name: str
    column: str  # meaning of its column in trials.csv, which has this name
    read: Callable[[TrialResult], str | None]


def read_values(settings: Settings) -> dict[str, Any]:
    """Return {field: value} of task, passes and placement."""
    # Fields are read one by one: a part read from a file may have its defaults on the class only.
    return {name: getattr(getattr(settings, part), name) for name, part in PART_OF.items()}


def read_mode(result: TrialResult) -> Mode:
    """Return the mode named in the trial's column label, if the trial did train in that mode."""
    said, task = result.spec.cell.column.mode, result.spec.task
    return Mode(
        said.profile if said.profile == task.profile else DEFAULT,
        said.precision if said.precision == task.precision else FLOAT32,
    )


def _of_images(name: str, words: Callable[[ImageSource], str]) -> Setting:
    """Return a condition of images that are not a published data set's as the catalogue brings them to the network."""
    return Setting(name, "source", lambda source, _: words(source))


def _of_machine(name: str, key: str) -> Reported:
    return Reported(name, lambda result: _text(result.machine.get(key)))


def read_gpu(result: TrialResult) -> dict[str, Any]:
    """Return what the machine reported about the trial's GPU; empty on a CPU."""
    gpus = result.machine.get("gpus")
    known = [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    device = result.spec.placement.device  # in a sweep, the machine reported the assigned device
    return next((gpu for gpu in known if device in (ANY_GPU, gpu.get("uuid"))), {})


def _gpu(result: TrialResult, key: str) -> str | None:
    """Fact that the machine reported about the trial's GPU; None on a CPU."""
    return _text(read_gpu(result).get(key))


def _device(result: TrialResult) -> str | None:
    """Model of the processor, or of the GPU for a trial on one."""
    on_cpu = result.spec.placement.device_kind == "cpu"
    return _text(result.machine.get("cpu_model")) if on_cpu else _gpu(result, "name")


def _flags(result: TrialResult) -> str | None:
    flags = result.machine.get("cpu_flags")
    return processor.list_flags(flags) if isinstance(flags, list) else None


def _cores(result: TrialResult) -> str | None:
    cores = result.machine.get("cores")
    return str(cores) if isinstance(cores, int) and cores else None


def _container(result: TrialResult) -> str | None:
    """Describe the container of worker or runner; None if the trial should have had one and never started."""
    container = result.machine.get("container")
    if isinstance(container, dict):
        return f"one for each trial, {container.get('engine')}"
    if result.spec.installation.isolation == "docker":
        return None
    return "one for the whole study" if result.machine.get("image") else "none"


def _libc(result: TrialResult) -> str | None:
    """Return that of the worker, which never started where its container is unknown."""
    return None if _container(result) is None else _text(result.machine.get("libc"))


def _measurement(result: TrialResult) -> str | None:
    """Version of the runner's measurement; for older results a digest of all its code."""
    version = result.machine.get("measurement_version")
    return _text(result.machine.get("runner_digest")) if version is None else f"measurement version {version}"


def _variables(variables: dict[str, str], _: Settings) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(variables.items())) or "none set"


def _precision(result: TrialResult) -> str | None:
    """Precision that the framework reported, unless the column label says it."""
    precision = result.facts.get("precision")
    return FLOAT32 if precision == read_mode(result).precision else _text(precision)


def _tf32(result: TrialResult) -> str | None:
    if result.facts.get("precision") is None:
        return None
    return "on" if result.facts.get("tf32") is True and read_mode(result).precision != TF32 else "off"


def _limits(result: TrialResult) -> str:
    cores, memory = result.machine.get("cpu_limit_cores"), result.machine.get("memory_limit_bytes")
    placed = result.spec.placement.memory_limit_bytes
    memory = placed or memory
    limits = [f"{cores:g} cores"] if isinstance(cores, int | float) else []
    kind = " of data segment" if placed and result.spec.installation.isolation != "docker" else ""
    kind = " of a control group" if result.spec.placement.control_group else kind
    limits += [f"{memory / 2**20:.0f} MiB{kind}"] if isinstance(memory, int | float) else []
    return ", ".join(limits) or "none"


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


# In the order in which they are listed.
CONDITIONS: tuple[Setting | Reported, ...] = (
    Setting("model", "workload", lambda _, s: setting_words.describe_model(s.task), column="the network"),
    Setting("difference from its reference", "workload", lambda _, s: setting_words.describe_difference(s.task),
            usual="none"),
    Setting("own code", "own_code", lambda own, _: f"{own.words}, initial weights by the framework itself"),
    Setting("network", "network", lambda digest, _: f"digest {digest}", usual="of the catalogue"),
    Setting("initial weights", "initial", lambda _, s: "the source's own", usual="drawn",
            column="first weights: drawn from the seed, or the source's own of an imported network"),
    Setting("data set", "dataset", column="the images"),
    _of_images("images", setting_words.describe_images),
    _of_images("fit", setting_words.describe_fit),
    _of_images("test split", setting_words.describe_split),
    _of_images("pixel range", setting_words.describe_range),
    _of_images("left out", lambda source: f"{source.skipped} that could not be decoded" if source.skipped else ""),
    _of_images("doubtful images", setting_words.list_doubts),
    Setting("augmentation", "augment", lambda _, s: setting_words.describe_augmentation(s.task), usual="none",
            column="what is done to the training images"),
    Setting("accumulation", "accumulate", lambda parts, _: f"{parts} batches per update", usual="none",
            phrase="{words}"),
    Setting("optimizer", "optimizer", lambda rule, s: setting_words.describe_optimizer(
        rule, s.task.accumulate * s.placement.devices)),
    Setting("epochs", "epochs", column="passes over the training split"),
    Setting("last batch", "last_batch", lambda kept, _: LAST_BATCHES.get(kept, kept)),
    Setting("profile", "profile", column="the loop: default, tuned, autotune, no-autotune, fit or compiled"),
    Setting("determinism", "deterministic", lambda *_: "by the framework's own switch", usual="not asked for",
            column="whether the framework's own switch for it was on", phrase="{name} {words}"),
    Setting("feed", "feed", column="where the images lie: host or device"),
    Reported("device", _device, by_device=True),
    Setting("device id", "device", lambda first, s: ", ".join([first, *s.placement.others]), device="cuda",
            column="cpu, the UUID of a GPU, or cuda: any, in a sweep"),
    Setting("devices", "devices", lambda _, s: setting_words.describe_devices(s.placement), usual="one",
            column="that train one model"),
    Reported("processor", lambda result: _text(result.machine.get("cpu_model")), device="cuda",
             unknown=f"model {NOT_REPORTED}"),
    Reported("processor's flags", _flags),
    Reported("cores", _cores),
    Reported("GPU driver", lambda result: _gpu(result, "driver"), device="cuda", by_device=True),
    _of_machine("kernel", "os"),
    Reported("libc", _libc),
    Reported("runner's code", _measurement),
    Setting("threads", "threads", column="cores allotted"),
    Setting(VARIABLES, "variables", _variables),
    Reported("steady window", lambda result: f"{result.spec.window_s:g} s"),
    Reported("cool-down", lambda result: f"{result.spec.cool_down_s:g} s" if result.spec.cool_down_s else "",
             usual="none"),
    Reported("precision", _precision),
    Reported("TF32", _tf32, by_device=True),
    Reported("seed", lambda result: str(result.spec.draw.first_seed)),
    Reported("container", _container),
    Reported("limits", _limits),
)  # fmt: skip
SETTINGS = tuple(each for each in CONDITIONS if isinstance(each, Setting))
BY_FRAMEWORK: tuple[ReportedByFramework, ...] = (
    ReportedByFramework("execution", "how a step executes, as the worker reported it",
                        lambda result: _text(result.facts.get("execution"))),
)  # fmt: skip
REPORTED = tuple(each for each in CONDITIONS if isinstance(each, Reported))
