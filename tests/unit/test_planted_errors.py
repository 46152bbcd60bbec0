"""The page of planted errors names each of them, the checks that each demands, and all checks that reject a trial."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from workloads.records.check_name import COUNTS, LATE_NAMES, CheckName

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "planted-errors.md"
BROKEN = ROOT / "tests" / "conformance" / "broken"
ROW = re.compile(r"^\| (?P<error>[^|]+) \| (?P<planted>`[^|]+`) \|(?: (?P<checks>[^|]+) \|)?$", re.MULTILINE)


def rows() -> dict[str, set[str]]:
    """{planted error: the checks of its row}; a name in two rows is an error."""
    named: dict[str, set[str]] = {}
    for row in ROW.finditer(PAGE.read_text()):
        for name in re.findall(r"`(\w+)`", row["planted"]):
            assert name not in named, f"{name} is in two rows"
            named[name] = {check.strip() for check in (row["checks"] or "").split(";") if check}
    return named


def announced(path: Path) -> set[str]:
    """The checks that a late error says must fail: read, not imported, as its framework is not here."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "(FRAMEWORK, CAUGHT_BY)":
            checks: set[str] = ast.literal_eval(node.value)[1]
            return checks
    raise AssertionError(f"{path} does not say what it breaks")


def test_every_planted_error_is_in_the_table_of_classes_and_nothing_else_is() -> None:
    assert sorted(rows()) == sorted(path.stem for path in BROKEN.rglob("*.py"))


def test_the_table_names_for_each_late_error_the_checks_that_its_file_demands() -> None:
    late = {path.stem: announced(path) for path in (BROKEN / "late").glob("*.py")}
    assert late and {name: rows()[name] for name in late} == late


def test_the_table_names_every_check_that_can_reject_a_trial() -> None:
    cells = {check.strip() for line in PAGE.read_text().splitlines() for check in line.split("|")[-2:-1]}
    named = {check.strip() for cell in cells for check in cell.split(";")}
    assert named >= {str(name) for name in (*COUNTS, *LATE_NAMES)} and f"`{CheckName.GATE}`" in PAGE.read_text()
