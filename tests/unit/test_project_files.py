"""The files that a newcomer meets first: they agree with each other, and refer to nothing that is not there."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml
from each import for_each

from adapters.base import Adapter
from workloads.records.columns import COLUMNS, DRIVER_COLUMNS
from workloads.records.events import Event
from workloads.records.status import Status

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs/**", "examples", "reports/reproduction/publications")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in ROOT.glob(f"{folder}/*.md"))])
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# Top level of the Citation File Format 1.2.0: https://github.com/citation-file-format/citation-file-format
CITATION_KEYS = {
    "abstract", "authors", "cff-version", "commit", "contact", "date-released", "doi", "identifiers", "keywords",
    "license", "license-url", "message", "preferred-citation", "references", "repository", "repository-artifact",
    "repository-code", "title", "type", "url", "version",
}  # fmt: skip


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def anchors(page: Path) -> set[str]:
    """Anchors of the page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@for_each("page", PAGES)
def test_every_link_of_a_page_leads_to_a_file_and_heading_of_this_repository(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        inside = target.is_relative_to(ROOT) and target.exists()
        if not inside or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_of_the_documentation_is_on_the_map() -> None:
    text = (ROOT / "docs" / "README.md").read_text()
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")} - {"README.md"}
    assert {page for page in pages if f"]({page})" not in text} == set()


def test_every_example_is_named_on_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES if page.name != "CHANGELOG.md")
    examples = [path.name for path in ROOT.glob("examples/*") if path.is_file()]
    assert examples and [name for name in examples if name not in text] == []


def test_a_script_of_the_tests_that_a_page_names_finds_our_packages() -> None:
    """Python puts the script's folder on its path, not the checkout."""
    named = {name for page in PAGES for name in re.findall(r"python (tests/\w+/\w+\.py)", page.read_text())}
    lost = []
    for name in sorted(named):
        text = (ROOT / name).read_text()
        ours = re.search(r"^from (?:adapters|conftest|reports|runner|tools|workloads)\b", text, re.MULTILINE)
        found = re.search(r"^ *(?:sys\.path\b|import simulate_verdicts$)", text, re.MULTILINE)
        if ours and not (found and found.start() < ours.start()):
            lost.append(name)
    assert named and lost == []


def test_who_installs_requirements_is_told_to_install_what_they_pin_alone() -> None:
    """pip may want a version that has no hash, unless it gets --no-deps."""
    code = [path for package in ("reports", "runner", "workloads") for path in ROOT.glob(f"{package}/**/*.py")]
    texts = [path.read_text() for path in (*PAGES, *code)]
    told = [line for text in texts for line in re.findall(r"pip install.* -r requirements-\w+\.txt", text)]
    assert len(told) >= 6 and [line for line in told if "--no-deps --require-hashes" not in line] == []


def test_pages_say_how_much_disk_the_environments_for_a_cpu_take() -> None:
    every = [tomllib.loads(path.read_text()) for path in ROOT.glob("adapters/*/environment.toml")]
    core = [each for each in every if each.get("thesis") or each.get("referee")]
    for page, made in (("README.md", core), ("docs/start.md", core), ("docs/extend/a-framework.md", every)):
        size_gb = sum(each["cpu"]["disk_mib"] for each in made) * 2**20 / 1e9
        assert re.search(rf"\b{size_gb:.0f} GB\b", (ROOT / page).read_text()), (page, size_gb)


@for_each("page", sorted([ROOT / "docs" / "start.md", *ROOT.glob("docs/guide/*.md")]))
def test_a_guide_page_has_at_most_800_words_and_no_table_of_measurements(page: Path) -> None:
    text = page.read_text()
    rows = [row.strip("| ").split("|") for row in text.splitlines() if row.startswith("|")]
    numbers = [row for row in rows if sum(bool(re.match(r"\s*[-±]?\d[\d.,]* ?\S*\s*$", cell)) for cell in row) > 1]
    assert len(text.split()) <= 800
    assert numbers == []


def test_the_readme_has_at_most_130_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130


def test_the_citation_file_is_of_its_format_and_tells_the_projects_version_and_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"authors", "cff-version", "message", "title"} <= citation.keys() <= CITATION_KEYS
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    assert (str(citation["version"]), citation["license"]) == (project()["version"], project()["license"])
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in project()["authors"]]
    assert len(set(citation["keywords"])) == len(citation["keywords"])


def test_what_the_package_asks_for_is_what_the_requirements_pin() -> None:
    def canonical(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    texts = [(ROOT / path).read_text() for path in ("requirements.txt", "runner/requirements.txt")]
    pinned = {canonical(name) for text in texts for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}
    asked = {canonical(re.split(r"[=<>]", requirement)[0]) for requirement in project()["dependencies"]}
    (command,) = re.findall(r"python tools/pin\.py (.*)$", texts[0], re.MULTILINE)
    assert asked <= pinned
    assert asked == {canonical(word.split("==")[0]) for word in command.split()}


def test_every_key_of_an_environment_has_its_row_on_the_page_about_another_framework() -> None:
    page = (ROOT / "docs" / "extend" / "adapter-reference.md").read_text()
    keys = set()
    for path in ROOT.glob("adapters/*/environment.toml"):
        definition = tomllib.loads(path.read_text())
        devices = [definition[kind] for kind in ("cpu", "cuda", "cuda-nvidia") if kind in definition]
        keys |= {f"profile.{name}" for name in definition.pop("profile", {})}
        keys |= definition.keys() | {key for device in devices for key in device}
    assert {key for key in keys if f"`{key}`" not in page and f"`[{key}]`" not in page} == set()


def test_every_verb_of_an_adapter_is_on_the_page_about_another_framework() -> None:
    page = (ROOT / "docs" / "extend" / "adapter-reference.md").read_text()
    verbs = {name for name in vars(Adapter) if not name.startswith("_")}
    assert {verb for verb in verbs if not re.search(rf"`{verb}\b", page)} == set()


def test_every_event_and_column_is_on_the_page_about_the_files_of_a_result() -> None:
    page = (ROOT / "docs" / "reference" / "records.md").read_text()
    names = {*map(str, Event), *COLUMNS, *DRIVER_COLUMNS}
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_every_status_is_on_the_page_about_the_files_of_a_result() -> None:
    page = (ROOT / "docs" / "reference" / "records.md").read_text()
    assert {status for status in map(str, Status) if f"`{status}`" not in page} == set()


def copy_makefile(folder: Path) -> None:
    """Copy the Makefile with the files that .venv is made from."""
    for name in ("Makefile", "requirements.txt", "runner/requirements.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())


def write_program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@for_each("system", ["Darwin arm64", "Linux aarch64", "Linux x86_64"])
def test_make_says_for_which_system_and_python_packages_are_pinned_before_it_makes_anything(
    system: str, tmp_path: Path
) -> None:
    """On another one pip would say that a package may have been tampered with."""
    copy_makefile(tmp_path)
    write_program(tmp_path / "uname", f"echo {system}")
    python = write_program(tmp_path / "python3.14", "exit 1")
    done = subprocess.run(
        ["make", ".venv/.complete", f"PYTHON={python}"],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    needed = "Python 3.11 and 3.12; give one" if system == "Linux x86_64" else f"Linux x86-64; this is {system}"
    assert done.returncode == 2 and f"make: packages are pinned for {needed}" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_make_does_not_empty_what_a_linked_venv_leads_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("")
    (tmp_path / ".venv").symlink_to("elsewhere")
    copy_makefile(tmp_path)
    done = subprocess.run(["make", ".venv/.complete"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and ".venv is a link" in done.stderr
    assert (tmp_path / "elsewhere" / "kept").exists()


def test_make_help_names_every_target_that_a_user_may_want() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    targets = {"bench", "setup", "test", "test-all", "test-conformance", "images", "docs", "check-adapter"}
    assert {name for name in targets if f"make {name}" not in done.stdout and f"{name}," not in done.stdout} == set()
    assert "PYTHON ?=" not in done.stdout
