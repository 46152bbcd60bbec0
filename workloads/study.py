"""A study: workload x frameworks x batch sizes x repeats and the settings they share; read from TOML."""

from __future__ import annotations

import re
import tomllib
import types
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .records.job import Passes, Task
from .spec import OptimizerName, OptimizerSpec

STUDIES = Path(__file__).parent / "studies"

Profile = Literal["default"]
PROFILES: tuple[Profile, ...] = get_args(Profile)


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
    frameworks: tuple[str, ...] = ("all",)
    batch_sizes: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
    epochs: int = 10
    repeats: int = 1
    seed: int = 0
    optimizer: OptimizerName = "momentum"
    learning_rate: float | None = None
    last_batch: Literal["keep", "drop"] = "keep"
    profile: Profile = "default"
    feed: Literal["host", "device"] = "host"
    device: str = "auto"
    threads: int | None = None  # None = every core this process may use
    window_s: float = 5.0
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        """Raises StudyError with the key in front for a value outside its range."""
        for name in ("learning_rate", "window_s", "timeout_s"):  # 3 and 3.0 are one setting, so one trial id
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))
        for key, value in (("batch_sizes", self.batch_sizes), ("frameworks", self.frameworks)):
            if not value:
                raise StudyError("at least one is needed", key)
            if len(set(value)) != len(value):
                raise StudyError(f"{_plain(value)} names one twice", key)
        positive: dict[str, tuple[float | None, ...]] = {
            "batch_sizes": self.batch_sizes,
            "epochs": (self.epochs,),
            "repeats": (self.repeats,),
            "learning_rate": (self.learning_rate,),
            "threads": (self.threads,),
            "window_s": (self.window_s,),
            "timeout_s": (self.timeout_s,),
        }
        for key, values in positive.items():
            for number in values:
                if number is not None and not 0 < number < float("inf"):
                    raise StudyError(f"must be more than 0, got {number}", key)
        if self.seed < 0:
            raise StudyError(f"must not be negative, got {self.seed}", "seed")

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
    hints = get_type_hints(Study)
    known = [field.name for field in fields(Study) if field.name != "name"]
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}, line {_line_of(key, text)}: {key}"
        if key not in known:
            raise StudyError(f"{where}: unknown key; known are {', '.join(known)}")
        if isinstance(value, list):
            value = tuple(value)
        if not _has_type(value, hints[key]):
            raise StudyError(f"{where}: expected {_describe(hints[key])}, got {_plain(value)!r}")
        values[key] = value
    try:
        return Study(name=path.stem, **values)
    except StudyError as error:
        raise StudyError(f"{path}, line {_line_of(error.key, text)}: {error}") from error


def _line_of(key: str, text: str) -> int:
    start_of_key = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[.=\]]""")
    for number, line in enumerate(text.splitlines(), start=1):
        if start_of_key.match(line):
            return number
    return 1


def _has_type(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_has_type(value, argument) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and all(_has_type(item, arguments[0]) for item in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint) and not isinstance(value, bool)


def _describe(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(argument) for argument in arguments if argument is not type(None))
    if origin is Literal:
        return "one of " + ", ".join(arguments)
    if origin is tuple:
        return f"a list of {_describe(arguments[0])}"
    return {str: "text", int: "a whole number", float: "a number"}[hint]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
