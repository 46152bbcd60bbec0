"""A study: workload x frameworks x batch sizes x repeats and the settings they share; read from TOML."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from .records.build import DEFAULT, Precision, Profile
from .records.job import DRAWN, AugmentName, Fit, Initial, Passes, PixelRange, Task
from .records.validation import describe_error
from .spec import BASE_BATCH_SIZE, DECAYING, OptimizerName, OptimizerSpec, ScaleName, ScheduleName
from .study_keys import KEY, MEASURING, NETWORK, TRAINING, WHERE, StudyKey, define_key, list_choices, suggest_value

STUDIES = Path(__file__).parent / "studies"

MOST_TRIALS = 100_000  # in a results folder: the largest number that was tested
# Least time of an epoch: a call of the framework, and two lines written and flushed, each a system call.
EPOCH_S = 10e-6
LIMIT_S = 600.0  # least time limit of a trial if the study gives none
SHOWN = 60  # characters of a key
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}")  # of a series
MOST_DEVICES = 16  # of one machine; on a CPU each is a thread or more
INT32 = 2**31 - 1  # what the frameworks take for a size or a seed (MXNet's seed is a C int)

SourceFramework = Literal["pytorch"]  # whose code a network can be imported from
Count = Annotated[int, Meta(ge=1, le=INT32)]
NotNegative = Annotated[float, Meta(ge=0, le=1e9)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]  # neither infinite nor no number


class StudyError(ValueError):
    """A study that cannot be run as written; the message is one line naming file, key and line.

    `key` is the wrong key, if known; `series` is the number of its series, from 1, if it has one.
    """

    def __init__(self, reason: str, key: str = "", series: int = 0) -> None:
        super().__init__(f"{' '.join(key.split())[:SHOWN]}: {reason}" if key else reason)
        self.key, self.series = key, series

    def add_key(self, key: str) -> StudyError:
        """Set the key on this error, whose message already names it, and return it."""
        self.key = key
        return self


@dataclass(frozen=True)
class Series:
    """A part of a study: the settings in which it differs, as (key, value) of OF_SERIES."""

    name: str
    changes: tuple[tuple[str, Any], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys for which the series has its own value."""
        return tuple(key for key, _ in self.changes)


@dataclass(frozen=True)
class Study:
    """A study; defaults are those of `quick`. Names in _s are in seconds. `learning_rate` and `weight_decay` None mean
    the optimizer's. `warm_up` is in steps or, below 1, a part of all. The rate is for `base_batch_size` if scaled.
    """

    name: str
    summary: str = ""
    workload: str = define_key(
        "osu-cnn",
        NETWORK,
        "{workloads}; or my_cnn.py of layers, a .keras, .onnx, .json file, net.py:FUNCTION",
        "NAME|FILE",
    )
    dataset: str = define_key(
        "digits", NETWORK, "{datasets}; or your own: a path (with a /) to a folder with train/CLASS/, test/CLASS/, "
        "or a .npz file with x_train, y_train, x_test, y_test", "NAME|DIR|FILE.npz",
    )  # fmt: skip
    frameworks: Annotated[tuple[str, ...], Meta(min_length=1)] = define_key(
        ("all",), WHERE, "frameworks: all (the thesis' three), everything, or a,b (default: the study's)", "NAME",
        "framework", by_series=True,
    )  # fmt: skip
    batch_sizes: Annotated[tuple[Count, ...], Meta(min_length=1)] = define_key(
        (4, 8, 16, 32, 64, 128, 256, 512, 1024), WHERE, "batch sizes, e.g. 100 127 or 100,127 (default: the study's)",
        "N", "batch-size", by_series=True,
    )  # fmt: skip
    epochs: Count = define_key(10, TRAINING, "passes through the training images (default: the study's)", "N")
    repeats: Count = define_key(
        1, MEASURING, "repeats of every cell, each in a fresh process (default: the study's)", "N", "repeat"
    )
    seed: Annotated[int, Meta(ge=0, le=INT32)] = define_key(
        0, MEASURING, "repeat r draws weights and batch order with seed + r", "N"
    )
    optimizer: OptimizerName = define_key("momentum", TRAINING, "update rule: {choices}", "NAME")
    learning_rate: Positive | None = define_key(None, TRAINING, "the rate, or a schedule's highest rate", "RATE")
    weight_decay: NotNegative | None = define_key(None, TRAINING, f"for {', '.join(DECAYING)} only", "DECAY")
    schedule: ScheduleName = define_key("constant", TRAINING, "learning rate schedule: {choices}", "NAME")
    warm_up: NotNegative = define_key(
        0.0, TRAINING, "steps during which the learning rate rises; below 1: a share of all steps", "STEPS"
    )
    scale_learning_rate: ScaleName = define_key(
        "none", TRAINING, "how the rate grows with the batch size: {choices} (default: none)", "HOW"
    )
    base_batch_size: Count = define_key(
        BASE_BATCH_SIZE, TRAINING, "batch size at which the given learning rate applies (default: "
        f"{BASE_BATCH_SIZE})", "N",
    )  # fmt: skip
    augment: AugmentName = define_key("none", TRAINING, "augment the training images: {choices}", "NAME")
    accumulate: Count = define_key(
        1, TRAINING, "batches that make one update: gradients of K times the batch size, in the memory of one batch "
        "(default: 1)", "K",
    )  # fmt: skip
    devices: Annotated[int, Meta(ge=1, le=MOST_DEVICES)] = define_key(
        1, TRAINING, "GPUs, or parts of a CPU's threads, that train one model in data parallel, each with the "
        "batch size (default: 1)", "N",
    )  # fmt: skip
    # None: a published data set as the catalogue brings it to the network, else "stretch".
    fit: Fit | None = define_key(
        None, NETWORK, "how images are fitted to the network's input, by interpolation (default: stretch; published "
        "ones by whole factors)",
    )  # fmt: skip
    skip_unreadable: bool = define_key(False, NETWORK, "skip and count your images that cannot be decoded")
    test_folder: str | None = define_key(
        None, NETWORK, "folder of your own images that is the test split (default: test/, else the only one of val/, "
        "valid/, validation/, dev/, eval/)", "NAME",
    )  # fmt: skip
    pixel_range: PixelRange | None = define_key(
        None, NETWORK, "values of your own images that become 0 and 255, e.g. 0 4095 for 12 bits (default: all of the "
        "file's type)", ("LOW", "HIGH"),
    )  # fmt: skip
    from_framework: SourceFramework | None = define_key(
        None, NETWORK, "framework of the code in --workload FILE.py:FUNCTION, imported for all: {choices}", name="from"
    )
    input_shape: tuple[Count, Count, Count] | None = define_key(
        None, NETWORK, "size of a code model's images (default: the data set's)", ("ROWS", "COLUMNS", "CHANNELS")
    )
    initial: Initial | None = define_key(None, NETWORK, "first weights: {choices} (default: an import's own)")
    test_all: bool = define_key(
        False, NETWORK, "test with the images that a data set leaves over, too (cats-dogs, cifar10-cats-dogs)"
    )
    profiles: Annotated[tuple[Profile, ...], Meta(min_length=1)] = define_key(
        ("default",), MEASURING, "default, the loop of the framework's guide; tuned, the fastest known with the same "
        "numbers; fit, Keras' own loop; compiled, by a compiler; on a GPU autotune or no-autotune (cuDNN); or several",
        "NAME", "profile", by_series=True,
    )  # fmt: skip
    deterministic: bool = define_key(False, MEASURING, "use each framework's own switch for determinism")
    precisions: Annotated[tuple[Precision, ...], Meta(min_length=1)] = define_key(
        ("float32",), MEASURING, "precision of layers: {choices}, or several; weights and updates stay in float32",
        "NAME", "precision",
    )  # fmt: skip
    feed: Literal["host", "device"] = define_key(
        "host", MEASURING, "where the training images are kept (default: host)", by_series=True
    )
    last_batch: Literal["keep", "drop"] = define_key(
        "keep", MEASURING, "keep or drop the last, smaller batch", by_series=True
    )
    device: str = define_key("auto", WHERE, "auto: the first GPU, else the CPU", "auto|cpu|cuda:N|UUID")
    threads: Count | None = define_key(None, WHERE, "cores and threads of a worker (default: all)", "N", by_series=True)
    window_s: Positive = define_key(5.0, MEASURING, "length of the steady window", "SECONDS", "window")
    # None: LIMIT_S, or more where a trial is estimated to need it.
    timeout_s: Positive | None = define_key(None, MEASURING, "time limit of a trial", "SECONDS", "timeout")
    cool_down_s: NotNegative = define_key(
        0.0, MEASURING, "wait before each trial, for the device to cool (default: 0)", "SECONDS", "cool-down"
    )
    # Groups of batch sizes, each measured in alternating blocks of steps, in place of trials of `batch_sizes`.
    blocks: tuple[Annotated[tuple[Count, ...], Meta(min_length=3)], ...] = define_key(
        (), MEASURING, "is a batch size faster per image than its neighbours? Instead of trials, each group of "
        "batch sizes takes turns in one process per repeat, e.g. 127,128,129 255,256,257", "A,B,C",
    )  # fmt: skip
    series: tuple[Series, ...] = ()

    def __post_init__(self) -> None:
        """Check every value. Raises StudyError with its key for a value of another type or outside its range."""
        for key, kind in get_type_hints(type(self), include_extras=True).items():
            if key == "series":
                continue
            try:
                value = msgspec.convert(getattr(self, key), kind)
            except (ValueError, RecursionError) as error:
                known = suggest_value(getattr(self, key), list_choices(kind))
                raise StudyError(f"{describe_error(error)}{known}", key) from error
            object.__setattr__(self, key, value)  # a list is a tuple; 3 and 3.0 are one setting, so one trial id
            if isinstance(value, tuple) and isinstance(KEYS[key].metavar, str) and len(set(value)) != len(value):
                twice = next(each for each in value if value.count(each) > 1)
                raise StudyError(f"names {twice} twice", key)
        if self.weight_decay and self.optimizer not in DECAYING:
            have = f"{', '.join(DECAYING)} have one"
            raise StudyError(f"{self.optimizer} has none; {have}: set it to 0 for {self.optimizer}", "weight_decay")
        if self.warm_up >= 1 and not self.warm_up.is_integer():
            raise StudyError(f"{self.warm_up:g} is neither a share of all steps nor a whole number of steps", "warm_up")
        if self.warm_up and self.schedule == "one-cycle":
            raise StudyError("one-cycle has its own warm-up: leave it out", "warm_up")
        if self.base_batch_size != BASE_BATCH_SIZE and self.scale_learning_rate == "none":
            raise StudyError("nothing is scaled: give scale_learning_rate, too", "base_batch_size")
        if self.pixel_range and not -1e9 <= self.pixel_range[0] < self.pixel_range[1] <= 1e9:
            raise StudyError("is two numbers, the lower one first", "pixel_range")
        self._refuse_endless()
        self._refuse_series()

    def _refuse_series(self) -> None:
        """Check the series. Raises StudyError for one that cannot be run as written, or that equals another: their
        trials would be the same.
        """
        if self.series and self.blocks:
            raise StudyError("a study with series cannot have blocks: leave them out", "blocks")
        known: dict[Study, str] = {}
        for place, each in enumerate(self.series, start=1):
            if not NAME.fullmatch(each.name):
                reason = "each series needs a name of 1 to 40 characters of a-z, 0-9, . and -"
                raise StudyError(f"{reason}, got {each.name[:SHOWN]!r}", "name", place)
            if each.name in [other.name for other in self.series[: place - 1]]:
                raise StudyError(f"two series are called {each.name}", "name", place)
            for key in each.keys:
                if key not in OF_SERIES:
                    raise StudyError(f"not a key of a series; these are: name, {', '.join(OF_SERIES)}", key, place)
            try:
                part = self.part(each)
            except StudyError as error:
                raise StudyError(f"series {each.name}: {error}", series=place).add_key(error.key) from error
            twin = known.setdefault(replace(part, batch_sizes=(1,)), each.name)
            if twin != each.name:
                raise StudyError(f"trains the same as {twin}: give one of them its own batch sizes", "name", place)

    def _refuse_endless(self) -> None:
        """Raise StudyError for a study that no machine can finish, however fast it is."""
        if self.window_s >= self.limit_s:
            raise StudyError(f"{self.window_s:g} s do not fit into the {self.limit_s:g} s of timeout_s", "window_s")
        least_s = self.epochs * EPOCH_S
        if least_s >= self.limit_s:
            detail = f"{self.epochs:,} take {least_s:,.0f} s on any machine, more than the {self.limit_s:g} s"
            raise StudyError(f"{detail} of timeout_s", "epochs")
        cells = len(self.batch_sizes) * len(self.frameworks) * len(self.profiles) * len(self.precisions)
        if self.repeats * cells > MOST_TRIALS:
            key = "batch_sizes" if cells > self.repeats else "repeats"
            trials = f"{self.repeats * cells:,} trials, of {cells:,} cells in {self.repeats:,} repeats"
            raise StudyError(f"{trials}; a results folder is made for {MOST_TRIALS:,}", key)

    @property
    def limit_s(self) -> float:
        """The time limit of a trial; the least one if the study gives none."""
        return LIMIT_S if self.timeout_s is None else self.timeout_s

    @property
    def optimizer_spec(self) -> OptimizerSpec:
        """The rule with its learning rate and weight decay, the rule's defaults if the study gives none."""
        rule = OptimizerSpec.named(self.optimizer, self.learning_rate, self.weight_decay)
        scale, base = self.scale_learning_rate, self.base_batch_size
        return replace(rule, schedule=self.schedule, warm_up=self.warm_up, scale=scale, base_batch_size=base)

    @property
    def task(self) -> Task:
        """The model, the data and the optimizer of the study; a column may have another profile and precision."""
        settings = {"optimizer": self.optimizer_spec, "profile": DEFAULT, "initial": self.initial or DRAWN}
        return Task(**_shared(self, Task) | settings)

    @property
    def passes(self) -> Passes:
        """The passes through the data."""
        return Passes(**_shared(self, Passes))

    @property
    def images(self) -> tuple[Any, ...]:
        """Everything that decides which images are trained and tested with; series alike in it share their images."""
        alone = self.test_folder, self.pixel_range
        return self.dataset, self.fit, self.skip_unreadable, self.test_all, self.augment, *alone

    @property
    def without_columns(self) -> Study:
        """The study without its batch sizes, frameworks and profiles: series alike in it share their tables."""
        return replace(self, batch_sizes=(1,), frameworks=("",), profiles=(DEFAULT,))

    def part(self, series: Series) -> Study:
        """Return the series as a study without series. It keeps every key that it does not set itself."""
        return replace(self, **{"series": (), **dict(series.changes)})

    @property
    def parts(self) -> dict[str, Study]:
        """{series: its study}; {"": this one} for a study without series."""
        return {each.name: self.part(each) for each in self.series} or {"": self}

    def changed(self, **changes: Any) -> Study:
        """Return the study with some axes replaced, in every series without its own value. Another optimizer brings
        its default learning rate and weight decay unless they are given.
        """
        if changes.get("optimizer", self.optimizer) != self.optimizer:
            changes = {"learning_rate": None, "weight_decay": None} | changes
        return replace(self, **changes)


def _shared(study: Study, part: type[Task | Passes]) -> dict[str, Any]:
    """Return {field: the study's value} of the fields of a trial's part that are keys of a study, too."""
    return {each.name: getattr(study, each.name) for each in fields(part) if each.name in KEYS}


KEYS: dict[str, StudyKey] = {each.name: each.metadata[KEY] for each in fields(Study) if KEY in each.metadata}
# Keys in which the trials of one study may differ: task, passes and placement. All else holds for the whole run.
OF_SERIES = tuple(name for name, each in KEYS.items() if each.by_series)


def is_path(name: str) -> bool:
    """True if a data set is named by its path: one with a / in it, or a .npz file."""
    return "/" in name or name.endswith(".npz")


def list_studies() -> dict[str, Path]:
    """Return {name: file} of the studies that come with the project."""
    return {path.stem: path for path in sorted(STUDIES.glob("*.toml"))}
