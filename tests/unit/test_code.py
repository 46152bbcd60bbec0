"""Our code in a trial's id: the id depends on what the code means, for one framework, and not on how it is written."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from conftest import PROJECT, ROOT

from runner.environments.code import code_digest, worker_modules
from runner.project import Project

FRAMEWORK = "numpy"
MODULES = worker_modules(PROJECT, FRAMEWORK)
DESCRIBED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FOLDERS = ("adapters", "docker", "examples", "reports", "runner", "tests", "tools", "workloads")
PRIVATE_WORDS = {"of", "told", "tells", "beside", "behind", "worth", "moved", "alone", "silence", "in_words", "made"}
NEITHER_VERB_NOR_NOUN = re.compile(r"(Of|As|By|With|What|Whom|Those|Where|Whether|Without|Which|Who|That)\b")
STATEMENTS = [name for name, path in MODULES.items() if ast.parse(path.read_text()).body[1:]]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for room in ("workloads", "adapters"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__", "data"))
    return Project.at(tmp_path)


@pytest.mark.slow
def test_docstrings_comments_and_blank_lines_leave_every_id_as_it_is(project: Project) -> None:
    before = {framework: code_digest(project, framework) for framework in project.frameworks}
    paths = {name: path for each in project.frameworks for name, path in worker_modules(project, each).items()}
    assert paths.keys() > MODULES.keys()
    for module, path in paths.items():
        text = re.sub(r'"""(?=\w)', '"""Otherwise said: ', path.read_text())
        text = text.replace("\n\n\n", "\n\n\n# a comment\n\n")
        path.write_text(f"{text}\n\n# the end\n")
        assert module not in MODULES or code_digest(project, FRAMEWORK) == before[FRAMEWORK], module
    assert {framework: code_digest(project, framework) for framework in project.frameworks} == before


@pytest.mark.slow
def test_a_changed_statement_of_any_module_changes_the_id(project: Project) -> None:
    paths, digest = worker_modules(project, FRAMEWORK), code_digest(project, FRAMEWORK)
    unseen = []
    for module in STATEMENTS:
        text = paths[module].read_text()
        digests = [digest]
        for number in (1, 2):
            paths[module].write_text(f"{text}\nADDED = {number}\n")
            digests.append(code_digest(project, FRAMEWORK))
        unseen += [module] if len(set(digests)) < 3 else []
        digest = digests[-1]
    assert len(STATEMENTS) > 40 and not unseen


def test_a_change_of_one_adapter_leaves_the_ids_of_the_others(project: Project) -> None:
    before = {framework: code_digest(project, framework) for framework in project.frameworks}
    layers = project.root / "adapters" / "pytorch" / "layers.py"
    layers.write_text(layers.read_text() + "\nADDED = 1\n")
    after = {framework: code_digest(project, framework) for framework in project.frameworks}
    assert [framework for framework in before if before[framework] != after[framework]] == ["pytorch"]


def test_what_no_worker_imports_is_in_no_id(project: Project) -> None:
    before = code_digest(project, FRAMEWORK)
    for path in ("workloads/study.py", "workloads/records/memory_line.py", "workloads/records/figures.py"):
        (project.root / path).write_text("raise SystemExit\n")
    assert code_digest(project, FRAMEWORK) == before


def test_the_modules_of_a_worker_are_those_that_its_programs_load() -> None:
    code = f"import sys, adapters.worker.__main__, adapters.{FRAMEWORK}.adapter\n"
    code += "print(*(name for name in sys.modules if name.split('.')[0] in ('adapters', 'workloads')))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) == set(MODULES)


def test_no_worker_imports_what_needs_scipy() -> None:
    assert not any("workloads.statistics" in worker_modules(PROJECT, name) for name in PROJECT.frameworks)


def test_no_worker_reads_its_docstrings() -> None:
    """Docstrings are in no id."""
    for framework in PROJECT.frameworks:
        for name, path in worker_modules(PROJECT, framework).items():
            assert "__doc__" not in path.read_text(), name


@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_ids_are_the_same_under_every_python(version: str) -> None:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [*sorted(pyenv.glob(f"versions/{version}.*/bin/python")), shutil.which(f"python{version}")]
    code = "from runner.environments.code import code_digest; from runner.project import Project\n"
    code += "project = Project.of_this_code(); print(*(code_digest(project, name) for name in project.frameworks))"
    starts = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True)
    python = next((str(each) for each in found if each and starts([each, "-c", ""]).returncode == 0), None)
    if python is None:  # a shim may lead nowhere
        pytest.skip(f"there is no Python {version} here")
    answer = starts([python, "-c", code])
    assert answer.stdout.split() == [code_digest(PROJECT, name) for name in PROJECT.frameworks], answer.stderr


def docstrings() -> Iterator[tuple[str, str]]:
    """(file:line, text) of every docstring of the project's Python files."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, DESCRIBED) and (text := ast.get_docstring(node)):
                    yield f"{path.relative_to(ROOT)}:{node.body[0].lineno}", text


def badly_begun() -> list[str]:
    """List the docstrings that begin with neither a verb nor a noun, as file:line and their first line."""
    return [f"{where}: {text.splitlines()[0]}" for where, text in docstrings() if NEITHER_VERB_NOR_NOUN.match(text)]


@pytest.mark.slow
def test_every_docstring_begins_with_a_verb_or_a_noun() -> None:
    assert badly_begun() == []


def test_no_function_of_the_product_has_a_name_that_only_its_makers_understand() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for folder in ("adapters", "reports", "runner", "workloads")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.lstrip("_") in PRIVATE_WORDS
    ]
    assert named == []


def class_definitions() -> Iterator[tuple[str, str]]:
    """(class, file) of every class of the product; the adapters of the frameworks share names on purpose."""
    for folder in ("adapters", "reports", "runner", "workloads"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.relative_to(ROOT).parts[:2] not in [
                ("adapters", name) for name in (*PROJECT.frameworks, "keras_shared")
            ]:
                nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                yield from ((node.name, str(path)) for node in nodes if isinstance(node, ast.ClassDef))


@pytest.mark.slow
def test_no_class_name_has_two_meanings() -> None:
    files: dict[str, list[str]] = {}
    for name, path in class_definitions():
        files.setdefault(name, []).append(path)
    assert len(files) > 200 and {name: paths for name, paths in files.items() if len(paths) > 1} == {}
