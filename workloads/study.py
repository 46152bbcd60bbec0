"""A study: workload x frameworks x batch sizes x repeats and the settings they share; read from TOML."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from .records.job import Fit, Passes, Profile, Task
from .spec import OptimizerName, OptimizerSpec

STUDIES = Path(__file__).parent / "studies"

Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]  # neither infinite nor no number


class StudyError(ValueError):
    """A study that cannot be run as written; the message is one line naming file, key and line.

    `key`: the one that is wrong, where that is known.
    """

    def __init__(self, reason: str, key: str = "") -> None:
        super().__init__(f"{key}: {reason}" if key else reason)
        self.key = key


@dataclass(frozen=True)
class Study:
    """Defaults are those of the study `quick`. Seconds in names; `learning_rate` None = the optimizer's own."""

    name: str
    summary: str = ""
    workload: str = "osu-cnn"
    dataset: str = "digits"
    frameworks: Annotated[tuple[str, ...], Meta(min_length=1)] = ("all",)
    batch_sizes: Annotated[tuple[Count, ...], Meta(min_length=1)] = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
    epochs: Count = 10
    repeats: Count = 1
    seed: Annotated[int, Meta(ge=0)] = 0
    optimizer: OptimizerName = "momentum"
    learning_rate: Positive | None = None
    last_batch: Literal["keep", "drop"] = "keep"
    fit: Fit | None = None  # None: a published data set as the catalogue brings it to the network, else "stretch"
    skip_unreadable: bool = False  # images of one's own that cannot be decoded are left out
    profile: Profile = "default"
    feed: Literal["host", "device"] = "host"
    device: str = "auto"
    threads: Count | None = None  # None = every core this process may use
    window_s: Positive = 5.0
    timeout_s: Positive = 600.0

    def __post_init__(self) -> None:
        """Raises StudyError with its key for a value of another type or outside its range."""
        for key, kind in get_type_hints(type(self), include_extras=True).items():
            try:
                value = msgspec.convert(getattr(self, key), kind)
            except msgspec.ValidationError as error:
                known = f"; known are {', '.join(get_args(kind))}" if get_origin(kind) is Literal else ""
                raise StudyError(f"{error}{known}", key) from error
            object.__setattr__(self, key, value)  # a list is a tuple; 3 and 3.0 are one setting, so one trial id
            if isinstance(value, tuple) and len(set(value)) != len(value):
                raise StudyError(f"{list(value)} names one twice", key)

    @property
    def optimizer_spec(self) -> OptimizerSpec:
        """The rule with its learning rate, its own where the study gives none."""
        return OptimizerSpec.named(self.optimizer, self.learning_rate)

    @property
    def task(self) -> Task:
        """What is trained on what."""
        return Task(self.workload, self.dataset, self.optimizer_spec, self.profile, self.feed)

    @property
    def passes(self) -> Passes:
        """How often the data are gone through."""
        return Passes(self.epochs, self.last_batch)

    def changed(self, **changes: Any) -> Study:
        """The study with some axes replaced. Another optimizer brings its own learning rate unless one is given."""
        if changes.get("optimizer", self.optimizer) != self.optimizer:
            changes.setdefault("learning_rate", None)
        return replace(self, **changes)


def is_path(name: str) -> bool:
    """Whether a data set is named by where it lies: by a path with a / in it, or a .npz file."""
    return "/" in name or name.endswith(".npz")


def studies() -> dict[str, Path]:
    """{name: file} of the studies that come with the project."""
    return {path.stem: path for path in sorted(STUDIES.glob("*.toml"))}


def read(path: Path) -> Study:
    """Raises StudyError naming file, key and line for what is unknown, of the wrong type or out of range."""
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path}: not valid TOML: {error}") from error
    known = [field.name for field in fields(Study) if field.name != "name"]
    try:
        for key in table:
            if key not in known:
                raise StudyError(f"unknown key; known are {', '.join(known)}", key)
        study = Study(name=path.stem, **table)
        # What is named by its path lies beside the study that names it.
        named = {"workload": study.workload.endswith(".py"), "dataset": is_path(study.dataset)}
        return study.changed(**{key: os.path.join(path.parent, getattr(study, key)) for key in named if named[key]})
    except StudyError as error:
        raise StudyError(f"{path}, line {_line_of(error.key, text)}: {error}") from error


def _line_of(key: str, text: str) -> int:
    start_of_key = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[.=\]]""")
    for number, line in enumerate(text.splitlines(), start=1):
        if start_of_key.match(line):
            return number
    return 1
