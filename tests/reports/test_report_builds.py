"""Builds of one framework in adjacent, distinct rows. Earlier results of the same name are never mixed in."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from each import for_each
from stored import make, numbers, rows, run, store, trial
from test_report_styles import CLEARLY, SIGHTS, apart

from reports import build, export, load, parity
from reports.conditions import group_into_sections
from reports.frameworks import KNOWN, FrameworkNames, choose_styles, order_frameworks
from workloads.records.figures import Figure
from workloads.records.job import OF_THE_CALLER
from workloads.records.result import TrialResult

BUILDS = ("pytorch", "pytorch@nightly", "pytorch@stable")
OWN: dict[str, Any] = {"isolation": OF_THE_CALLER, "environment": "aaaa-bbbb"}


def built(name: str, batch_size: int = 32, repeat: int = 0, **changes: Any) -> TrialResult:
    return trial(name, batch_size, repeat, **(OWN if "@" in name else {}) | changes)


def test_builds_have_names_and_markers_of_their_own_behind_their_framework() -> None:
    names = ["mxnet", "pytorch@stable", "jax@b", "pytorch@nightly", "tensorflow@a", "pytorch", "jax"]
    expected = ["tensorflow@a", "pytorch", "pytorch@nightly", "pytorch@stable", "mxnet", "jax", "jax@b"]
    assert order_frameworks(names) == order_frameworks(reversed(names)) == expected
    assert [*map(FrameworkNames(), BUILDS)] == ["PyTorch", "PyTorch @nightly", "PyTorch @stable"]
    looks = choose_styles([*KNOWN, *BUILDS])
    assert {name: looks[name] for name in KNOWN} == KNOWN
    assert len({style.marker for style in looks.values()}) == len(looks)


@for_each("framework", KNOWN)
@for_each("sight", SIGHTS)
def test_two_builds_differ_in_colour_from_every_framework_with_every_colour_vision(framework: str, sight: str) -> None:
    colours = [style.colour for style in choose_styles([*KNOWN, f"{framework}@a", f"{framework}@b"]).values()]
    for one, other in itertools.combinations(colours, 2):
        assert apart(one, other, sight) > CLEARLY, (one, other)


def test_each_build_is_a_row_a_column_of_facts_and_a_pair_of_the_parity(tmp_path: Path) -> None:
    trials = [built(name, 32, repeat) for name in BUILDS for repeat in range(3)]
    store(tmp_path, *trials)
    folder = tmp_path / "report"
    export.write(build.build_report([tmp_path]), folder, ("md", "csv", "latex"))
    assert list(rows(folder / "speed.md"))[1:] == ["PyTorch", "PyTorch @nightly", "PyTorch @stable"]
    assert [row["framework"] for row in numbers(folder / "speed.csv")] == list(BUILDS)
    report = build.build_report([tmp_path])
    compared = parity.compare(*report.sections)
    pairs = list(zip(compared["framework_a"], compared["framework_b"], strict=True))
    assert pairs == list(itertools.combinations(BUILDS, 2))
    assert set(compared["verdict"]) == {"agree"}
    assert "PyTorch @nightly" in (folder / "speed.tex").read_text()
    *_, software = report.chapters[0].conditions
    assert software.startswith("Environments and packages, by checksum: ")
    assert "PyTorch @nightly environment own interpreter, aaaa-bbbb" in software
    assert "PyTorch environment e1" in software


def test_the_callers_build_and_the_pinned_one_under_one_name_are_never_in_one_table_but_as_columns(
    tmp_path: Path,
) -> None:
    pinned = trial(started_at="2025-11-21T09:00:00+00:00")
    own = trial(**OWN, figures={"images_per_s": Figure(7.0, "worker")})
    assert pinned.spec.id != own.spec.id
    store(tmp_path, pinned, own)
    parts, replaced = group_into_sections(load.read(tmp_path).results)
    assert len(parts) == 2 and not replaced
    made = make(tmp_path, tmp_path / "report", columns=True)
    assert list(rows(tmp_path / "report" / "speed.md")["PyTorch"]) and len(made.report.legend) == 2
    heads = next(iter(rows(tmp_path / "report" / "speed.md").items()))
    assert heads[1] == ["32 A", "32 B"]
    assert "own interpreter" in " ".join(made.report.legend.values())


def test_a_build_is_compared_with_itself_alone(tmp_path: Path) -> None:
    folders = []
    for day in ("20", "21"):
        at: dict[str, Any] = {"started_at": f"2025-11-{day}T10:00:00+00:00"}
        nightly = [built("pytorch@nightly", 32, repeat, **at) for repeat in range(3)]
        folders.append(store(tmp_path / day, *nightly, built("pytorch", **at)))
    done = run("compare", *folders)
    assert done.returncode == 0, done.stderr
    assert "PyTorch @nightly" in done.stdout
