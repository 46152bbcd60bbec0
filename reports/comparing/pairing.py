"""Choose which sections of two results folders are compared, and list their differences.

Paired sections had the same task: model, data set, optimizer, epochs, last batch, profile, feed. Everything else, from
the processor to a package's version, may differ between its sides: that difference is what is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pandas as pd

from workloads.conditions import NOT_REPORTED
from workloads.records.build import MARK, column_of
from workloads.records.job import Passes, Task
from workloads.records.result import TrialResult

from ..condition_text import describe_condition, describe_software, join_distinct
from ..conditions import Section, name_series
from ..frameworks import FrameworkNames, order_frameworks

Key = TypeVar("Key")
Names = tuple[str, str]  # of A and B, as used in sentences and columns
PARTS = ("version", "CUDA", "cuDNN", "environment", "packages", "kernels")  # of `software_words`


@dataclass(frozen=True)
class Pair:
    """A pair of sections, with the same names of frameworks; `a` is the baseline.

    `columns`: the names of the two columns of one results folder; each side then holds one. `apart` distinguishes it
    from the other pairs of the same task.
    """

    a: Section
    b: Section
    columns: tuple[str, str] | None = None
    apart: str = ""

    @property
    def named(self) -> FrameworkNames:
        """Names of the frameworks of both sides."""
        return self.a.named

    @property
    def of_two(self) -> bool:
        """True if it compares one framework with another."""
        return self.columns is not None and len({column_of(name).framework for name in self.columns}) > 1

    @property
    def row(self) -> str:
        """Name of both columns: their framework if it is the same, otherwise both, as a table names them."""
        assert self.columns is not None
        if not self.of_two:
            return column_of(self.columns[0]).framework
        a, b = (self.named(name).replace(MARK, "") for name in self.columns)  # the row is not a build
        return f"{b} against {a}"

    def own(self, framework: str) -> tuple[str, str]:
        """Return the names that each side has for a framework of the comparison."""
        return self.columns or (framework, framework)

    @property
    def title(self) -> str:
        """Title with the task of A's section: what is trained, by which rule, for how long."""
        words = describe_condition(self.a.condition)
        return f"{words['model']} on {words['data set']}, {words['optimizer']}, {words['epochs']} epochs{self.apart}"

    @property
    def differences(self) -> list[tuple[str, str, str]]:
        """Differences (what, in A, in B); of software, only the frameworks in both."""
        frameworks = [name for name in order_frameworks(self.a.software) if name in self.b.software]
        words_a, words_b = (_words(section, frameworks) | _machine(section.results) for section in (self.a, self.b))
        for framework in frameworks:
            key = f"{self.named(framework)} packages"
            if words_a[key] != words_b[key]:
                words_a[key], words_b[key] = _packages(self.a, self.b, self.own(framework))
        keys = {**words_a, **words_b}
        words = [(key, words_a.get(key, NOT_REPORTED), words_b.get(key, NOT_REPORTED)) for key in keys]
        named = {f"{self.row} {part}": f"framework's {part}" for part in PARTS} if self.of_two else {}
        return [(named.get(key, key), a, b) for key, a, b in words if a != b]

    @property
    def same_trials(self) -> int:
        """Number of trials of B that are also trials of A: the same measurement, stored twice."""
        known = {result.key for result in self.a.results}
        return sum(result.key in known for result in self.b.results)


def pair(a: Sequence[Section], b: Sequence[Section], names: Names) -> tuple[list[Pair], list[str]]:
    """Pair sections of the same task.

    Sections are paired if they are the only ones of their folders. Otherwise those are paired that agree in whatever
    distinguishes a folder's sections. Ambiguous sections are not paired. Also returns a line for each section that is
    compared with none, and why.
    """
    pairs: list[Pair] = []
    alone: list[str] = []
    of_a, of_b = _grouped(a, _task), _grouped(b, _task)
    for task in {**of_a, **of_b}:
        sides = of_a.get(task, []), of_b.get(task, [])
        alike = _paired(*sides)
        pairs += alike
        paired = [section for pair in alike for section in (pair.a, pair.b)]
        if all(sides) and not alike:
            conditions = ", ".join(_telling(sides))
            alone.append(
                f"cannot be paired: {names[0]} holds {len(sides[0])} and {names[1]} {len(sides[1])} sections "
                f"of {_named(sides[0][0])}, which differ in {conditions}; none is the same in both: give folders that "
                "hold one of them each"
            )
            continue
        for name, sections in zip(names, sides, strict=True):
            alone += [f"only in {name}: {_named(section)}" for section in sections if section not in paired]
    return _told_apart(pairs), alone


def pair_columns(every: Sequence[Section], names: Names) -> tuple[list[Pair], list[str]]:
    """Pair the two columns of each section; also returns a line for each section that has only one of them."""
    pairs: list[Pair] = []
    alone: list[str] = []
    for section in every:
        a, b = (_column(section, name) for name in names)
        if a.results and b.results:
            pairs.append(_pair_two_columns(a, b, names))
        else:
            sides = zip(names, (a, b), strict=True)
            alone += [f"only in {section.named(name)}: {_named(section)}" for name, side in sides if side.results]
    return _told_apart(pairs), alone


def name_before(section: str) -> str:
    """Return the title of a section as the start of a line; "" for "", the only section."""
    return f"{section}: " if section else ""


def name_sections(sections: Sequence[Section]) -> list[str]:
    """Return a unique title for each section, as of a pair that it is the baseline of."""
    return [each.title for each in _told_apart([Pair(section, section) for section in sections])]


def _told_apart(pairs: list[Pair]) -> list[Pair]:
    """Give the pairs unique titles: the series' name, otherwise every condition of A that distinguishes them."""
    alike = Counter(pair.title for pair in pairs)
    told = []
    for pair in pairs:
        apart = ""
        if alike[pair.title] > 1:
            group = [each.a for each in pairs if each.title == pair.title]
            names = [name_series(section) for section in group]
            telling = _telling([group])
            words = _words(pair.a)
            name = name_series(pair.a)
            conditions = "".join(f", {key} {words[key]}" for key in telling if key in words)
            apart = f", series {name}" if name and names.count(name) == 1 else conditions
        told.append(replace(pair, apart=apart))
    return told


def _pair_two_columns(a: Section, b: Section, names: tuple[str, str]) -> Pair:
    """Pair two columns, with their software under one name, so that differences are listed side by side."""
    row = Pair(a, b, names).row
    a, b = (replace(side, software={row: side.software[name]}) for side, name in zip((a, b), names, strict=True))
    return Pair(a, b, names)


def _column(section: Section, name: str) -> Section:
    return replace(
        section,
        software={key: software for key, software in section.software.items() if key == name},
        results=tuple(result for result in section.results if result.spec.cell.framework == name),
        by_default=(),
    )


def _paired(a: list[Section], b: list[Section]) -> list[Pair]:
    if len(a) == len(b) == 1:
        return [Pair(a[0], b[0])]
    telling = _telling((a, b))
    keys: tuple[Callable[[Section], tuple[str, ...]], ...] = (
        lambda section: (section.condition.placement.device_kind,),
        lambda section: tuple(_words(section).get(key, "") for key in telling),
    )
    for key in keys:
        of_a, of_b = _grouped(a, key), _grouped(b, key)
        common = [name for name in of_a if name in of_b]
        if common and all(len(of_a[name]) == len(of_b[name]) == 1 for name in common):
            return [Pair(of_a[name][0], of_b[name][0]) for name in common]
    return []


def _telling(sides: Iterable[Sequence[Section]]) -> list[str]:
    """List the conditions that differ between sections of one side."""
    telling: dict[str, None] = {}
    for sections in sides:
        words = pd.DataFrame(map(_words, sections)).fillna("")
        telling |= dict.fromkeys(words.columns[words.nunique() > 1])
    return list(telling)


def _grouped(sections: Sequence[Section], key: Callable[[Section], Key]) -> dict[Key, list[Section]]:
    groups: dict[Key, list[Section]] = {}
    for section in sections:
        if section.results:  # a section with only the framework's default allocator policy has nothing to compare
            groups.setdefault(key(section), []).append(section)
    return groups


def _task(section: Section) -> tuple[Task, Passes]:
    return section.condition.task, section.condition.passes


def _words(section: Section, frameworks: Sequence[str] | None = None) -> dict[str, str]:
    """Describe the condition, and the software of these frameworks, of all if None."""
    return describe_condition(section.condition) | describe_software(section, frameworks)


def _packages(a: Section, b: Section, own: tuple[str, str]) -> tuple[str, str]:
    """List the packages whose versions differ, in place of the digests, which only say that some do."""
    versions: list[dict[str, Any]] = []
    for section, name in zip((a, b), own, strict=True):
        facts = [r.facts.get("packages") for r in section.results if r.spec.cell.framework == name]
        versions.append(next((packages for packages in facts if isinstance(packages, dict)), {}))
    names = sorted(name for name in {*versions[0], *versions[1]} if versions[0].get(name) != versions[1].get(name))
    in_a, in_b = (", ".join(f"{name} {side[name]}" for name in names if name in side) for side in versions)
    return in_a or NOT_REPORTED, in_b or NOT_REPORTED


def _machine(results: Sequence[TrialResult]) -> dict[str, str]:
    """Return facts that are not conditions but may differ between two folders."""
    return {
        name: join_distinct(result.machine.get(key) for result in results) or NOT_REPORTED
        for name, key in (("commit", "commit"), ("host memory, bytes", "memory_bytes"), ("runner's Python", "python"))
    }


def _named(section: Section) -> str:
    words = describe_condition(section.condition)
    rest = ", ".join(f"{key} {words[key]}" for key in ("epochs", "last batch", "profile", "feed"))
    return f"{words['model']} on {words['data set']}, {words['optimizer']}, {rest}, {words['device']}"
