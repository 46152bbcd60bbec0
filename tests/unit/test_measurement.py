"""The measurement version: said in every result, and explained."""

from __future__ import annotations

from conftest import PROJECT, ROOT

from runner.machine import description
from runner.measurement import MEASUREMENT_VERSION


def test_every_version_has_its_line_in_the_changelog() -> None:
    section = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## Measurement versions\n")[1]
    lines = section.split("\n## ")[0].splitlines()
    for version in range(1, MEASUREMENT_VERSION + 1):
        assert any(line.startswith(f"- **{version}**: ") for line in lines), version


def test_a_result_has_the_version_and_beside_it_where_it_comes_from() -> None:
    machine = description.describe(PROJECT, "cpu", [])
    assert machine["measurement_version"] == MEASUREMENT_VERSION
    assert machine["runner_digest"] and "commit" in machine
