"""A study: workload x frameworks x batch sizes x repeats and the settings they share; read from TOML."""

from __future__ import annotations

import errno
import os
import re
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from .records.build import DEFAULT, Precision, Profile
from .records.job import AugmentName, Fit, Passes, PixelRange, Task
from .records.validation import one_line
from .spec import BASE_BATCH_SIZE, DECAYING, OptimizerName, OptimizerSpec, ScaleName, ScheduleName
from .study_text import choices, line_of, offer

STUDIES = Path(__file__).parent / "studies"

MOST_TRIALS = 100_000  # in a results folder: the largest number that was tested
# Least time of an epoch: a call of the framework, and two lines written and flushed, each a system call.
EPOCH_S = 10e-6
LIMIT_S = 600.0  # least time limit of a trial if the study gives none
SHOWN = 60  # characters of a key
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}")  # of a series
MOST_DEVICES = 16  # of one machine; on a CPU each is a thread or more
INT32 = 2**31 - 1  # what the frameworks take for a size or a seed (MXNet's seed is a C int)

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

    def of(self, key: str) -> StudyError:
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
    """A study; defaults are those of the study `quick`. Times are in seconds, where the name says so. `learning_rate`
    and `weight_decay` None mean the optimizer's default. `warm_up` is in steps or, below 1, a part of all steps. With
    `scale_learning_rate`, the learning rate applies at `base_batch_size`.
    """

    name: str
    summary: str = ""
    workload: str = "osu-cnn"
    dataset: str = "digits"
    frameworks: Annotated[tuple[str, ...], Meta(min_length=1)] = ("all",)
    batch_sizes: Annotated[tuple[Count, ...], Meta(min_length=1)] = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
    epochs: Count = 10
    repeats: Count = 1
    seed: Annotated[int, Meta(ge=0, le=INT32)] = 0
    optimizer: OptimizerName = "momentum"
    learning_rate: Positive | None = None
    weight_decay: NotNegative | None = None
    schedule: ScheduleName = "constant"
    warm_up: NotNegative = 0.0
    scale_learning_rate: ScaleName = "none"
    base_batch_size: Count = BASE_BATCH_SIZE
    augment: AugmentName = "none"
    accumulate: Count = 1  # batches that make one update
    devices: Annotated[int, Meta(ge=1, le=MOST_DEVICES)] = 1  # that train one model in data parallel
    last_batch: Literal["keep", "drop"] = "keep"
    fit: Fit | None = None  # None: a published data set as the catalogue brings it to the network, else "stretch"
    skip_unreadable: bool = False  # custom images that cannot be decoded are left out
    test_all: bool = False  # if a data set leaves images over: these are tested with, too
    test_folder: str | None = None  # of a custom folder: which of its folders is the test split
    pixel_range: PixelRange | None = None  # values of custom images that become 0 and 255; None: the type's
    profiles: Annotated[tuple[Profile, ...], Meta(min_length=1)] = ("default",)
    precisions: Annotated[tuple[Precision, ...], Meta(min_length=1)] = ("float32",)
    feed: Literal["host", "device"] = "host"
    device: str = "auto"
    threads: Count | None = None  # None = every core this process may use
    window_s: Positive = 5.0
    timeout_s: Positive | None = None  # None: LIMIT_S, or more where a trial is estimated to need it
    cool_down_s: NotNegative = 0.0  # before each trial
    # Groups of batch sizes, each measured in alternating blocks of steps, in place of trials of `batch_sizes`.
    blocks: tuple[Annotated[tuple[Count, ...], Meta(min_length=3)], ...] = ()
    series: tuple[Series, ...] = ()

    def __post_init__(self) -> None:
        """Check every value. Raises StudyError with its key for a value of another type or outside its range."""
        for key, kind in get_type_hints(type(self), include_extras=True).items():
            if key == "series":
                continue
            try:
                value = msgspec.convert(getattr(self, key), kind)
            except (ValueError, RecursionError) as error:
                known = offer(getattr(self, key), choices(kind))
                raise StudyError(f"{one_line(error)}{known}", key) from error
            object.__setattr__(self, key, value)  # a list is a tuple; 3 and 3.0 are one setting, so one trial id
            if isinstance(value, tuple) and len(set(value)) != len(value):
                twice = next(each for each in value if value.count(each) > 1)
                raise StudyError(f"names {twice} twice", key)
        if self.weight_decay and self.optimizer not in DECAYING:
            raise StudyError(f"{self.optimizer} has none; those that have are {', '.join(DECAYING)}", "weight_decay")
        if self.warm_up >= 1 and not self.warm_up.is_integer():
            raise StudyError(f"{self.warm_up:g} is neither a part of all steps nor a whole number of them", "warm_up")
        if self.warm_up and self.schedule == "one-cycle":
            raise StudyError("one-cycle has a rise of its own: leave it out", "warm_up")
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
            raise StudyError("a study of several series has trials alone: leave them out", "blocks")
        known: dict[Study, str] = {}
        for place, each in enumerate(self.series, start=1):
            if not NAME.fullmatch(each.name):
                reason = "a name, of 1 to 40 of a-z, 0-9, . and -, is what each series begins with"
                raise StudyError(f"{reason}, got {each.name[:SHOWN]!r}", "name", place)
            if each.name in [other.name for other in self.series[: place - 1]]:
                raise StudyError(f"two series are called {each.name}", "name", place)
            for key in each.keys:
                if key not in OF_SERIES:
                    raise StudyError(f"no key of a series; those are name, {', '.join(OF_SERIES)}", key, place)
            try:
                part = self.part(each)
            except StudyError as error:
                raise StudyError(f"series {each.name}: {error}", series=place).of(error.key) from error
            twin = known.setdefault(replace(part, batch_sizes=(1,)), each.name)
            if twin != each.name:
                raise StudyError(f"trains what {twin} trains: give one of them its batch sizes, too", "name", place)

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
        """The model, the data and the optimizer of the study."""
        return Task(
            self.workload,
            self.dataset,
            self.optimizer_spec,
            DEFAULT,  # a column may have another
            self.feed,
            augment=self.augment,
            accumulate=self.accumulate,
        )

    @property
    def passes(self) -> Passes:
        """The passes through the data."""
        return Passes(self.epochs, self.last_batch)

    @property
    def images(self) -> tuple[Any, ...]:
        """Everything that decides which images are trained and tested with; series alike in it share their images."""
        alone = self.test_folder, self.pixel_range
        return self.dataset, self.fit, self.skip_unreadable, self.test_all, self.augment, *alone

    def part(self, series: Series) -> Study:
        """Return the series as a study without series."""
        return replace(self, series=()).changed(**dict(series.changes))

    @property
    def parts(self) -> dict[str, Study]:
        """{series: its study}; {"": this one} for a study without series."""
        return {each.name: self.part(each) for each in self.series} or {"": self}

    def changed(self, **changes: Any) -> Study:
        """Return the study with some axes replaced. Another optimizer brings its default learning rate and weight decay
        unless they are given.
        """
        if changes.get("optimizer", self.optimizer) != self.optimizer:
            changes = {"learning_rate": None, "weight_decay": None} | changes
        return replace(self, **changes)


# Keys in which the trials of one study may differ: task, passes and placement. All else holds for the whole run.
OF_SERIES = (
    "workload", "dataset", "batch_sizes", "epochs", "optimizer", "learning_rate", "weight_decay", "schedule", "warm_up",
    "scale_learning_rate", "base_batch_size", "augment", "accumulate", "last_batch", "fit", "skip_unreadable", "feed",
    "test_all", "test_folder", "pixel_range", "threads", "devices",
)  # fmt: skip


def is_path(name: str) -> bool:
    """True if a data set is named by its path: one with a / in it, or a .npz file."""
    return "/" in name or name.endswith(".npz")


def studies() -> dict[str, Path]:
    """Return {name: file} of the studies that come with the project."""
    return {path.stem: path for path in sorted(STUDIES.glob("*.toml"))}


def read(path: Path) -> Study:
    """Read a study. Raises StudyError naming file, key and line of an unknown, wrongly typed or out-of-range value."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise IsADirectoryError(errno.EISDIR, "no file")
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: cannot be read: {one_line(error)}") from error
    return of_text(content, path)


def of_text(content: bytes, path: Path) -> Study:
    """Read a study from a file's content. Raises StudyError as `read` does."""
    try:
        text = content.decode()
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # tomllib lets a number of too many digits through as it is
        raise StudyError(f"{path}: not valid TOML: {one_line(error)}") from error
    known = [field.name for field in fields(Study) if field.name != "name"]
    try:
        for key in table:
            if key not in known:
                raise StudyError(f"unknown key; known are {', '.join(known)}", key)
        series = _series(table.pop("series", []), path.parent)
        return Study(name=path.stem, series=series, **_placed(table, path.parent))
    except StudyError as error:
        raise StudyError(f"{path}, line {line_of(error.key, text, error.series)}: {error}") from error


def _series(tables: Any, folder: Path) -> tuple[Series, ...]:
    """Read the `[[series]]` of a file. Raises StudyError."""
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise StudyError("is no list of tables: begin each with [[series]]", "series")
    return tuple(
        Series(str(each.pop("name", "")), tuple((key, _frozen(value)) for key, value in _placed(each, folder).items()))
        for each in tables
    )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _placed(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve paths of files named in the study, which are relative to the study's folder."""
    named = {"workload": lambda name: name.endswith(".py"), "dataset": is_path}
    paths = {key for key, is_named in named.items() if isinstance(table.get(key), str) and is_named(table[key])}
    return table | {key: os.path.join(folder, table[key]) for key in paths}
