"""Describe a published report in a few facts: its name, its citation, its line in the index."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import msgspec

from workloads.conditions import NOT_REPORTED
from workloads.records import validation
from workloads.records.result import TrialResult
from workloads.records.stored import read_start
from workloads.setting_words import describe_model
from workloads.words import format_count

from ..conditions import read_condition, read_software
from ..frameworks import order_frameworks
from ..load import Stored

FILE = "publication.json"
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_SLUG = 60
AUTHOR = "Batchwise contributors"
ROOT = Path(__file__).parents[2]
CODE, LEFT_OUT = ("reports", "workloads"), ("__pycache__",)
PACKAGES = ("jinja2", "matplotlib", "numpy", "pandas", "scipy")
DIGITS = 16


class ClaimOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tested claim of `article`, the name of a publication by others; `text` may name the {framework}.

    `published`: outcomes of its own figures, by series, null where there are none. `measured`: outcome of ours.
    """

    article: str
    text: str
    framework: str
    published: dict[str, str | None]
    measured: str


class Found(msgspec.Struct, frozen=True):
    """Findings of the report, with the fields of `Publication`."""

    headline: str = ""
    findings: Sequence[str] = ()
    picture: str = ""
    articles: dict[str, str] = {}
    claims: Sequence[ClaimOutcome] = ()


class Publication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a publication, stored as JSON. Older publications lack some of them.

    Days are ISO 8601, UTC: of the first and the last trial, and of publishing (None in an older one). `marks`: why it
    should not have been published. `headline` answers its question and `picture` names the file that shows it; "" in an
    older one. `articles`: {name: source} of those whose `claims` it tests; empty in an older one. `authors` is empty in
    an older one, which counts as written by AUTHOR. `given_title`, `doi` and `url` are "" if not given. `built_by` is
    the digest of the reports' version that built the page, "" in an older one. `labels` are those of frameworks that
    are not known here: {framework: label}, empty in an older one.
    """

    name: str
    title: str
    first_day: str
    last_day: str
    machines: list[str]
    studies: list[str]
    tasks: list[str]  # "osu-cnn on digits"
    frameworks: list[str]  # with versions
    trials: dict[str, int]  # {status: how many}
    commits: list[str]
    findings: list[str]
    marks: list[str]
    published_day: str | None = None
    headline: str = ""
    picture: str = ""
    articles: dict[str, str] = {}
    claims: list[ClaimOutcome] = []
    authors: list[str] = []
    given_title: str = ""
    doi: str = ""
    url: str = ""
    built_by: str = ""
    labels: dict[str, str] = {}
    schema_version: Literal[1] = 1

    @property
    def cited_title(self) -> str:
        """Given title, otherwise one built from what was measured."""
        return self.given_title or f"Batchwise: {self.title}"

    @property
    def count(self) -> str:
        """Count of trials, as "27 trials: 26 ok, 1 timeout"."""
        statuses = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in self.trials.items())
        return f"{format_count(sum(self.trials.values()), 'trial')}: {statuses}"


NOTHING = Found()


def build_publication(stored: Stored, name: str, found: Found = NOTHING, marks: Iterable[str] = ()) -> Publication:
    """Build a publication from results, at least one of which can be read."""
    results = sorted(stored.results, key=read_start)
    days = [read_start(result).date().isoformat() for result in results]
    machines, tasks = _distinct(map(name_machine, results)), _distinct(map(_task, results))
    versions: dict[str, dict[str, None]] = {}
    for result in results:
        versions.setdefault(result.spec.cell.framework, {})[read_software(result).version or ""] = None
    frameworks = [
        f"{stored.named(framework)} {' / '.join(filter(None, versions[framework])) or '(version ' + NOT_REPORTED + ')'}"
        for framework in order_frameworks(versions)
    ]
    names = ", ".join(map(stored.named, order_frameworks(versions)))
    return Publication(
        name,
        f"{names}: {', '.join(tasks)}, {' and '.join(machines)}, {days[0]}",
        days[0],
        days[-1],
        machines,
        _distinct(result.spec.study for result in results),
        tasks,
        frameworks,
        dict(Counter(str(result.status) for result in results).most_common()),
        _distinct(str(result.machine.get("commit") or NOT_REPORTED) for result in results),
        list(found.findings),
        list(marks),
        headline=found.headline,
        picture=found.picture,
        articles=found.articles,
        claims=list(found.claims),
        built_by=digest_reports(),
        labels=dict(stored.named.labels),
    )


def name_machine(result: TrialResult) -> str:
    """Name the GPU, or for a trial on a CPU the processor and its number of cores."""
    condition = read_condition(result)
    if condition.placement.device_kind == "cpu":
        cores = dict(condition.stated)["cores"] or "unknown number of"
        return f"{condition.device_model or 'unknown processor'}, {cores} cores"
    return condition.device_model or "unknown GPU"


def propose_names(stored: Stored) -> tuple[str, str]:
    """Return <date>-<machine> of the first day, and the same with the study, for when the first is taken."""
    results = sorted(stored.results, key=read_start)
    models = [read_condition(result).device_model for result in results]
    short = (
        f"{read_start(results[0]).date().isoformat()}-{make_slug('-'.join(_distinct(m or 'unknown' for m in models)))}"
    )
    return short, f"{short}-{make_slug('-'.join(_distinct(result.spec.study for result in results)))}"


def make_slug(text: str) -> str:
    """Convert "Intel(R) Xeon(R) CPU @ 2.20GHz" to "intel-xeon-cpu-2-20ghz": lower case ASCII letters,
    digits, hyphens.
    """
    plain = unicodedata.normalize("NFKD", re.sub(r"\((R|TM|C)\)", "", text, flags=re.IGNORECASE))
    words = re.sub(r"[^a-z0-9]+", "-", plain.encode("ascii", "ignore").decode().lower()).strip("-")
    return words[:LONGEST_SLUG].strip("-") or "unnamed"


def read(path: Path) -> Publication:
    """Read a publication. Raises ValueError, with the reason, if it is missing, unreadable or of another kind."""
    publication = validation.read(path, Publication)
    if publication is None:
        raise ValueError("cannot be read: no such file")
    return publication


def read_folder(folder: Path) -> Publication | None:
    """Read the publication in a folder; None without a readable one."""
    try:
        return read(folder / FILE)
    except ValueError:
        return None


def format_publication(publication: Publication) -> str:
    """Format as JSON, one key per line, which `read` can read."""
    return json.dumps(msgspec.to_builtins(publication), ensure_ascii=False, indent=1) + "\n"


def _task(result: TrialResult) -> str:
    return f"{describe_model(result.spec.task)} on {result.spec.task.dataset}"


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


@cache
def digest_reports() -> str:
    """Digest of the code, its templates and rules, and of the packages that compute and draw.

    Two builds with the same digest make the same page from the same archive, so a page can be compared as a whole.
    """
    files = [
        path
        for room in CODE
        for path in (ROOT / room).rglob("*")
        if path.is_file() and not set(LEFT_OUT) & set(path.relative_to(ROOT).parts)
    ]
    digest = hashlib.sha256(platform.python_version().encode())
    for package in PACKAGES:
        digest.update(f"\0{package} {version(package)}".encode())
    for path in sorted([*files, ROOT / "RULES.md"]):
        digest.update(f"\0{path.relative_to(ROOT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:DIGITS]
